//! Operations on the channel's own account: block list, profile and privacy.

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
    /// Returns the profile.
    Show,
    /// Changes the name.
    SetName { name: String },
    /// Changes the text; an empty one clears it.
    SetAbout { about: String },
    /// Sets the picture; `None` removes it.
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
