//! Operations on groups.

use model::address::Address;
use model::group::{Group, GroupChanges, GroupPreview, JoinRequest, Joined, ParticipantAction, ParticipantResult};
use serde::{Deserialize, Serialize};

use super::picture::Picture;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GroupOperation {
    /// Returns all groups that the channel is in.
    List,
    /// Returns a group with its members.
    Show { group: Address },
    /// Creates a group.
    Create { subject: String, participants: Vec<Address> },
    /// Changes subject, description or settings.
    Change { group: Address, changes: GroupChanges },
    /// Sets the picture; `None` removes it.
    SetPicture { group: Address, picture: Option<Picture> },
    /// Adds, removes, promotes or demotes members.
    Participants { group: Address, action: ParticipantAction, participants: Vec<Address> },
    /// Leaves the group.
    Leave { group: Address },
    /// Returns the invite code.
    Invite { group: Address },
    /// Replaces the invite code; the old one becomes invalid.
    RevokeInvite { group: Address },
    /// Returns the group behind an invite code.
    Preview { invite_code: String },
    /// Joins by an invite code, or requests to join.
    Join { invite_code: String },
    /// Returns the pending requests to join.
    JoinRequests { group: Address },
    /// Approves or rejects requests to join.
    DecideRequests { group: Address, approve: bool, participants: Vec<Address> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GroupAnswer {
    Done,
    Groups(Vec<Group>),
    Group(Group),
    Created { group: Group, participants_result: Vec<ParticipantResult> },
    Picture { picture_url: Option<String> },
    Participants(Vec<ParticipantResult>),
    Invite { invite_code: String },
    Preview(GroupPreview),
    Joined(Joined),
    JoinRequests(Vec<JoinRequest>),
}
