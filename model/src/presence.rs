//! Presence: how a subscriber is, and what it does in a chat (supplement 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    Available,
    Unavailable,
    Typing,
    Recording,
    /// Neither typing nor recording any more.
    Paused,
}

impl Presence {
    /// Whether it is the account's, and not one chat's.
    pub fn is_of_account(self) -> bool {
        matches!(self, Self::Available | Self::Unavailable)
    }
}
