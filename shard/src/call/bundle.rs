//! What is asked of a channel's owner when its session moves to another cluster: all that its driver keeps, and the numbers behind
//! LIDs, part by part.

use std::fmt;

use bytes::Bytes;
use model::time::Timestamp;
use network::driver::Identity;
use serde::{Deserialize, Serialize};

/// What the rows of a part weigh at most, but for a single heavy one: stored, they make one command.
pub const PART: usize = 256 << 10;

/// How many LIDs a part has at most.
pub const LIDS: usize = 1_000;

/// What a row takes in a command beside its name and its value: the seal, and what tells it from the next.
const ROW_HEAD: usize = 64;

/// What a driver keeps under a name, opened. Hidden from logs: whoever has all of a channel's can log in as it.
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

/// A LID and the number behind it, by their local parts: what follows these is each cluster's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LidPair {
    pub lid: String,
    pub phone: String,
    pub first_seen_at: Timestamp,
}

/// Where a part begins: behind the name, or the LID, with which the one before ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    Rows(Option<String>),
    Lids(Option<String>),
}

/// The next part of what a channel holds that rests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    pub from: Place,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exported {
    /// The channel's version as this was read. Parts of several versions do not belong together: it may have run in between.
    pub version: u64,
    pub identity: Identity,
    pub rows: Vec<StateRow>,
    pub lids: Vec<LidPair>,
    /// Where it goes on; nowhere after the last part.
    pub next: Option<Place>,
}

/// A step of an import; each is answered with the channel's version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Import {
    /// Stops a channel without a session, and clears what an import before this one has left.
    Begin { identity: Identity },
    /// Stores a part, as long as nobody has moved the channel since it began. With the driver's credentials, which come last, the
    /// channel can log in.
    Rows { version: u64, rows: Vec<StateRow>, lids: Vec<LidPair> },
}
