//! Groups and newsletters in the shapes of the gateway's own routes (interface 2.7, supplement 12 and 14).

use model::address::Address;
use serde::{Deserialize, Serialize};

pub use crate::simulator::engine::groups::{Action, GroupSettings, Outcome, Rank};
pub use crate::simulator::engine::newsletters::Role;

/// `POST /phones/{n}/groups`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewGroup {
    pub subject: String,
    #[serde(default)]
    pub participants: Vec<String>,
}

/// `POST /phones/{n}/groups/{id}/participants`.
#[derive(Clone, Debug, Deserialize)]
pub struct ParticipantsChange {
    pub action: Action,
    pub participants: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParticipantResult {
    pub id: Address,
    pub status: Outcome,
}

/// A group as one of its members sees it; every field always present.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownGroup {
    pub id: Address,
    pub subject: String,
    pub description: Option<String>,
    pub created_at: i64,
    pub created_by: Address,
    pub participants: Vec<GroupParticipant>,
    pub invite_code: Option<String>,
    pub announce: bool,
    pub restrict: bool,
    pub ephemeral: u32,
    pub member_add_mode: bool,
    pub join_approval_mode: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupParticipant {
    pub id: Address,
    pub rank: Rank,
}

/// `POST /phones/{n}/newsletters`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewNewsletter {
    pub name: String,
    pub description: Option<String>,
}

/// A newsletter as a phone sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownNewsletter {
    pub id: Address,
    pub name: String,
    pub description: Option<String>,
    pub role: Role,
    pub subscriber_count: usize,
    pub created_at: i64,
}
