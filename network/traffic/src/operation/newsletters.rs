//! What is asked about newsletters.

use model::address::Address;
use model::field::Change;
use model::newsletter::{Newsletter, NewsletterChanges, NewsletterMessage};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::picture::Picture;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NewsletterOperation {
    /// All newsletters that the channel publishes or reads.
    List,
    /// One newsletter.
    Show { newsletter: Address },
    /// Makes a newsletter.
    Create { name: String, description: Option<String>, picture: Option<Picture> },
    /// What is set of it; `picture` to another one, or to none.
    Change { newsletter: Address, changes: NewsletterChanges, picture: Change<Option<Picture>> },
    /// Ends a newsletter.
    Delete { newsletter: Address },
    /// Begins to read it.
    Subscribe { newsletter: Address },
    /// Reads it no more.
    Unsubscribe { newsletter: Address },
    /// Whether its messages are announced.
    Mute { newsletter: Address, muted: bool },
    /// All newsletters that fit, in the order of their addresses, behind one.
    Search { wanted: Wanted, after: Option<String>, limit: usize },
    /// Where an invite code leads.
    Invited { invite_code: String },
    /// What was published, the newest first, before a place.
    Messages { newsletter: Address, before: Option<u64>, limit: usize },
    /// An empty emoji takes the reaction back.
    React { newsletter: Address, server_id: u64, emoji: String },
    /// Asks somebody to be an admin.
    InviteAdmin { newsletter: Address, whom: Address },
    /// Follows an invite to be an admin. Only phones do it: no route of the gateway does.
    AcceptAdmin { newsletter: Address },
    /// Makes an admin a subscriber, or takes the invite back.
    RemoveAdmin { newsletter: Address, whom: Address },
}

/// Which newsletters are looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// In the name or the description, in either case.
    pub text: Option<String>,
    /// ISO 3166, two capital letters.
    pub country: Option<String>,
    pub category: Option<String>,
    /// Only those that the channel neither publishes nor reads.
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
