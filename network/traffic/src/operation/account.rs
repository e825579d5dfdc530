//! What is asked about the channel's own account: its block list, profile and privacy.

use model::address::Address;
use model::blacklist::Blocked;
use model::privacy::{Privacy, PrivacyChanges};
use model::profile::ChannelProfile;
use serde::{Deserialize, Serialize};

use super::picture::Picture;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BlacklistOperation {
    List,
    Block { contact: Address },
    Unblock { contact: Address },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BlacklistAnswer {
    Done,
    Blocked(Vec<Blocked>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ProfileOperation {
    /// The profile as it is.
    Show,
    /// Another name.
    SetName { name: String },
    /// Empty to clear it.
    SetAbout { about: String },
    /// `None` takes the picture away.
    SetPicture { picture: Option<Picture> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ProfileAnswer {
    Done,
    Profile(ChannelProfile),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PrivacyOperation {
    Show,
    Change(PrivacyChanges),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PrivacyAnswer {
    Done,
    Privacy(Privacy),
}
