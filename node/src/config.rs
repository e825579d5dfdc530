//! The configuration of one node: its types and their defaults.
//!
//! [`load`] reads it from a TOML file, the environment and `--set` flags; [`validate`] checks it without looking at
//! anything outside, and [`files`] against the machine that the node will run on.

pub mod auth;
pub mod files;
pub mod load;
mod media;
mod network;
pub mod support;
#[cfg(test)]
mod tests;
pub mod validate;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use model::id::NodeId;
use model::scope::Access;
use model::time::Timestamp;
use model::webhook::delivery::DEFAULT_DELAYS_SECONDS;
use raft::directory::members::NodeState;
use raft::directory::records::NodeRecord;
use raft::host::{LogLimits, USUAL_BUFFER};
use serde::{Deserialize, Serialize};
use shard::layout::{REPLICAS, usual_shard_count};
use uuid::Uuid;

pub use auth::Auth;
pub use media::{Media, MediaBucket, MediaStore};
pub use network::{Driver, Network, Whatsapp, suffixes_by_key};
pub use support::Support;
use values::sections;
pub use values::{HostPort, HumanDuration, Secret, Timing, is_loopback};

/// `[limits]`: the token buckets of addresses, customers and channels.
pub use api::DefaultLimits as Limits;
/// `[disk]`: the free space to keep on the file systems of log, state and media.
pub use raft::room::Marks as Disk;
/// `[connections]`: connection limits of each of the three ports.
pub use raft::transport::admission::Admission as Connections;

/// The commented file that `gateway config example` prints.
pub const EXAMPLE: &str = include_str!("../../deploy/gateway.toml");

/// The required keys, those without a default.
const LEAST: &str = r#"
    node = { id = 1, data_dir = "" }
    api = { listen = "127.0.0.1:8080", base_url = "" }
    ops = { listen = "127.0.0.1:8081" }
    peer = { listen = "127.0.0.1:8082", ca_file = "", cert_file = "", key_file = "" }
    cluster = { cluster_id = "00000000-0000-0000-0000-000000000000", nodes = [] }
    secrets = {}
    network = {}
"#;

/// All settings of a node. It is serialized only as TOML, which omits unset options.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub node: Node,
    pub api: Api,
    pub ops: Ops,
    pub peer: Peer,
    pub cluster: Cluster,
    #[serde(default)]
    pub raft: Raft,
    pub secrets: Secrets,
    pub network: Network,
    #[serde(default)]
    pub webhooks: Webhooks,
    #[serde(default)]
    pub media: Media,
    // Release 0.2.0 does not know these sections, and may receive this node's configuration when it joins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disk: Disk,
    #[serde(default, skip_serializing_if = "is_default")]
    pub connections: Connections,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub auth: Auth,
    #[serde(default)]
    pub account: Account,
    #[serde(default)]
    pub support: Support,
    #[serde(default)]
    pub drain: Drain,
    #[serde(default)]
    pub events: Events,
    #[serde(default)]
    pub history: History,
    #[serde(default)]
    pub log: Log,
    #[serde(default)]
    pub traces: Traces,
}

/// `[node]`: this process.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The node's number in the cluster, from 1; never reused for another node.
    pub id: NodeId,
    /// Folder of the log and the state; bound to this node at its first start.
    pub data_dir: PathBuf,
    /// Failure domain: the replicas of a shard are spread over zones.
    #[serde(default = "defaults::zone")]
    pub zone: String,
    /// The node's share of the shards, relative to the other nodes.
    #[serde(default = "defaults::weight")]
    pub weight: u32,
    /// Maximum number of sessions (worker slots) on this node.
    #[serde(default = "defaults::max_channels")]
    pub max_channels: u32,
}

/// `[api]`: the customers' listener.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    pub listen: SocketAddr,
    /// URL at which customers reach the cluster; links in responses start with it.
    pub base_url: String,
    /// `X-Forwarded-For` and PROXY headers are believed only from these addresses.
    #[serde(default)]
    pub trusted_proxies: Vec<IpNet>,
    /// Trusted proxies begin each connection with a PROXY header that names the client.
    #[serde(default)]
    pub proxy_protocol: bool,
    /// Origins whose scripts may read responses, as browsers write them; [`ANY_ORIGIN`] as the only entry allows all.
    #[serde(default)]
    pub cors_origins: Vec<String>,
    /// Whether the console for members is served under `/console`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub console: bool,
    /// Origins whose pages may embed the members' console in a frame, as browsers write them. Members cannot sign in
    /// inside a frame of another site: browsers withhold the session cookie there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console_frame_ancestors: Vec<String>,
    /// Serves HTTPS instead of plain HTTP.
    pub tls: Option<ApiTls>,
}

