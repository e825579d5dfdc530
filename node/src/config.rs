//! The configuration of one node: its types and their defaults.
//!
//! Read by [`load`] from a TOML file, the environment and `--set` flags; judged by [`validate`] without touching
//! anything outside, and by [`files`] against the machine that it is to run on.

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
/// `[disk]`: what is to stay free on the file systems of log, state and media.
pub use raft::room::Marks as Disk;
/// `[connections]`: on each of the three ports by itself.
pub use raft::transport::admission::Admission as Connections;

/// The commented file that `gateway config example` prints.
pub const EXAMPLE: &str = include_str!("../../deploy/gateway.toml");

/// The keys that have no default.
const LEAST: &str = r#"
    node = { id = 1, data_dir = "" }
    api = { listen = "127.0.0.1:8080", base_url = "" }
    ops = { listen = "127.0.0.1:8081" }
    peer = { listen = "127.0.0.1:8082", ca_file = "", cert_file = "", key_file = "" }
    cluster = { cluster_id = "00000000-0000-0000-0000-000000000000", nodes = [] }
    secrets = {}
    network = {}
"#;

/// Everything that a node is told from outside. It is written as TOML alone, which leaves out what is not set.
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
    // Release 0.2.0 does not know them, and may be given this node's configuration when it joins.
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
    /// Its number in the cluster, from 1; never given to another node later.
    pub id: NodeId,
    /// Holds the log and the state; bound to this node at the first start.
    pub data_dir: PathBuf,
    /// Replicas of one shard are spread over zones.
    #[serde(default = "defaults::zone")]
    pub zone: String,
    /// Its share of the shards, relative to the other nodes.
    #[serde(default = "defaults::weight")]
    pub weight: u32,
    /// Sessions it holds at most (worker slots).
    #[serde(default = "defaults::max_channels")]
    pub max_channels: u32,
}

/// `[api]`: the customers' listener.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    pub listen: SocketAddr,
    /// Where customers reach the cluster; links in answers start with it.
    pub base_url: String,
    /// Only from these are `X-Forwarded-For` and PROXY headers believed.
    #[serde(default)]
    pub trusted_proxies: Vec<IpNet>,
    /// Trusted proxies begin each connection with a PROXY header, which names the client.
    #[serde(default)]
    pub proxy_protocol: bool,
    /// Whose scripts may read answers, as browsers write origins; [`ANY_ORIGIN`] alone for everybody's.
    #[serde(default)]
    pub cors_origins: Vec<String>,
    /// Members find the console under `/console`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub console: bool,
    /// Whose pages may hold members' console in a frame, as browsers write origins. Of another site they cannot sign in there:
    /// browsers keep the session's cookie from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console_frame_ancestors: Vec<String>,
    /// HTTPS instead of plain HTTP.
    pub tls: Option<ApiTls>,
}

/// `[api.tls]` and `[ops.tls]`: looked at again and again, so that a renewed certificate needs no restart.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiTls {
    /// The certificate, and those between it and its authority.
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// In seconds.
const DAY: u64 = 86_400;

/// In `api.cors_origins`.
pub const ANY_ORIGIN: &str = "*";

/// `[ops]`: the operator's listener.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ops {
    pub listen: SocketAddr,
    /// The token that all nodes and operators share: it opens everything.
    pub token: Option<Secret>,
    pub token_file: Option<PathBuf>,
    /// More tokens, one a line as in `NAME ROLE SHA256`; looked at again and again, so that one that is taken out opens
    /// nothing within seconds.
    pub tokens_file: Option<PathBuf>,
    /// Operators find the console under `/console`.
    #[serde(default = "defaults::on", skip_serializing_if = "is_on")]
    pub console: bool,
    /// HTTPS instead of plain HTTP.
    pub tls: Option<ApiTls>,
    /// More tokens, each of one operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<OpsToken>,
}

/// One of `[[ops.tokens]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OpsToken {
    /// As the audit log names who has it.
    pub name: String,
    /// Of the token, in hex.
    pub sha256: String,
    /// `read` is to look, but not at what is inside of customers' messages, as a backup holds them.
    pub role: Access,
}

