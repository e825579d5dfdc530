//! What each node says of itself when an operator asks: its groups, its disk, its clock, its channels. The node that is
//! asked gathers it from all; one that does not answer in time is there with the reason.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::format::Format;
use model::id::{NodeId, ShardId};
use model::seal::MasterKeyId;
use model::status::Status;
use model::time::Timestamp;
use raft::host::report::HostReport;
use raft::room::Level;
use raft::transport::unauthenticated::authority_hash;
use serde::{Deserialize, Serialize};

/// How a node is, as it says itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    pub version: String,
    /// The highest format that it understands; release 0.1.0 does not say.
    #[serde(default)]
    pub format: Format,
    pub draining: bool,
    /// Shards that it owns.
    pub owns: Vec<ShardId>,
    /// Sessions that it holds or opens.
    pub sessions: u64,
    pub connected: u64,
    pub rss_bytes: u64,
    pub started_at: Timestamp,
    /// Of each shard with a replica here, what its log brought in a second of late. Earlier releases do not say.
    #[serde(default)]
    pub work: BTreeMap<ShardId, u64>,
    /// Whether the node is ready. Earlier releases do not say, and were given leaderships whatever they would have
    /// said.
    #[serde(default = "yes")]
    pub ready: bool,
    /// How much room the disks of its log and state have. Earlier releases do not say, and have to be taken to have some.
    #[serde(default)]
    pub room: Level,
    /// How much room the disk of its media has, and how many bytes the fullest of all its disks has left.
    #[serde(default)]
    pub large_room: Level,
    #[serde(default)]
    pub least_free: u64,
    /// Ports that had no place for a connection within the last minute: `api`, `ops` or `peer`.
    #[serde(default)]
    pub crowded_ports: Vec<String>,
    /// Whether the node has just taken the leadership of a shard, or logs in the channels of shards whose leadership it
    /// took.
    #[serde(default)]
    pub warming_up: bool,
}

impl NodeStatus {
    /// Whether its `/readyz` says so: balancers send requests to no other.
    pub fn is_ready(&self) -> bool {
        self.ready && !self.draining
    }
}

fn yes() -> bool {
    true
}

/// A node at one moment, as it sees itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeReport {
    #[serde(rename = "vitals")]
    pub status: NodeStatus,
    /// Its wall clock.
    pub clock: Timestamp,
    pub host: HostReport,
    /// Its copy of the directory is young enough to act on.
    pub directory_is_fresh: bool,
    /// The master keys that it was given, the one to be used from now on first. Earlier releases do not say.
    #[serde(default)]
    pub master_keys: Vec<MasterKeyId>,
    /// The certificates that it shows and trusts. Earlier releases do not say.
    #[serde(default)]
    pub certificates: Vec<CertificateReport>,
    /// Keys of the configuration that have to be alike on all nodes, and what they are here. Earlier releases do not say.
    #[serde(default)]
    pub alike: BTreeMap<String, String>,
    /// Channels of the shards that it owns that were ever touched.
    pub channels: BTreeMap<Status, u64>,
}

/// A certificate of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CertificateReport {
    /// The configuration key that names its file.
    pub key: String,
    pub expires_at: Timestamp,
    /// The ids of authorities: of that which signed the node's own, and of those by which it knows its peers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<String>,
}

impl NodeReport {
    /// Whether the node trusts what an authority signs, told by its [`authority_id`].
    pub fn trusts(&self, authority: &str) -> bool {
        self.is_of(OWN_AUTHORITY, authority)
    }

    /// Whether the node shows its peers a certificate that this authority signed.
    pub fn is_signed_by(&self, authority: &str) -> bool {
        self.is_of(OWN_CERTIFICATE, authority)
    }

    fn is_of(&self, key: &str, authority: &str) -> bool {
        let of_key = self.certificates.iter().filter(|certificate| certificate.key == key);
        of_key.flat_map(|certificate| &certificate.authorities).any(|known| known == authority)
    }
}

/// The configuration keys of what a node shows its peers, and trusts among them.
pub const OWN_CERTIFICATE: &str = "peer.cert_file";
pub const OWN_AUTHORITY: &str = "peer.ca_file";

