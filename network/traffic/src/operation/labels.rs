//! What is asked about the labels of a business account.

use model::address::Address;
use model::label::{KnownLabel, LabelChanges, LabelColor, Labelled};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LabelOperation {
    /// All labels, and what bears them; an account that is no business has none.
    List,
    /// A new label. Where no colour is named, it has the first that no label has.
    Create { name: String, color: Option<LabelColor> },
    /// Another name or colour.
    Change { label: String, changes: LabelChanges },
    /// What bears it bears it no more.
    Delete { label: String },
    /// Puts a label on something.
    Put { label: String, on: Labelled },
    /// Takes it off.
    Take { label: String, from: Labelled },
    /// Makes these the only labels of a chat.
    Set { chat: Address, labels: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LabelAnswer {
    Done,
    Label(KnownLabel),
    Labels(LabelState),
}

/// All labels of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelState {
    pub labels: Vec<KnownLabel>,
    pub borne: Vec<Borne>,
}

/// The labels of a chat, or of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Borne {
    pub by: Labelled,
    pub labels: Vec<String>,
}
