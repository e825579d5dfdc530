//! Operations on newsletters.

use model::address::Address;
use model::field::Change;
use model::newsletter::{Newsletter, NewsletterChanges, NewsletterMessage};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::picture::Picture;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NewsletterOperation {
    /// Returns all newsletters that the channel publishes or follows.
    List,
    /// Returns a newsletter.
    Show { newsletter: Address },
    /// Creates a newsletter.
    Create { name: String, description: Option<String>, picture: Option<Picture> },
    /// Changes the given fields; `picture` may be replaced or removed.
    Change { newsletter: Address, changes: NewsletterChanges, picture: Change<Option<Picture>> },
    /// Deletes a newsletter.
    Delete { newsletter: Address },
    /// Starts to follow a newsletter.
    Subscribe { newsletter: Address },
    /// Stops following a newsletter.
    Unsubscribe { newsletter: Address },
    /// Mutes or unmutes the newsletter's messages.
    Mute { newsletter: Address, muted: bool },
    /// Returns matching newsletters ordered by address, starting after `after`.
    Search { wanted: Wanted, after: Option<String>, limit: usize },
    /// Returns the newsletter behind an invite code.
    Invited { invite_code: String },
    /// Returns published messages, newest first, from before a position.
    Messages { newsletter: Address, before: Option<u64>, limit: usize },
    /// Reacts to a message; an empty emoji removes the reaction.
    React { newsletter: Address, server_id: u64, emoji: String },
    /// Invites a contact to become an admin.
    InviteAdmin { newsletter: Address, whom: Address },
    /// Accepts an invite to become an admin. Only phones do this: no route of the gateway does.
    AcceptAdmin { newsletter: Address },
    /// Makes an admin a subscriber, or withdraws the invite.
    RemoveAdmin { newsletter: Address, whom: Address },
}

/// Search criteria for newsletters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// A part of the name or the description, case-insensitive.
    pub text: Option<String>,
    /// ISO 3166 code, two capital letters.
    pub country: Option<String>,
    pub category: Option<String>,
    /// Only newsletters that the channel neither publishes nor follows.
    pub unknown: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NewsletterAnswer {
    Done,
    Newsletters(Vec<Newsletter>),
    Newsletter(Box<Newsletter>),
    Messages(Vec<NewsletterMessage>),
    Invited { invite_expires_at: Timestamp },
}
