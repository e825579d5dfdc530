//! The whole of a run, as its folder holds it.

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

/// When a run began, and from what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub seed: u64,
    /// The wall clock at [`At`] zero.
    pub started: Timestamp,
}

impl Meta {
    /// A wall clock's time on the run's own scale, which is finer by a thousand: the moment may lie up to a millisecond
    /// later.
    pub fn at(&self, time: Timestamp) -> At {
        At::default().plus(time.since(self.started))
    }

    pub fn wall(&self, at: At) -> Timestamp {
        self.started.plus(at.since(At::default()))
    }
}

/// What judges look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    pub meta: Meta,
    /// All but the faults, in the order in which they were noted.
    pub records: Vec<Record>,
    /// Few, beside the records of an hour, and asked for at each of those.
    pub faults: Vec<Fault>,
    pub evidence: Evidence,
}

/// What is asked once everything has come to rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub stage: Stage,
    /// Everything that the network accepted, in its order.
    pub ledger: Vec<LedgerRow>,
    /// By number, oldest first.
    pub logins: BTreeMap<String, Vec<Login>>,
    pub stats: Stats,
    /// What reached the phones, by number, in its order.
    pub inboxes: BTreeMap<String, Vec<InboxRow>>,
    /// The gateway's own record of sends that ended `failed`: message id and error code.
    pub failed: BTreeMap<String, String>,
    /// The gateway's own record of deliveries, by endpoint.
    pub deliveries: BTreeMap<String, Vec<Delivery>>,
    pub replicas: Vec<Replica>,
    /// The same at several moments, oldest first, where somebody looked so long that a replica which stands still shows.
    #[serde(default)]
    pub looks: Vec<Look>,
    pub liveness: Option<Liveness>,
    /// What the gateway did not tell when it was asked, and why.
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

/// A login of a channel's device and its end.
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

/// What the gateway says of a delivery.
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
    /// Its attempt was due long before the gateway was asked.
    #[serde(default)]
    pub overdue: bool,
}

/// The state of a group at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    pub node: u64,
    pub group: u16,
    /// The last log position whose effects the state holds.
    pub applied: u64,
    /// In hexadecimal digits.
    pub hash: String,
}

/// What all replicas held when they were asked one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// When the first of them was asked.
    pub at: At,
    pub replicas: Vec<Replica>,
}

/// How the cluster came back after the last fault had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Liveness {
    /// When the last fault had ended.
    pub since: At,
    pub bound: Duration,
    /// Channels that were seen connected, and when; none when they were not within the bound.
    pub channels: BTreeMap<String, Option<At>>,
    /// Nodes through which a send was taken, and when.
    pub nodes: BTreeMap<u64, Option<At>>,
    /// Nodes that said that they are ready, and when.
    #[serde(default)]
    pub ready: BTreeMap<u64, Option<At>>,
    /// Channels from which a send was taken, through whichever node, and when.
    #[serde(default)]
    pub sending: BTreeMap<String, Option<At>>,
}

impl Collected {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// With the file, and the line that cannot be read.
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
    /// Adds it to a run's folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(EVIDENCE);
        std::fs::write(&path, serde_json::to_vec(self)?).with_context(|| path.display().to_string())
    }
}
