//! Requests for moving a channel's session to another cluster, in parts: all that its driver stores, and the known
//! LIDs.

use std::fmt;

use bytes::Bytes;
use model::time::Timestamp;
use network::driver::Identity;
use serde::{Deserialize, Serialize};

/// The largest weight of a part's rows in bytes, except for a single larger row: a part is stored with one command.
pub const PART: usize = 256 << 10;

/// The most LIDs in a part.
pub const LIDS: usize = 1_000;

/// The bytes that a row takes in a command in addition to its name and value: the seal and the encoding.
const ROW_HEAD: usize = 64;

/// A row of a driver's state, opened. Hidden from logs: all rows of a channel together allow to log in as it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRow {
    pub name: String,
    pub value: Bytes,
}

impl StateRow {
    pub fn weight(&self) -> usize {
        self.name.len() + self.value.len() + ROW_HEAD
    }
}

impl fmt::Debug for StateRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateRow(..)")
    }
}

/// A LID and its phone number, by their local parts: the rest of both addresses is each cluster's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LidPair {
    pub lid: String,
    pub phone: String,
    pub first_seen_at: Timestamp,
}

/// Where a part begins: after the name, or the LID, with which the previous part ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    Rows(Option<String>),
    Lids(Option<String>),
}

/// The next part of the state of a stopped channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    pub from: Place,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exported {
    /// The channel's version at the time of the read. Parts of different versions must not be combined, as the channel
    /// may have run in between.
    pub version: u64,
    pub identity: Identity,
    pub rows: Vec<StateRow>,
    pub lids: Vec<LidPair>,
    /// Where the next part begins; `None` after the last part.
    pub next: Option<Place>,
}

/// A step of an import; the response to each is the channel's version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Import {
    /// Stops a channel that has no session, and clears the remains of an earlier import.
    Begin { identity: Identity },
    /// Stores a part, unless the channel's status has changed since `Begin`. The driver's credentials come in the last
    /// part; with them the channel can log in.
    Rows { version: u64, rows: Vec<StateRow>, lids: Vec<LidPair> },
}
