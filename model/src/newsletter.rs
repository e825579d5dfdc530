//! Newsletters as the API shows them; the driver reports the same shape.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::media::MediaRef;

/// A newsletter as the channel sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Newsletter {
    pub id: Address,
    pub name: String,
    pub description: Option<String>,
    pub invite_code: Option<String>,
    /// The invite link.
    pub invite_url: Option<String>,
    pub picture_url: Option<String>,
    /// Role of the channel in the newsletter.
    pub role: NewsletterRole,
    pub muted: bool,
    /// Whether the network has verified the newsletter.
    pub verified: bool,
    /// Number of subscribers; `null` if unknown.
    pub subscriber_count: Option<u32>,
    pub reactions: ReactionMode,
    /// Time of creation in Unix seconds; `null` if unknown.
    pub created_at: Option<i64>,
}

crate::words! {
    /// A role in a newsletter.
    #[derive(JsonSchema)]
    NewsletterRole {
        Owner = "owner",
        Admin = "admin",
        Subscriber = "subscriber",
        Guest = "guest",
    }
}

impl NewsletterRole {
    /// The roles by which a list can be filtered. Guests do not follow the newsletter.
    pub const LISTED: &[&str] = &["owner", "admin", "subscriber"];

    pub fn parse_listed(text: &str) -> Option<Self> {
        Self::parse(text).filter(|role| *role != Self::Guest)
    }

    pub fn publishes(self) -> bool {
        matches!(self, Self::Owner | Self::Admin)
    }
}

crate::words! {
    /// Which reactions a newsletter allows.
    #[derive(JsonSchema)]
    ReactionMode {
        All = "all",
        /// A few common reactions.
        Basic = "basic",
        None = "none",
    }
}

/// A change to a newsletter, except its picture: the fields that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewsletterChanges {
    pub name: Option<String>,
    /// An empty text clears the description.
    pub description: Option<String>,
    pub reactions: Option<ReactionMode>,
}

impl NewsletterChanges {
    /// Whether the newsletter already has these values.
    pub fn hold_for(&self, newsletter: &Newsletter) -> bool {
        let description = newsletter.description.as_deref().unwrap_or_default();
        self.name.as_ref().is_none_or(|name| *name == newsletter.name)
            && self.description.as_ref().is_none_or(|text| text == description)
            && self.reactions.is_none_or(|mode| mode == newsletter.reactions)
    }
}

/// A message of a newsletter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NewsletterMessage {
    /// Position in the newsletter; later messages have higher ones.
    pub server_id: u64,
    pub message_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub text: Option<String>,
    pub media: Option<MediaRef>,
    /// Number of views; `null` if unknown.
    pub view_count: Option<u32>,
    /// Number of reactions by emoji.
    pub reactions: BTreeMap<String, u32>,
    /// Time of publication in Unix seconds.
    pub timestamp: i64,
}