/// `[peer]`: the listener for the other nodes, mutual TLS with the cluster's own authority.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub listen: SocketAddr,
    /// Where the others reach this node; `cluster.nodes` is taken when it is left out.
    pub advertise: Option<HostPort>,
    pub ca_file: PathBuf,
    /// Names `node-<id>.gateway.internal`, for server and client use.
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    /// The authority's own key, of the node that made the cluster: taken over by the cluster at its first start, and
    /// not needed afterwards.
    pub ca_key_file: Option<PathBuf>,
    /// How long the node's next certificate lives. It is made in time, once the cluster has its authority's key; the file
    /// is that of the first one.
    // Release 0.2.0 does not know it, and may be given this node's configuration when it joins.
    #[serde(default = "defaults::certificate_life", skip_serializing_if = "is_usual_life")]
    pub certificate_life: HumanDuration,
}

impl Peer {
    /// Long enough that a cluster which stands still for a while comes back by itself, short enough that a certificate which
    /// was copied is worthless within a season.
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

/// `[cluster]`: what all nodes have in common.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Nodes of another cluster are not spoken to.
    pub cluster_id: Uuid,
    /// Raft groups for channels; fixed when the cluster is made. See [`Cluster::shard_count`].
    pub shards: Option<u16>,
    #[serde(default)]
    pub timing: Timing,
    /// MiB of shards' states that a node sends to others in a second, while shards move or a node was away for long.
    #[serde(default = "defaults::moves_mib_per_second")]
    pub moves_mib_per_second: u32,
    /// Leads move by themselves, a few at a time, when one node has for minutes much more to do than its share.
    #[serde(default = "defaults::on")]
    pub balance_leads: bool,
    /// This node was let in by `gateway join`: it does not make the cluster, it finds it by `nodes`.
    #[serde(default)]
    pub joined: bool,
    /// The nodes that make the cluster.
    pub nodes: Vec<Member>,
}

/// How many cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl Cluster {
    /// Half of what a slow disk and a network of one gigabit take.
    pub const MOVES_MIB_PER_SECOND: u32 = 64;

    /// How many shards the cluster is made with: what the configuration says, or what nodes such as this one pay for. A cluster
    /// that begins with fewer than three nodes gets as many as three would have.
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
    /// The URL of its customers' listener.
    pub api: Option<String>,
}

/// `[secrets]`: the key under which stored secrets are sealed, and the one before it while it is exchanged.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// 32 bytes in hex (64 characters) or base64 (44).
    pub master_key: Option<Secret>,
    pub master_key_file: Option<PathBuf>,
    /// The key that `gateway secrets rewrap` takes out of use.
    pub previous_master_key: Option<Secret>,
    pub previous_master_key_file: Option<PathBuf>,
    /// How long data keys are kept after a rotation, once nothing is sealed with them: longer than any backup takes.
    pub keep_former_data_keys: Option<HumanDuration>,
}

