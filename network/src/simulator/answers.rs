//! What the control API is asked and what it answers, in the shapes of its JSON.
//!
//! - [`writing`]: what a phone writes.
//! - [`inbox`]: what reached it.
//! - [`calls`]: calls that phones make and get; [`stories`]: stories; [`business`]: orders and carts.

pub mod business;
pub mod calls;
pub mod inbox;
pub mod stories;
pub mod writing;

use model::address::Address;
use model::id::{Epoch, MessageId, NodeId};
use model::presence::Presence;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::inbox::InboxRow;
pub use self::writing::PhoneMessage;
pub use super::engine::newsletters::Listing;
use super::faults::given;

/// Why the control API refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotFound(String),
}

/// One page of a list, oldest first, and how many there are in all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct List<T> {
    pub data: Vec<T>,
    pub total: usize,
}

/// How many rows a list shows when nothing is asked for, and at most.
pub const DEFAULT_LIMIT: usize = 100;
pub const MAX_LIMIT: usize = 10_000;

/// What a subscriber is like; what is left out keeps its value, or gets the default of a new one.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PhoneSettings {
    pub name: Option<String>,
    pub online: Option<bool>,
    pub read_receipts: Option<bool>,
    pub business: Option<bool>,
    /// Its messages carry the LID alone, until it is disclosed.
    pub hide_number: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    pub auto_read_ms: Option<Option<u32>>,
}

/// `POST /phones`.
#[derive(Clone, Debug, Deserialize)]
pub struct RegisterPhone {
    pub number: String,
    #[serde(flatten)]
    pub settings: PhoneSettings,
}

/// `POST /phones/bulk`.
#[derive(Clone, Debug, Deserialize)]
pub struct RegisterPhones {
    pub first: String,
    pub count: u64,
    #[serde(flatten)]
    pub settings: PhoneSettings,
}

/// `POST /phones/{n}/link`: the QR text that was scanned, or the code that was typed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkBy {
    Raw(String),
    PairCode(String),
}

/// `GET /phones/{n}/inbox`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct InboxQuery {
    pub from: Option<String>,
    pub id: Option<String>,
    /// Shows what stands behind the message of this id.
    pub after: Option<String>,
    pub limit: Option<usize>,
}

/// `GET /logins`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LoginsQuery {
    pub number: Option<String>,
    /// A time, or the `login_seq` of the last row seen.
    pub since: Option<String>,
    pub limit: Option<usize>,
}

/// `GET /sessions`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SessionsQuery {
    pub number: Option<String>,
    pub limit: Option<usize>,
}

/// `GET /accepted`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LedgerQuery {
    /// Shows the rows after this one.
    pub since_seq: Option<u64>,
    pub limit: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phone {
    pub number: String,
    pub name: Option<String>,
    pub online: bool,
    pub read_receipts: bool,
    pub business: bool,
    pub hide_number: bool,
    pub auto_read_ms: Option<u32>,
    pub banned: bool,
    pub lid: Address,
    pub address: Address,
    /// What its devices say of it: `available` or `unavailable`.
    pub presence: Presence,
    pub devices: Vec<PhoneDevice>,
}

/// What somebody did in a chat with a phone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresenceRow {
    pub from: Address,
    pub presence: Presence,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhoneDevice {
    pub id: u32,
    pub name: String,
    /// Whether it asked for all of the phone's history when it was linked.
    pub full_history: bool,
    pub linked_at: Timestamp,
    pub channel_session: Option<ChannelSession>,
}

/// Who holds a device's live session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChannelSession {
    pub node: NodeId,
    pub epoch: Epoch,
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    pub number: String,
    pub device: u32,
    pub node: NodeId,
    pub epoch: Epoch,
    pub login_seq: u64,
    pub since: Timestamp,
    /// Through which the session comes.
    pub proxy: Option<String>,
}

/// How a logged-in session came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginEnd {
    /// A login of the same or a lower epoch took its place.
    Replaced,
    /// Closed in order, by the node or by the network's verdict.
    Closed,
    /// Its connection broke, or the node cut it.
    Lost,
    /// A login of a higher epoch took its place.
    Fenced,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoginRow {
    pub login_seq: u64,
    pub number: String,
    pub node: NodeId,
    pub epoch: Epoch,
    pub at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub end: Option<LoginEnd>,
}

/// Counters since the start, but for `sessions`, which is how many are live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    pub sessions: u64,
    /// Logins of a live device with the same or a lower epoch.
    pub conflicts: u64,
    /// Sessions that a higher epoch ended.
    pub fenced: u64,
    /// Frames that came from ended sessions; all were dropped.
    pub late_writes: u64,
    /// Messages in the ledger.
    pub accepted: u64,
    pub refused: u64,
    /// Messages that reached a phone, copies not counted.
    pub delivered: u64,
    pub duplicates_dropped: u64,
    /// Sends that arrived, repeats and refusals among them.
    pub raw_sends: u64,
    /// Inbound items that were sent again at a later login.
    pub redelivered: u64,
    pub logins: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcceptedRow {
    pub seq: u64,
    pub id: MessageId,
    pub from: Address,
    pub to: Address,
    /// How many sends of this id arrived, the first included.
    pub raw_copies: u32,
    pub node: NodeId,
    pub epoch: Epoch,
    pub at: Timestamp,
}

/// The rows that a limit lets through.
pub(crate) fn page_size(limit: Option<usize>) -> usize {
    limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)
}
