//! Presence: who is online, and who is typing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::time::Timestamp;

crate::words! {
    #[derive(JsonSchema)]
    #[schemars(inline)]
    Presence {
        Available = "available",
        Unavailable = "unavailable",
        Typing = "typing",
        Recording = "recording",
        /// No longer typing or recording.
        Paused = "paused",
    }
}

impl Presence {
    /// Whether it concerns the whole account, whichever chat is named.
    pub fn is_of_account(self) -> bool {
        matches!(self, Self::Available | Self::Unavailable)
    }

    /// Whether it expires after a while.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::Typing | Self::Recording)
    }
}

/// What is known of the presence of a person, or of the members of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PresenceState {
    pub id: Address,
    pub presence: Seen,
    /// Time when the person was last online, in Unix seconds; `null` if unknown.
    pub last_seen_at: Option<i64>,
    pub updated_at: Option<Timestamp>,
    /// Members of a group with their presence; empty for a person.
    pub participants: Vec<PresentMember>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PresentMember {
    pub id: Address,
    pub presence: Presence,
}

/// A presence, or `unknown` if none has been reported yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Seen {
    Available,
    Unavailable,
    Typing,
    Recording,
    Paused,
    Unknown,
}

impl From<Presence> for Seen {
    fn from(presence: Presence) -> Self {
        match presence {
            Presence::Available => Self::Available,
            Presence::Unavailable => Self::Unavailable,
            Presence::Typing => Self::Typing,
            Presence::Recording => Self::Recording,
            Presence::Paused => Self::Paused,
        }
    }
}

impl PresenceState {
    /// The state of a contact whose presence was never reported.
    pub fn unknown(id: Address) -> Self {
        Self { id, presence: Seen::Unknown, last_seen_at: None, updated_at: None, participants: Vec::new() }
    }
}