sections! {
    /// `[webhooks]`: what deliveries may reach, and when they are tried again.
    Webhooks {
        allow_http: bool = false,
        allow_loopback: bool = false,
        /// Private ranges that receivers may lie in.
        allow_cidrs: Vec<IpNet> = Vec::new(),
        /// More authorities that receivers' certificates may come from.
        ca_file: Option<PathBuf> = None,
        /// Sends the Standard Webhooks headers beside the gateway's own.
        standard_headers: bool = false,
        /// The delay before each attempt, the first included.
        schedule: Vec<HumanDuration> = DEFAULT_DELAYS_SECONDS.map(HumanDuration::of_seconds).to_vec(),
        /// An endpoint without a success for so long is switched off ...
        disable_after: HumanDuration = HumanDuration::of_seconds(120 * 3600),
        /// ... when at least so many attempts have failed ...
        disable_failures: u32 = 20,
        /// ... over at least so long.
        disable_span: HumanDuration = HumanDuration::of_seconds(DAY),
        /// How often the cluster notes when an endpoint last succeeded and since when it fails. That it fails, or does no
        /// more, is noted within seconds, a few times.
        note_every: HumanDuration = HumanDuration::of_seconds(300),
        /// How long deliveries that reached their endpoint are kept, with their events.
        keep_delivered: HumanDuration = HumanDuration::of_seconds(7 * DAY),
        /// How long all others are kept after they were made.
        keep_deliveries: HumanDuration = HumanDuration::of_seconds(30 * DAY),
    }

    /// `[account]`: customers' accounts.
    Account {
        /// How long the data of a deleted account is kept.
        deletion_grace: HumanDuration = HumanDuration::of_seconds(30 * DAY),
    }

    /// `[drain]`: how a node leaves.
    Drain {
        /// Between "not ready" and the first refused request, so that balancers notice.
        initial_wait: HumanDuration = HumanDuration::of_seconds(10),
    }

    /// `[events]`: event streams.
    Events {
        /// After so much silence a comment is sent.
        heartbeat: HumanDuration = HumanDuration::of_seconds(15),
        /// After so long a stream is closed, and its client connects again.
        max_age: HumanDuration = HumanDuration::of_seconds(60 * 60),
    }

    /// `[raft]`: how much log this node keeps of each group, so that a node that was away catches up from it and not from a
    /// snapshot.
    #[derive(Copy)]
    Raft {
        /// Entries that stay behind the newest snapshot.
        keep_entries: u64 = LogLimits::default().keep_entries,
        /// Applied entries between two snapshots, which let the log be cut.
        snapshot_every: u64 = LogLimits::default().snapshot_every,
        /// Bytes of a group's log after which it is cut, whatever the number of entries.
        most_log_bytes: u64 = LogLimits::default().max_bytes,
        /// Bytes of log, and of rows, that gather before they are written to a table. A start after a crash
        /// replays at most eight times as many, and applies the entries of twice as many bytes of rows again.
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
        /// How many days messages are kept; 0 stores nothing.
        retention_days: u16 = 30,
        /// Instead of days, to the second.
        retention: Option<HumanDuration> = None,
        /// Whether messages are kept with their bodies, and not as metadata only.
        store_bodies: bool = true,
        /// How long at least a message's id and addresses are kept, so that repeats are dropped and receipts find it.
        keep_ids: HumanDuration = HumanDuration::of_seconds(30 * DAY),
        // Release 0.2.0 does not know the four that follow, and may be given this node's configuration when it joins.
        /// How long the row of a deleted channel stays in its shard, and how many of a shard's do.
        #[serde(skip_serializing_if = "History::is_usual_deleted_life")]
        keep_deleted_channels: HumanDuration = HumanDuration::of_seconds(DAY),
        #[serde(skip_serializing_if = "History::is_usual_deleted_count")]
        most_deleted_channels: usize = 10_000,
        /// How long a channel keeps the phone address behind a LID from when it first saw it, and how many it keeps.
        #[serde(skip_serializing_if = "History::is_usual_lid_life")]
        keep_lids: HumanDuration = HumanDuration::of_seconds(365 * DAY),
        #[serde(skip_serializing_if = "History::is_usual_lid_count")]
        most_lids: usize = 50_000,
        /// Between two looks at what is to be deleted, here and of webhook deliveries.
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
        /// `tracing` directives, as in `info,shard=debug`. openraft tells of every heartbeat at `info`, and at `warn` of
        /// every one that fails: thousands of lines a minute while a peer is away, which `raft::transport` tells in one. The
        /// library of the driver `whatsapp` names accounts at `info`, and writes whole stanzas at `debug`.
        filter: String = "info,openraft=error,salvo_core=warn,whatsapp_rust=warn,wacore=warn".to_owned(),
    }

    /// `[traces]`: OpenTelemetry, off unless a collector is named.
    Traces {
        /// A collector's base URL for OTLP over HTTP.
        endpoint: Option<String> = None,
        /// The part of all traces that is recorded, from 0 to 1; the same on every node, or traces have holes.
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
    /// What is usual of everything. A configuration is made of it by saying what stands empty in [`LEAST`].
    pub fn usual() -> Self {
        load::parse(LEAST, "the least configuration").expect("it has every key that must be there")
    }

    /// Whether this node alone is to form the cluster. What grew later is not in its configuration.
    pub fn is_alone(&self) -> bool {
        !self.cluster.joined && self.cluster.nodes.iter().all(|member| member.id == self.node.id)
    }

    /// This node's entry of `cluster.nodes`; [`validate`] makes sure that it is there.
    pub fn own_member(&self) -> Option<&Member> {
        self.cluster.nodes.iter().find(|member| member.id == self.node.id)
    }

    /// This node as the directory is to know it, with the data folder of this storage id.
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