/// `[api.tls]` and `[ops.tls]`: the files are checked regularly, so that a renewed certificate needs no restart.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiTls {
    /// The certificate, and the intermediate certificates up to its authority.
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// One day, in seconds.
const DAY: u64 = 86_400;

/// The value of `api.cors_origins` that allows every origin.
pub const ANY_ORIGIN: &str = "*";

/// `[ops]`: the operator's listener.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ops {
    pub listen: SocketAddr,
    /// The token that all nodes and operators share: it grants full access.
    pub token: Option<Secret>,
    pub token_file: Option<PathBuf>,
    /// File with more tokens, one per line as `NAME ROLE SHA256`. It is checked regularly: a token that is removed is
    /// rejected within seconds.
    pub tokens_file: Option<PathBuf>,
    /// Whether the console for operators is served under `/console`.
    #[serde(default = "defaults::on", skip_serializing_if = "is_on")]
    pub console: bool,
    /// Serves HTTPS instead of plain HTTP.
    pub tls: Option<ApiTls>,
    /// More tokens, each for one operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<OpsToken>,
}

/// One of `[[ops.tokens]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OpsToken {
    /// The operator's name in the audit log.
    pub name: String,
    /// SHA-256 of the token, in hex.
    pub sha256: String,
    /// `read` grants no access to the content of customers' messages, and so not to backups.
    pub role: Access,
}

/// `[peer]`: the listener for the other nodes, mutual TLS with the cluster's own authority.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub listen: SocketAddr,
    /// Address at which the other nodes reach this one; by default that of `cluster.nodes`.
    pub advertise: Option<HostPort>,
    pub ca_file: PathBuf,
    /// The certificate must name `node-<id>.gateway.internal`, for server and client use.
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    /// The authority's private key, on the node that created the cluster. The cluster takes it over at its first start;
    /// the file is not needed afterwards.
    pub ca_key_file: Option<PathBuf>,
    /// Lifetime of the certificates that the node issues to itself, once the cluster has the key of its authority. The
    /// certificate in the file is only the first one.
    // Release 0.2.0 does not know this key, and may receive this node's configuration when it joins.
    #[serde(default = "defaults::certificate_life", skip_serializing_if = "is_usual_life")]
    pub certificate_life: HumanDuration,
}

impl Peer {
    /// Long enough that a cluster that was down for a while comes back by itself, short enough that a stolen
    /// certificate expires within months.
    pub const CERTIFICATE_LIFE: Duration = Duration::from_secs(90 * DAY);
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_on(is_on: &bool) -> bool {
    *is_on
}

fn is_usual_life(life: &HumanDuration) -> bool {
    *life == defaults::certificate_life()
}

/// `[cluster]`: settings that all nodes have in common.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Connections from nodes of another cluster are refused.
    pub cluster_id: Uuid,
    /// Number of Raft groups for channels; fixed when the cluster is created. See [`Cluster::shard_count`].
    pub shards: Option<u16>,
    #[serde(default)]
    pub timing: Timing,
    /// Limit, in MiB per second, for the snapshots that a node sends while shards move or after a node was away for
    /// long.
    #[serde(default = "defaults::moves_mib_per_second")]
    pub moves_mib_per_second: u32,
    /// Whether leaderships move automatically, a few at a time, when one node has had much more work than its share for
    /// minutes.
    #[serde(default = "defaults::on")]
    pub balance_leads: bool,
    /// This node joined with `gateway join`: it does not form the cluster, but finds it through `nodes`.
    #[serde(default)]
    pub joined: bool,
    /// The nodes that form the cluster.
    pub nodes: Vec<Member>,
}

/// Number of cores available to this process.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl Cluster {
    /// Half of what a slow disk and a 1 Gbit/s network can take.
    pub const MOVES_MIB_PER_SECOND: u32 = 64;

    /// Number of shards with which the cluster is created: the configured one, or the usual one for nodes like this
    /// one. A cluster that starts with fewer than three nodes gets the number for three.
    pub fn shard_count(&self) -> u16 {
        self.shards.unwrap_or_else(|| usual_shard_count(self.nodes.len().max(REPLICAS), cores()))
    }
}

