//! What is asked about the labels of a business account.

use model::address::Address;
use model::label::{KnownLabel, LabelChanges, LabelColor, Labelled};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LabelOperation {
    /// All labels, and what bears them; an account that is no business has none.
    List,
    Create {
        name: String,
        /// Where none is named, the first that no label has.
        color: Option<LabelColor>,
    },
    Change {
        label: String,
        changes: LabelChanges,
    },
    /// What bears it bears it no more.
    Delete {
        label: String,
    },
    Put {
        label: String,
        on: Labelled,
    },
    Take {
        label: String,
        from: Labelled,
    },
    /// Makes these the only labels of a chat.
    Set {
        chat: Address,
        labels: Vec<String>,
    },
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
