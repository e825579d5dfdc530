//! The report of each node for operators: its groups, disk, clock and channels. The node that an operator asks collects
//! the reports of all; for a node that does not answer in time it gives the reason instead.

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

/// The status of a node, as reported by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    pub version: String,
    /// The highest format that the node understands; release 0.1.0 does not report it.
    #[serde(default)]
    pub format: Format,
    pub draining: bool,
    /// Shards that the node owns.
    pub owns: Vec<ShardId>,
    /// Sessions that the node holds or opens.
    pub sessions: u64,
    pub connected: u64,
    pub rss_bytes: u64,
    pub started_at: Timestamp,
    /// For each shard with a replica here, the recent work of its log per second. Earlier releases do not report it.
    #[serde(default)]
    pub work: BTreeMap<ShardId, u64>,
    /// Whether the node is ready. Earlier releases do not report it, and were given leaderships regardless.
    #[serde(default = "yes")]
    pub ready: bool,
    /// The free space of the disks of its log and state. Earlier releases do not report it, which counts as enough.
    #[serde(default)]
    pub room: Level,
    /// The free space of its media disk; `least_free` is the least number of free bytes over all its disks.
    #[serde(default)]
    pub large_room: Level,
    #[serde(default)]
    pub least_free: u64,
    /// Ports that refused a connection within the last minute, for lack of a permit: `api`, `ops` or `peer`.
    #[serde(default)]
    pub crowded_ports: Vec<String>,
    /// Whether the node has just taken over the leadership of a shard, or still opens the sessions of such shards.
    #[serde(default)]
    pub warming_up: bool,
}

impl NodeStatus {
    /// Whether the node's `/readyz` reports ready: load balancers send requests to no other node.
    pub fn is_ready(&self) -> bool {
        self.ready && !self.draining
    }
}

fn yes() -> bool {
    true
}

/// The state of a node at one moment, as reported by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeReport {
    #[serde(rename = "vitals")]
    pub status: NodeStatus,
    /// Its wall clock.
    pub clock: Timestamp,
    pub host: HostReport,
    /// Whether its copy of the directory is fresh enough to act on.
    pub directory_is_fresh: bool,
    /// The ids of the master keys in the node's configuration, the wanted one first. Earlier releases do not report it.
    #[serde(default)]
    pub master_keys: Vec<MasterKeyId>,
    /// The node's own certificate and its trusted ones. Earlier releases do not report them.
    #[serde(default)]
    pub certificates: Vec<CertificateReport>,
    /// Configuration keys that must be equal on all nodes, with their values. Earlier releases do not report them.
    #[serde(default)]
    pub alike: BTreeMap<String, String>,
    /// Channels of the shards that the node owns, by status; channels without any row are not counted.
    pub channels: BTreeMap<Status, u64>,
}

/// A certificate of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CertificateReport {
    /// The configuration key that names its file.
    pub key: String,
    pub expires_at: Timestamp,
    /// The ids of authorities: the one that signed the node's own certificate, and those that it trusts for its peers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<String>,
}

impl NodeReport {
    /// Whether the node trusts certificates of an authority, given by its [`authority_id`].
    pub fn trusts(&self, authority: &str) -> bool {
        self.is_of(OWN_AUTHORITY, authority)
    }

    /// Whether the certificate that the node shows its peers was signed by this authority.
    pub fn is_signed_by(&self, authority: &str) -> bool {
        self.is_of(OWN_CERTIFICATE, authority)
    }

    fn is_of(&self, key: &str, authority: &str) -> bool {
        let of_key = self.certificates.iter().filter(|certificate| certificate.key == key);
        of_key.flat_map(|certificate| &certificate.authorities).any(|known| known == authority)
    }
}

/// The configuration keys of the certificate that a node shows its peers, and of the authorities that it trusts.
pub const OWN_CERTIFICATE: &str = "peer.cert_file";
pub const OWN_AUTHORITY: &str = "peer.ca_file";

/// The id of an authority: the hash of its certificate, in hex.
///
/// # Errors
/// When the text holds no certificate in PEM.
pub fn authority_id(ca_pem: &str) -> Result<String, String> {
    authority_hash(ca_pem).map(hex::encode)
}

/// Reads the present certificates of this node, which may be replaced while it runs.
pub type Certificates = Arc<dyn Fn() -> Vec<CertificateReport> + Send + Sync>;

/// The report of a node, as received.
#[derive(Clone, Debug)]
pub struct Heard {
    pub report: NodeReport,
    /// How far the node's clock is ahead of the asking node's, in milliseconds; accurate to half of the round trip.
    pub clock_ahead: i64,
    pub clock_doubt: Duration,
}

impl Heard {
    /// Estimates the clock at the middle of the round trip.
    pub(crate) fn new(report: NodeReport, asked: Timestamp, took: Duration) -> Self {
        let middle = asked.plus(took / 2);
        Self { clock_ahead: report.clock.0 - middle.0, clock_doubt: took / 2, report }
    }

    /// The least amount by which the clock is off, whatever the split of the round trip.
    pub fn clock_off_by(&self) -> Duration {
        Duration::from_millis(self.clock_ahead.unsigned_abs()).saturating_sub(self.clock_doubt)
    }
}

/// Every member of the cluster, with its report or the reason why there is none.
pub type Survey = BTreeMap<NodeId, Result<Heard, String>>;

/// An error message for a configuration key whose values differ between nodes; `None` if they are equal.
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

    /// The status of an idle node.
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
