//! Everything that is known of a run, as its folder holds it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::{At, Call, Fault, Record, Request, Stage};

/// Files of a run's folder.
pub(super) const META: &str = "meta.json";
pub(super) const HISTORY: &str = "history.jsonl";
const EVIDENCE: &str = "evidence.json";

/// The seed and the beginning of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub seed: u64,
    /// The wall clock at [`At`] zero.
    pub started: Timestamp,
}

impl Meta {
    /// Converts a wall clock's time to the run's scale. It has milliseconds only: the moment may be up to one later.
    pub fn at(&self, time: Timestamp) -> At {
        At::default().plus(time.since(self.started))
    }

    pub fn wall(&self, at: At) -> Timestamp {
        self.started.plus(at.since(At::default()))
    }
}

/// The input of the checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    pub meta: Meta,
    /// All records except faults, in the order in which they were written.
    pub records: Vec<Record>,
    /// Faults apart from the records: they are few, even in an hour, and looked up for each of many records.
    pub faults: Vec<Fault>,
    pub evidence: Evidence,
}

/// The final state of network and gateway, queried once everything has come to rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub stage: Stage,
    /// Everything that the network accepted, in its order.
    pub ledger: Vec<LedgerRow>,
    /// By number, oldest first.
    pub logins: BTreeMap<String, Vec<Login>>,
    pub stats: Stats,
    /// Messages that reached the phones, by number, in order of arrival.
    pub inboxes: BTreeMap<String, Vec<InboxRow>>,
    /// Sends that ended `failed` in the gateway's records: message id and error code.
    pub failed: BTreeMap<String, String>,
    /// Deliveries in the gateway's records, by endpoint.
    pub deliveries: BTreeMap<String, Vec<Delivery>>,
    pub replicas: Vec<Replica>,
    /// The replicas at several moments, oldest first; empty unless observed for long enough to see one without
    /// progress.
    #[serde(default)]
    pub looks: Vec<Look>,
    pub liveness: Option<Liveness>,
    /// Queries that the gateway did not answer, and why.
    #[serde(default)]
    pub untold: Vec<String>,
}

/// A message that the network accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    pub seq: u64,
    pub id: String,
    pub from: String,
    pub to: String,
    pub raw_copies: u32,
    pub node: u64,
    pub epoch: u64,
    pub at: Timestamp,
}

/// A login of a channel's device, and its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub login_seq: u64,
    pub node: u64,
    pub epoch: u64,
    pub at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub end: Option<String>,
}

/// The network's counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub conflicts: u64,
    pub fenced: u64,
    pub late_writes: u64,
    pub accepted: u64,
    pub refused: u64,
    pub duplicates_dropped: u64,
    pub raw_sends: u64,
    pub redelivered: u64,
    pub logins: u64,
}

/// A message that reached a phone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxRow {
    pub id: String,
    pub from: String,
    #[serde(default)]
    pub text: String,
    pub copies: u32,
}

/// A delivery in the gateway's records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub id: String,
    pub event: String,
    pub event_id: String,
    pub channel_id: String,
    pub message_id: Option<String>,
    pub state: String,
    #[serde(default)]
    pub next_attempt_at: Option<Timestamp>,
    #[serde(default)]
    pub attempt_count: u32,
    /// Whether its attempt had been due for long when the gateway was queried.
    #[serde(default)]
    pub overdue: bool,
}

/// The state of a group at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    pub node: u64,
    pub group: u16,
    /// The last log position that the state includes.
    pub applied: u64,
    /// In hexadecimal digits.
    pub hash: String,
}

/// The states of all replicas, which were queried one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// When the first replica was queried.
    pub at: At,
    pub replicas: Vec<Replica>,
}

/// How the cluster healed after the end of the last fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Liveness {
    /// When the last fault had ended.
    pub since: At,
    pub bound: Duration,
    /// When each channel was seen connected; `None` if it was not within the bound.
    pub channels: BTreeMap<String, Option<At>>,
    /// When a send was first accepted through each node.
    pub nodes: BTreeMap<u64, Option<At>>,
    /// When each node reported that it is ready.
    #[serde(default)]
    pub ready: BTreeMap<u64, Option<At>>,
    /// When a send of each channel was first accepted, through any node.
    #[serde(default)]
    pub sending: BTreeMap<String, Option<At>>,
}

impl Collected {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// When a file or a line cannot be read; the message names it.
    pub fn load(folder: &Path) -> anyhow::Result<Self> {
        let meta = folder.join(META);
        let meta = serde_json::from_slice(&std::fs::read(&meta).with_context(|| meta.display().to_string())?)
            .with_context(|| meta.display().to_string())?;
        let evidence = folder.join(EVIDENCE);
        let evidence =
            serde_json::from_slice(&std::fs::read(&evidence).with_context(|| evidence.display().to_string())?)
                .with_context(|| evidence.display().to_string())?;
        let path = folder.join(HISTORY);
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let (mut records, mut faults) = (Vec::new(), Vec::new());
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let read = line.map_err(anyhow::Error::from).and_then(|line| Ok(serde_json::from_str(&line)?));
            match read.with_context(|| format!("{}, line {}", path.display(), number + 1))? {
                Record::Fault(fault) => faults.push(fault),
                record => records.push(record),
            }
        }
        Ok(Self { meta, records, faults, evidence })
    }

    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.records.iter().filter_map(|record| match record {
            Record::Call(call) => Some(call),
            _ => None,
        })
    }

    pub fn webhooks(&self) -> impl Iterator<Item = &Request> {
        self.records.iter().filter_map(|record| match record {
            Record::Webhook(request) => Some(request),
            _ => None,
        })
    }

    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }
}

impl Evidence {
    /// Writes the evidence into a run's folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(EVIDENCE);
        std::fs::write(&path, serde_json::to_vec(self)?).with_context(|| path.display().to_string())
    }
}
