//! Operations on the labels of a business account.

use model::address::Address;
use model::label::{KnownLabel, LabelChanges, LabelColor, Labelled};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LabelOperation {
    /// Returns all labels and what they are on; empty for an account that is not a business.
    List,
    /// Creates a label. Without a colour it gets the first unused one.
    Create { name: String, color: Option<LabelColor> },
    /// Changes name or colour.
    Change { label: String, changes: LabelChanges },
    /// Deletes a label and removes it from everything.
    Delete { label: String },
    /// Puts a label on a chat or a message.
    Put { label: String, on: Labelled },
    /// Removes a label from a chat or a message.
    Take { label: String, from: Labelled },
    /// Replaces the labels of a chat.
    Set { chat: Address, labels: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LabelAnswer {
    Done,
    Label(KnownLabel),
    Labels(LabelState),
}

/// All labels of an account, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelState {
    pub labels: Vec<KnownLabel>,
    pub borne: Vec<Borne>,
}

/// The labels of a chat or a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Borne {
    pub by: Labelled,
    pub labels: Vec<String>,
}
