//! What is read of a channel's projection at its owner.

use model::address::Address;
use model::business::OrderStatus;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::projection::Kind;
use crate::projection::chats::ChatPage;
use crate::projection::contacts::ContactFilter;

/// How many pairs of LID and phone address one answer holds: with the longest addresses they fill no page.
pub const MOST_PAIRS: usize = 10_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Read {
    /// One row.
    Row { kind: Kind, id: String },
    /// Rows of a kind that pass, in the order of their ids, behind an id.
    Page {
        kind: Kind,
        filter: Filter,
        /// What the ids begin with.
        #[serde(default)]
        prefix: String,
        after: Option<String>,
        limit: usize,
        /// Whoever asks knows that a page ends with the row that makes it [`LARGEST_PAGE`], and goes on behind it.
        #[serde(default)]
        in_bytes: bool,
        /// Whoever asks takes an [`OwnerResponse::Page`](super::OwnerResponse::Page), which may be short and have a next
        /// one.
        #[serde(default)]
        marked: bool,
    },
    /// One chat, as the interface shows it.
    Chat(Address),
    /// Chats, each a [`ListedChat`](crate::projection::chats::ListedChat).
    Chats(ChatPage),
    /// A row of a contact, by any of its addresses.
    Contact(Address),
    /// Rows of contacts in the order of their ids, and how many pass in all.
    Contacts {
        filter: ContactFilter,
        after: Option<String>,
        limit: usize,
        /// As for a page.
        #[serde(default)]
        in_bytes: bool,
    },
    /// Each a [`CommonGroup`](model::contact::CommonGroup).
    CommonGroups(Address),
    /// All rows of the block list.
    Blocked,
    /// What is known of somebody's presence now.
    Presence(Address),
    /// Pairs of LID and phone address, each a [`KnownLidPair`], in the order of the LIDs, and how many there are in all. Of more
    /// than [`MOST_PAIRS`] one more comes.
    Lids {
        lid: Option<Address>,
        phone: Option<Address>,
        /// The local part of a LID: the pairs behind it.
        #[serde(default)]
        after: Option<String>,
    },
    /// Labels, each a [`Label`](model::label::Label): all, or those of a chat.
    Labels { of: Option<Address> },
}

/// Which rows of a kind are wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// Every row passes.
    All,
    /// Products.
    InCollection { collection: String },
    /// By when they were placed, `since` included, and by status, where any is named.
    Orders { since: Option<Timestamp>, until: Option<Timestamp>, statuses: Vec<OrderStatus> },
}