/// One of `cluster.nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub id: NodeId,
    pub peer: HostPort,
    /// URL of the customers' listener.
    pub api: Option<String>,
}

/// `[secrets]`: the master key that encrypts stored secrets, and the previous one while it is being replaced.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// 32 bytes in hex (64 characters) or base64 (44).
    pub master_key: Option<Secret>,
    pub master_key_file: Option<PathBuf>,
    /// The key that `gateway secrets rewrap` retires.
    pub previous_master_key: Option<Secret>,
    pub previous_master_key_file: Option<PathBuf>,
    /// How long former data keys are kept after a rotation, once nothing is sealed with them: longer than any backup
    /// takes.
    pub keep_former_data_keys: Option<HumanDuration>,
}

sections! {
    /// `[webhooks]`: where webhooks may be sent, and when deliveries are retried.
    Webhooks {
        allow_http: bool = false,
        allow_loopback: bool = false,
        /// Private address ranges that receivers may be in.
        allow_cidrs: Vec<IpNet> = Vec::new(),
        /// File of additional authorities for receivers' certificates.
        ca_file: Option<PathBuf> = None,
        /// Sends the Standard Webhooks headers in addition to the gateway's own.
        standard_headers: bool = false,
        /// The delay before each attempt, the first included.
        schedule: Vec<HumanDuration> = DEFAULT_DELAYS_SECONDS.map(HumanDuration::of_seconds).to_vec(),
        /// An endpoint is disabled when no attempt has succeeded for this long ...
        disable_after: HumanDuration = HumanDuration::of_seconds(120 * 3600),
        /// ... and at least this many attempts have failed ...
        disable_failures: u32 = 20,
        /// ... over at least this long.
        disable_span: HumanDuration = HumanDuration::of_seconds(DAY),
        /// How often the cluster stores an endpoint's last success and the start of its failures. When an endpoint
        /// begins or stops failing, that is stored within seconds, a few times per interval.
        note_every: HumanDuration = HumanDuration::of_seconds(300),
        /// How long deliveries that reached their endpoint are kept, with their events.
        keep_delivered: HumanDuration = HumanDuration::of_seconds(7 * DAY),
        /// How long all other deliveries are kept after their creation.
        keep_deliveries: HumanDuration = HumanDuration::of_seconds(30 * DAY),
    }

    /// `[account]`: customers' accounts.
    Account {
        /// How long the data of a deleted account is kept.
        deletion_grace: HumanDuration = HumanDuration::of_seconds(30 * DAY),
    }

    /// `[drain]`: how a node shuts down.
    Drain {
        /// Time from "not ready" to the first refused request, so that load balancers notice.
        initial_wait: HumanDuration = HumanDuration::of_seconds(10),
    }

    /// `[events]`: event streams.
    Events {
        /// Interval without events after which a comment is sent.
        heartbeat: HumanDuration = HumanDuration::of_seconds(15),
        /// Age at which a stream is closed; its client reconnects.
        max_age: HumanDuration = HumanDuration::of_seconds(60 * 60),
    }

    /// `[raft]`: how much log this node keeps of each group, so that a node that was away catches up from the log
    /// instead of a snapshot.
    #[derive(Copy)]
    Raft {
        /// Entries kept behind the newest snapshot.
        keep_entries: u64 = LogLimits::default().keep_entries,
        /// Number of applied entries between two snapshots, after which the log can be truncated.
        snapshot_every: u64 = LogLimits::default().snapshot_every,
        /// Size of a group's log at which it is truncated, whatever the number of entries.
        most_log_bytes: u64 = LogLimits::default().max_bytes,
        /// Bytes of log, and of rows, that are buffered before they are written to a table. A start after a crash
        /// replays at most eight times as many bytes of log, and applies the entries of twice as many bytes of rows
        /// again.
        buffer_bytes: usize = USUAL_BUFFER,
    }
}

impl Raft {
    pub fn log_limits(self) -> LogLimits {
        LogLimits {
            keep_entries: self.keep_entries,
            snapshot_every: self.snapshot_every,
            max_bytes: self.most_log_bytes,
        }
    }
}

