//! Operations on communities.

use model::address::Address;
use model::community::{CommunityChanges, KnownCommunity};
use model::group::{Group, Joined, ParticipantAction, ParticipantResult};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CommunityOperation {
    /// Returns all communities that the channel is in.
    List,
    /// Returns a community with its groups.
    Show { community: Address },
    /// Creates a community from existing groups.
    Create { subject: String, description: Option<String>, groups: Vec<Address> },
    /// Changes subject, description or settings.
    Change { community: Address, changes: CommunityChanges },
    /// Dissolves the community; its groups stay.
    Deactivate { community: Address },
    /// Creates a group in the community.
    CreateGroup { community: Address, subject: String, participants: Vec<Address> },
    /// Adds an existing group to the community.
    AddGroup { community: Address, group: Address },
    /// Removes a group from the community; the group stays.
    RemoveGroup { community: Address, group: Address },
    /// Joins a group of the community.
    JoinGroup { community: Address, group: Address },
    /// Adds, removes, promotes or demotes members.
    Participants { community: Address, action: ParticipantAction, participants: Vec<Address> },
    /// Returns the invite code.
    Invite { community: Address },
    /// Replaces the invite code; the old one becomes invalid.
    RevokeInvite { community: Address },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CommunityAnswer {
    Done,
    Communities(Vec<KnownCommunity>),
    Community(Box<KnownCommunity>),
    CreatedGroup(Box<Group>),
    Participants(Vec<ParticipantResult>),
    Joined(Joined),
    Invite { invite_code: String },
}
