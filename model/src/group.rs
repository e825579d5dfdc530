//! Groups as the API shows them; the driver reports the same shape.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::{Address, Suffixes};

/// A group as the channel sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    pub id: Address,
    pub subject: String,
    pub description: Option<String>,
    /// Time of creation in Unix seconds; `null` if unknown.
    pub created_at: Option<i64>,
    pub created_by: Option<Address>,
    pub participants: Vec<GroupParticipant>,
    /// Invite code; `null` unless the channel is an admin and the code has been fetched.
    pub invite_code: Option<String>,
    /// Whether only admins may send.
    pub announce: bool,
    /// Whether only admins may edit the group's data.
    pub restrict: bool,
    /// Seconds after which messages disappear; `0` for never.
    pub ephemeral: u32,
    /// Whether every member may add others.
    pub member_add_mode: bool,
    /// Whether admins approve who joins.
    pub join_approval_mode: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupParticipant {
    /// The member's address.
    pub id: Address,
    /// Rank of the member.
    pub rank: Rank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    Creator,
    Admin,
    Member,
}

impl Rank {
    pub fn is_admin(self) -> bool {
        self != Self::Member
    }
}

/// An invitation to a group.
#[derive(Serialize, JsonSchema)]
pub struct GroupInvite {
    /// The invite link.
    invite_url: String,
    invite_code: String,
}

impl GroupInvite {
    pub fn of(invite_code: String, suffixes: &Suffixes) -> Self {
        // The invite site of the real network does not follow from the domain of its groups.
        let site = if suffixes.group == "g.us" { "whatsapp.com" } else { &suffixes.group };
        Self { invite_url: format!("https://chat.{site}/{invite_code}"), invite_code }
    }
}

/// The changed fields of a group, with their new values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupChanges {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The new description; empty if it was cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restrict: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_add_mode: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_approval_mode: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<u32>,
}

impl Group {
    /// Applies the fields that differ and returns those.
    pub fn change(&mut self, changes: GroupChanges) -> GroupChanges {
        changes.apply(Changeable {
            subject: &mut self.subject,
            description: &mut self.description,
            announce: &mut self.announce,
            restrict: &mut self.restrict,
            member_add_mode: &mut self.member_add_mode,
            join_approval_mode: &mut self.join_approval_mode,
            ephemeral: &mut self.ephemeral,
        })
    }

    pub fn rank_of(&self, member: &Address) -> Option<Rank> {
        self.participants.iter().find(|participant| participant.id == *member).map(|participant| participant.rank)
    }
}

impl GroupChanges {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the fields that differ and returns those. An empty description clears it.
    pub fn apply(self, group: Changeable<'_>) -> Self {
        fn set<T: PartialEq + Clone>(field: &mut T, to: Option<T>) -> Option<T> {
            let to = to.filter(|to| to != field)?;
            field.clone_from(&to);
            Some(to)
        }
        let described =
            self.description.filter(|text| text.as_str() != group.description.as_deref().unwrap_or_default());
        if let Some(text) = &described {
            *group.description = Some(text.clone()).filter(|text| !text.is_empty());
        }
        Self {
            subject: set(group.subject, self.subject),
            description: described,
            announce: set(group.announce, self.announce),
            restrict: set(group.restrict, self.restrict),
            member_add_mode: set(group.member_add_mode, self.member_add_mode),
            join_approval_mode: set(group.join_approval_mode, self.join_approval_mode),
            ephemeral: set(group.ephemeral, self.ephemeral),
        }
    }
}

/// The fields of a group that [`GroupChanges`] can change, wherever they are stored.
pub struct Changeable<'a> {
    pub subject: &'a mut String,
    pub description: &'a mut Option<String>,
    pub announce: &'a mut bool,
    pub restrict: &'a mut bool,
    pub member_add_mode: &'a mut bool,
    pub join_approval_mode: &'a mut bool,
    pub ephemeral: &'a mut u32,
}

crate::words! {
    /// The action on participants of a group.
    ParticipantAction {
        Add = "add",
        Remove = "remove",
        Promote = "promote",
        Demote = "demote",
    }
}

/// Result of an action for one participant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParticipantResult {
    /// Address of the participant.
    pub id: Address,
    pub status: ParticipantStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Invite code for a person who has to be invited; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite_code: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParticipantStatus {
    Ok,
    NotFound,
    NotAuthorized,
    AlreadyMember,
    NotMember,
    InviteRequired,
    Blocked,
    RateLimited,
    Failed,
}

impl ParticipantStatus {
    /// Explains a failure to the caller; `None` on success.
    fn message(self) -> Option<&'static str> {
        Some(match self {
            Self::Ok => return None,
            Self::NotFound => "not registered, or has not asked to join",
            Self::NotAuthorized => "the creator's rank is nobody's to take",
            Self::AlreadyMember => "a member already",
            Self::NotMember => "not a member",
            Self::InviteRequired => "may not be added; send the invite code instead",
            Self::Blocked => "has blocked the channel, or is blocked by it",
            Self::RateLimited => "too many were added; try again later",
            Self::Failed => "the network did not do it; the group may be full",
        })
    }
}

impl ParticipantResult {
    /// Adds the text that explains a failure to the caller.
    pub fn explained(mut self) -> Self {
        self.message = self.message.or_else(|| self.status.message().map(str::to_owned));
        self
    }
}

/// A group as its invite code shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupPreview {
    pub id: Address,
    pub subject: String,
    pub description: Option<String>,
    /// Time of creation in Unix seconds; `null` if unknown.
    pub created_at: Option<i64>,
    pub created_by: Option<Address>,
    /// Number of members.
    pub size: u32,
    pub announce: bool,
    pub join_approval_mode: bool,
}

/// Result of joining a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    pub id: Address,
    pub status: JoinStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinStatus {
    Joined,
    PendingApproval,
}

/// A request to join a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinRequest {
    pub id: Address,
    pub lid: Option<Address>,
    /// Time of the request in Unix seconds.
    pub requested_at: i64,
}

/// How the channel came to be in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum GroupOrigin {
    Created,
    Added,
    Joined,
}

/// How a member joined a group (`group.participant_added`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddedReason {
    Added,
    InviteLink,
    Approved,
}

/// How a member left a group (`group.participant_removed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovedReason {
    Removed,
    Left,
}