/// How an authority is told from others: the hash of its certificate, in hex.
///
/// # Errors
/// When the text holds no certificate in PEM.
pub fn authority_id(ca_pem: &str) -> Result<String, String> {
    authority_hash(ca_pem).map(hex::encode)
}

/// Looks at the certificates of this node as they are now: one may be exchanged while it runs.
pub type Certificates = Arc<dyn Fn() -> Vec<CertificateReport> + Send + Sync>;

/// What was heard of a node.
#[derive(Clone, Debug)]
pub struct Heard {
    pub report: NodeReport,
    /// How far its clock is ahead of the asking node's, in milliseconds; known up to half of the way there and back.
    pub clock_ahead: i64,
    pub clock_doubt: Duration,
}

impl Heard {
    /// Reckons the clock by the middle of question and answer.
    pub(crate) fn new(report: NodeReport, asked: Timestamp, took: Duration) -> Self {
        let middle = asked.plus(took / 2);
        Self { clock_ahead: report.clock.0 - middle.0, clock_doubt: took / 2, report }
    }

    /// How far its clock is off at least, whatever the way of the answer was.
    pub fn clock_off_by(&self) -> Duration {
        Duration::from_millis(self.clock_ahead.unsigned_abs()).saturating_sub(self.clock_doubt)
    }
}

/// Every member of the cluster, with what it said, or with why nothing was heard of it.
pub type Survey = BTreeMap<NodeId, Result<Heard, String>>;

/// What is wrong with a key of the configuration that nodes have so. `None` where they have it alike.
pub fn unlike<'a>(said: impl IntoIterator<Item = (NodeId, &'a str)>) -> Option<String> {
    let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (node, value) in said {
        nodes.entry(value).or_default().push(format!("node {node}"));
    }
    let said: Vec<String> = nodes.iter().map(|(value, nodes)| format!("{value} at {}", nodes.join(", "))).collect();
    (said.len() > 1).then(|| format!("has to be alike on all nodes: {}", said.join("; ")))
}

#[cfg(test)]
pub(crate) mod tests {
    use raft::host::report::GroupReport;

    use super::*;

    /// Of a node that has nothing to do.
    pub(crate) fn node_status() -> NodeStatus {
        NodeStatus {
            version: String::new(),
            format: Format::default(),
            draining: false,
            owns: Vec::new(),
            sessions: 0,
            connected: 0,
            rss_bytes: 0,
            started_at: Timestamp(0),
            work: BTreeMap::new(),
            ready: true,
            warming_up: false,
            room: Level::Enough,
            large_room: Level::Enough,
            least_free: 0,
            crowded_ports: Vec::new(),
        }
    }

    pub(crate) fn heard_with(groups: Vec<GroupReport>) -> Heard {
        let mut heard = heard(0, 0, 0);
        heard.report.host.groups = groups;
        heard
    }

    fn heard(clock: i64, asked: i64, took: u64) -> Heard {
        let host = HostReport { groups: Vec::new(), syncs: None, disk: None, panics: BTreeMap::new() };
        let report = NodeReport {
            status: node_status(),
            clock: Timestamp(clock),
            host,
            directory_is_fresh: true,
            master_keys: Vec::new(),
            certificates: Vec::new(),
            alike: BTreeMap::new(),
            channels: BTreeMap::new(),
        };
        Heard::new(report, Timestamp(asked), Duration::from_millis(took))
    }

    #[test]
    fn a_clock_is_off_by_no_more_than_is_certain() {
        let table = [
            (1050, 1000, 100, 0, 0),
            (1100, 1000, 100, 50, 0),
            (6050, 1000, 100, 5000, 4950),
            (950, 1000, 20, -60, 50),
        ];
        for (clock, asked, took, ahead, off_by) in table {
            let heard = heard(clock, asked, took);
            assert_eq!((heard.clock_ahead, heard.clock_off_by()), (ahead, Duration::from_millis(off_by)), "{clock}");
        }
    }
}
