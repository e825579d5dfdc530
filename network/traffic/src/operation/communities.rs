//! What is asked about communities.

use model::address::Address;
use model::community::{CommunityChanges, KnownCommunity};
use model::group::{Group, Joined, ParticipantAction, ParticipantResult};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CommunityOperation {
    /// All communities that the channel is in.
    List,
    /// One community with its groups.
    Show { community: Address },
    /// Makes a community, with groups that are there already.
    Create { subject: String, description: Option<String>, groups: Vec<Address> },
    /// Subject, description or settings.
    Change { community: Address, changes: CommunityChanges },
    /// Ends the community; its groups stay.
    Deactivate { community: Address },
    /// Makes a new group in the community.
    CreateGroup { community: Address, subject: String, participants: Vec<Address> },
    /// Brings a group into the community.
    AddGroup { community: Address, group: Address },
    /// Takes a group out of it; the group stays.
    RemoveGroup { community: Address, group: Address },
    /// Enters a group of the community.
    JoinGroup { community: Address, group: Address },
    /// Adds, removes, promotes or demotes people.
    Participants { community: Address, action: ParticipantAction, participants: Vec<Address> },
    /// The invite code.
    Invite { community: Address },
    /// A new invite code; the old one is worthless.
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