sections! {
    /// `[history]`: stored messages.
    History {
        /// Days for which messages are kept; 0 stores nothing.
        retention_days: u16 = 30,
        /// Replaces `retention_days`, to the second.
        retention: Option<HumanDuration> = None,
        /// Whether message bodies are stored, or metadata only.
        store_bodies: bool = true,
        /// How long a message's id and addresses are kept at least, to drop duplicates and to match receipts.
        keep_ids: HumanDuration = HumanDuration::of_seconds(30 * DAY),
        // Release 0.2.0 does not know the next four keys, and may receive this node's configuration when it joins.
        /// How long the row of a deleted channel stays in its shard, and how many such rows a shard keeps.
        #[serde(skip_serializing_if = "History::is_usual_deleted_life")]
        keep_deleted_channels: HumanDuration = HumanDuration::of_seconds(DAY),
        #[serde(skip_serializing_if = "History::is_usual_deleted_count")]
        most_deleted_channels: usize = 10_000,
        /// How long after first seeing a LID a channel remembers its phone address, and how many it remembers.
        #[serde(skip_serializing_if = "History::is_usual_lid_life")]
        keep_lids: HumanDuration = HumanDuration::of_seconds(365 * DAY),
        #[serde(skip_serializing_if = "History::is_usual_lid_count")]
        most_lids: usize = 50_000,
        /// Interval between two runs of the task that removes expired rows, including webhook deliveries.
        trim_every: HumanDuration = HumanDuration::of_seconds(600),
    }
}

impl History {
    fn is_usual_deleted_life(life: &HumanDuration) -> bool {
        *life == Self::default().keep_deleted_channels
    }

    fn is_usual_deleted_count(count: &usize) -> bool {
        *count == Self::default().most_deleted_channels
    }

    fn is_usual_lid_life(life: &HumanDuration) -> bool {
        *life == Self::default().keep_lids
    }

    fn is_usual_lid_count(count: &usize) -> bool {
        *count == Self::default().most_lids
    }

    pub fn retention(&self) -> Duration {
        self.retention.map_or(Duration::from_secs(u64::from(self.retention_days) * DAY), |exact| exact.0)
    }
}

sections! {
    /// `[log]`: what goes to stderr.
    Log {
        format: LogFormat = LogFormat::Text,
        /// `tracing` directives, as in `info,shard=debug`. openraft logs every heartbeat at `info`, and every failed
        /// one at `warn`: thousands of lines a minute while a peer is away, which `raft::transport` logs as one. The
        /// library of the driver `whatsapp` names accounts at `info`, and whole stanzas at `debug`.
        filter: String = "info,openraft=error,salvo_core=warn,whatsapp_rust=warn,wacore=warn".to_owned(),
    }

    /// `[traces]`: OpenTelemetry, off unless a collector is named.
    Traces {
        /// Base URL of a collector for OTLP over HTTP.
        endpoint: Option<String> = None,
        /// Fraction of traces that is recorded, from 0 to 1; use the same on every node, or traces have gaps.
        sample: f64 = 1.0,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// All defaults. Callers build a configuration from it by setting the empty values of [`LEAST`].
    pub fn usual() -> Self {
        load::parse(LEAST, "the least configuration").expect("it has every key that must be there")
    }

    /// Whether this node forms the cluster alone. Nodes that joined later are not in its configuration.
    pub fn is_alone(&self) -> bool {
        !self.cluster.joined && self.cluster.nodes.iter().all(|member| member.id == self.node.id)
    }

    /// This node's entry in `cluster.nodes`, which [`validate`] requires.
    pub fn own_member(&self) -> Option<&Member> {
        self.cluster.nodes.iter().find(|member| member.id == self.node.id)
    }

    /// This node's record for the directory, with the storage id of its data folder.
    pub fn own_record(&self, storage_id: Uuid) -> NodeRecord {
        let advertised = self.peer.advertise.as_ref().or(self.own_member().map(|member| &member.peer));
        NodeRecord {
            id: self.node.id,
            storage_id,
            peer: advertised.map_or_else(|| self.peer.listen.to_string(), ToString::to_string),
            zone: Some(self.node.zone.clone()),
            weight: self.node.weight,
            max_channels: self.node.max_channels,
            registered_at: Timestamp::now(),
            state: NodeState::Active,
            configured_weight: self.node.weight,
        }
    }
}

mod defaults {
    pub fn certificate_life() -> super::HumanDuration {
        super::HumanDuration(super::Peer::CERTIFICATE_LIFE)
    }

    pub fn on() -> bool {
        true
    }

    pub fn zone() -> String {
        "default".to_owned()
    }
    pub fn weight() -> u32 {
        1
    }
    pub fn max_channels() -> u32 {
        50_000
    }

    pub fn moves_mib_per_second() -> u32 {
        super::Cluster::MOVES_MIB_PER_SECOND
    }
}
