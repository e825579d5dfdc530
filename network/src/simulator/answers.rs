//! Requests and responses of the control API, in the shapes of its JSON.
//!
//! - [`writing`]: messages that a phone sends.
//! - [`inbox`]: messages that reached a phone.
//! - [`calls`]: calls that phones make and receive; [`stories`]: stories; [`business`]: orders and carts.

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

/// Why the control API refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotFound(String),
}

/// One page of a list, oldest first, and the total number of rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct List<T> {
    pub data: Vec<T>,
    pub total: usize,
}

/// Default and maximum number of rows in a list.
pub const DEFAULT_LIMIT: usize = 100;
pub const MAX_LIMIT: usize = 10_000;

/// Settings of a subscriber; omitted fields keep their value, or get the default of a new subscriber.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PhoneSettings {
    pub name: Option<String>,
    pub online: Option<bool>,
    pub read_receipts: Option<bool>,
    pub business: Option<bool>,
    /// Its messages carry only the LID until the number is disclosed.
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

/// `POST /phones/{n}/link`: the scanned QR text or the entered code.
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
    /// Only rows after the message with this id.
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
    /// Only rows after this one.
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
    /// The presence that its devices report: `available` or `unavailable`.
    pub presence: Presence,
    pub devices: Vec<PhoneDevice>,
}

/// The presence that somebody showed in a chat with a phone.
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
    /// Whether it requested the phone's whole history when it was linked.
    pub full_history: bool,
    pub linked_at: Timestamp,
    pub channel_session: Option<ChannelSession>,
}

/// The holder of a device's live session.
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
    /// The proxy of the session.
    pub proxy: Option<String>,
}

/// How a logged-in session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginEnd {
    /// Replaced by a login of the same or a lower epoch.
    Replaced,
    /// Closed in order, by the node or by the network.
    Closed,
    /// Its connection broke, or the node cut it.
    Lost,
    /// Fenced by a login of a higher epoch.
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

/// Counters since the start; `sessions` is the current number of live sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    pub sessions: u64,
    /// Logins, with the same or a lower epoch, of a device that had a live session.
    pub conflicts: u64,
    /// Sessions that were fenced by a higher epoch.
    pub fenced: u64,
    /// Frames from ended sessions; all of them were dropped.
    pub late_writes: u64,
    /// Messages in the ledger.
    pub accepted: u64,
    pub refused: u64,
    /// Messages that reached a phone, without copies.
    pub delivered: u64,
    pub duplicates_dropped: u64,
    /// Sends that arrived, including repeats and refused ones.
    pub raw_sends: u64,
    /// Inbound items that were sent again after a later login.
    pub redelivered: u64,
    pub logins: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcceptedRow {
    pub seq: u64,
    pub id: MessageId,
    pub from: Address,
    pub to: Address,
    /// Number of sends with this id, including the first.
    pub raw_copies: u32,
    pub node: NodeId,
    pub epoch: Epoch,
    pub at: Timestamp,
}

/// The page size for a requested limit.
pub(crate) fn page_size(limit: Option<usize>) -> usize {
    limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)
}
