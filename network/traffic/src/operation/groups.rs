//! What is asked about groups.

use model::address::Address;
use model::group::{Group, GroupChanges, GroupPreview, JoinRequest, Joined, ParticipantAction, ParticipantResult};
use serde::{Deserialize, Serialize};

use super::picture::Picture;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GroupOperation {
    /// All groups that the channel is in.
    List,
    /// One group with its members.
    Show { group: Address },
    /// Makes a group.
    Create { subject: String, participants: Vec<Address> },
    /// Subject, description or settings.
    Change { group: Address, changes: GroupChanges },
    /// `None` takes the picture away.
    SetPicture { group: Address, picture: Option<Picture> },
    /// Adds, removes, promotes or demotes people.
    Participants { group: Address, action: ParticipantAction, participants: Vec<Address> },
    /// The channel leaves.
    Leave { group: Address },
    /// The invite code.
    Invite { group: Address },
    /// A new invite code; the old one is worthless.
    RevokeInvite { group: Address },
    /// What a code leads to.
    Preview { invite_code: String },
    /// Enters by a code, or asks to.
    Join { invite_code: String },
    /// Those who wait to be let in.
    JoinRequests { group: Address },
    /// Lets those who wait in, or turns them away.
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
