//! Reads of a channel's projection at its owner.

use model::address::Address;
use model::business::OrderStatus;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::projection::Kind;
use crate::projection::chats::ChatPage;
use crate::projection::contacts::ContactFilter;

/// The most pairs of LID and phone address in one response: even with the longest addresses they fit a page.
pub const MOST_PAIRS: usize = 10_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Read {
    /// One row.
    Row { kind: Kind, id: String },
    /// Rows of a kind that match a filter, in the order of their ids, after an id.
    Page {
        kind: Kind,
        filter: Filter,
        /// A prefix of the ids.
        #[serde(default)]
        prefix: String,
        after: Option<String>,
        limit: usize,
        /// Whether the caller knows that the row that makes a page `LARGEST_PAGE` ends it, and continues after that.
        #[serde(default)]
        in_bytes: bool,
        /// Whether the caller accepts an [`OwnerResponse::Page`](super::OwnerResponse::Page), which may be incomplete.
        #[serde(default)]
        marked: bool,
    },
    /// One chat, as the interface shows it.
    Chat(Address),
    /// Chats, each a [`ListedChat`](crate::projection::chats::ListedChat).
    Chats(ChatPage),
    /// The row of a contact, by any of its addresses.
    Contact(Address),
    /// Rows of contacts in the order of their ids, and how many match in all.
    Contacts {
        filter: ContactFilter,
        after: Option<String>,
        limit: usize,
        /// As in `Page`.
        #[serde(default)]
        in_bytes: bool,
    },
    /// Common groups, each a [`CommonGroup`](model::contact::CommonGroup).
    CommonGroups(Address),
    /// All rows of the block list.
    Blocked,
    /// The last known presence of a contact.
    Presence(Address),
    /// Pairs of LID and phone address, each a `KnownLidPair`, in the order of the LIDs, and their total number. If
    /// there are more than [`MOST_PAIRS`], one more than that is returned.
    Lids {
        lid: Option<Address>,
        phone: Option<Address>,
        /// The local part of a LID: only pairs after it are returned.
        #[serde(default)]
        after: Option<String>,
    },
    /// Labels, each a [`Label`](model::label::Label): all, or those of a chat.
    Labels { of: Option<Address> },
}

/// Which rows of a kind match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// Every row matches.
    All,
    /// Products in a collection.
    InCollection { collection: String },
    /// Orders placed in `[since, until)`, with one of these statuses if any is given.
    Orders { since: Option<Timestamp>, until: Option<Timestamp>, statuses: Vec<OrderStatus> },
}
