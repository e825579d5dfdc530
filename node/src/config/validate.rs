//! The rules that a configuration must satisfy beyond its types, checked without access to anything else.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use model::limit::BucketRule;
use model::seal::MasterKey;
use raft::host::Timing as Intervals;
use shard::media::token::LONGEST_LIFE;
use url::Url;

use super::values::is_loopback;
use super::{
    ANY_ORIGIN, Config, Connections, Disk, Driver, HostPort, Media, MediaBucket, MediaStore, Network, Node, Peer, Raft,
    Secret, Timing, auth, suffixes_by_key, support,
};
use crate::refusal::{Refusal, ensure};

/// Shorter operator tokens could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// This many heartbeats must fit into the shortest election timeout, or one lost packet starts an election.
const HEARTBEATS_PER_ELECTION: u32 = 3;

/// Checks all rules and returns the first violation.
///
/// # Errors
/// A [`Refusal`] that names the key.
pub fn validate(config: &Config) -> Result<(), Refusal> {
    own(&config.node, config.api.listen, config.ops.listen, &config.peer)?;
    ports(config)?;
    cluster(config)?;
    timing(config.cluster.timing)?;
    secrets(config)?;
    network(config)?;
    webhooks(config)?;
    media(&config.media)?;
    disk(config.disk)?;
    connections(config.connections)?;
    for (key, bucket) in [
        ("limits.ip", config.limits.ip),
        ("limits.customer", config.limits.customer),
        ("limits.channel", config.limits.channel),
        ("limits.console", config.limits.console),
    ] {
        limit(key, bucket)?;
    }
    log(config.raft)?;
    history(config)?;
    auth::settings(&config.auth)?;
    let is_url = config.traces.endpoint.as_deref().is_none_or(is_http_url);
    ensure(is_url, "traces.endpoint", "is not an http or https URL", "write http://host:4318")?;
    let is_share = (0.0..=1.0).contains(&config.traces.sample);
    ensure(is_share, "traces.sample", "is not from 0 to 1", "write 0.1 for a tenth")?;
    support::settings(config)?;
    let is_short = config.drain.initial_wait.0 <= Duration::from_secs(600);
    ensure(is_short, "drain.initial_wait", "is over 10 minutes", "give a shorter one")?;
    let second = Duration::from_secs(1);
    // The shards delete the channels of a deleted account within this time.
    let is_long = config.account.deletion_grace.0 >= second;
    ensure(is_long, "account.deletion_grace", "is under a second", "30d is the documented value")?;
    ensure(config.events.heartbeat.0 >= second, "events.heartbeat", "is under a second", "give a longer one")?;
    ensure(config.events.max_age.0 >= second, "events.max_age", "is under a second", "give a longer one")?;
    config
        .log
        .filter
        .parse::<tracing_subscriber::filter::EnvFilter>()
        .map(drop)
        .map_err(|error| Refusal::new("log.filter", error, "write directives such as \"info,shard=debug\""))
}

/// Checks the settings of the node itself, which are known before the rest of the configuration.
///
/// # Errors
/// A [`Refusal`] that names the key.
pub fn own(node: &Node, api: SocketAddr, ops: SocketAddr, peer: &Peer) -> Result<(), Refusal> {
    ensure(node.id > 0, "node.id", "is 0", "number nodes from 1")?;
    ensure(!node.data_dir.as_os_str().is_empty(), "node.data_dir", "is empty", "name a folder")?;
    ensure(!node.zone.trim().is_empty(), "node.zone", "is empty", "name a zone or leave it out")?;
    ensure((1..=1_000).contains(&node.weight), "node.weight", "is not within 1 to 1000", "give 1 to an ordinary node")?;
    ensure(node.max_channels > 0, "node.max_channels", "is 0", "give at least 1")?;
    let mut seen = HashSet::new();
    for (key, address) in [("api.listen", api), ("ops.listen", ops), ("peer.listen", peer.listen)] {
        ensure(address.port() != 0, key, "has port 0", "name a port")?;
        let is_new = seen.insert(address.port());
        ensure(is_new, key, "has the port of another listener", "give each listener its own port")?;
    }
    let lives = (Duration::from_secs(10)..=Duration::from_secs(3650 * 86_400)).contains(&peer.certificate_life.0);
    ensure(lives, "peer.certificate_life", "is not within 10 seconds to 10 years", "90d is usual")?;
    peer.advertise.as_ref().map_or(Ok(()), |address| reachable("peer.advertise", address))
}

/// Checks that other nodes can reach the address.
fn reachable(key: &str, address: &HostPort) -> Result<(), Refusal> {
    let remedy = "name this machine as they know it, as in node-1.lan:8082";
    ensure(!address.is_unspecified(), key, "is not an address that other machines can reach", remedy)
}

fn ports(config: &Config) -> Result<(), Refusal> {
    let problem = "is not an http or https URL, or has a user, a query or a fragment: links to media begin with it";
    ensure(is_base_url(&config.api.base_url), "api.base_url", problem, "write https://host[:port]")?;
    cors_origins(&config.api.cors_origins)?;
    let are_origins = config.api.console_frame_ancestors.iter().all(|origin| is_origin(origin));
    let remedy = "write https://app.example.com, without a path";
    ensure(are_origins, "api.console_frame_ancestors", "has a value that is not an origin", remedy)?;
    let is_trusted = !config.api.proxy_protocol || !config.api.trusted_proxies.is_empty();
    let problem = "is on, but api.trusted_proxies is empty";
    ensure(is_trusted, "api.proxy_protocol", problem, "list the balancers there")?;
    let mut names = HashSet::new();
    for (index, token) in config.ops.tokens.iter().enumerate() {
        let key = |name: &str| format!("ops.tokens[{index}].{name}");
        operator_name(&key("name"), &token.name)?;
        ensure(names.insert(&token.name), key("name"), "is used twice", "give every operator a different name")?;
        operator_hash(&key("sha256"), &token.sha256)?;
    }
    one_of("ops.token", config.ops.token.as_ref(), config.ops.token_file.as_deref())?;
    config.ops.token.as_ref().map_or(Ok(()), |token| operator_token("ops.token", &token.0))
}

/// Checks that a secret is given exactly once: by its key, or by the key of a file.
fn one_of(key: &str, secret: Option<&Secret>, file: Option<&Path>) -> Result<(), Refusal> {
    let file_key = format!("{key}_file");
    match (secret, file) {
        (Some(_), Some(_)) => {
            Err(Refusal::new(file_key, format!("is given together with {key}"), "keep one of the two"))
        }
        (None, None) => Err(Refusal::new(file_key, "is missing", format!("set it, or {key}"))),
        _ => Ok(()),
    }
}

/// Checks an operator token, whatever its source.
///
/// # Errors
/// A [`Refusal`] that names `subject`.
pub fn operator_token(subject: &str, token: &str) -> Result<(), Refusal> {
    let well_formed = token.len() >= SHORTEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure(well_formed, subject, "is not 16 or more visible ASCII characters", "make one with: openssl rand -hex 24")
}

/// Checks an operator's name, whatever its source.
///
/// # Errors
/// A [`Refusal`] that names `subject`.
pub fn operator_name(subject: &str, name: &str) -> Result<(), Refusal> {
    let well_formed = (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    ensure(well_formed, subject, "is not 1 to 64 visible ASCII characters", "name whoever has the token")
}

/// Parses the hash of an operator's token.
///
/// # Errors
/// A [`Refusal`] that names `subject`.
pub fn operator_hash(subject: &str, text: &str) -> Result<[u8; 32], Refusal> {
    let bytes = hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    let remedy = "make one with: printf %s \"$TOKEN\" | sha256sum, of a token of: openssl rand -hex 24";
    bytes.ok_or_else(|| Refusal::new(subject, "is not the SHA-256 of a token: 64 hex digits", remedy))
}

/// Origins must be written exactly as browsers send them, since they are compared as strings.
fn cors_origins(origins: &[String]) -> Result<(), Refusal> {
    let is_alone = origins.len() == 1 && origins[0] == ANY_ORIGIN;
    match origins.iter().find(|origin| !is_origin(origin)).filter(|_| !is_alone) {
        None => Ok(()),
        Some(wrong) => {
            let problem = format!("has \"{wrong}\", which is not an origin");
            Err(Refusal::new("api.cors_origins", problem, "write https://app.example.com, or \"*\" alone"))
        }
    }
}

/// Whether the text is an origin (scheme, host and port) as browsers write it.
fn is_origin(text: &str) -> bool {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.is_some_and(|url| url.origin().ascii_serialization() == text)
}

fn is_http_url(text: &str) -> bool {
    let plain =
        !text.contains(char::is_whitespace) && text.split_once("://").is_some_and(|(_, rest)| !rest.starts_with('/'));
    plain && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Whether the URL can be public and have paths appended.
fn is_base_url(text: &str) -> bool {
    let is_plain = |url: Url| {
        let has_user = !url.username().is_empty() || url.password().is_some();
        !has_user && url.query().is_none() && url.fragment().is_none()
    };
    is_http_url(text) && Url::parse(text).is_ok_and(is_plain)
}

/// Whether the URL is plain `http` on loopback.
fn is_loopback_url(text: &str) -> bool {
    is_http_url(text) && Url::parse(text).is_ok_and(|url| url.scheme() == "http" && url.host().is_some_and(is_loopback))
}

fn cluster(config: &Config) -> Result<(), Refusal> {
    let cluster = &config.cluster;
    ensure(!cluster.cluster_id.is_nil(), "cluster.cluster_id", "is the nil uuid", "make one with: uuidgen")?;
    let shards = cluster.shards.is_none_or(|shards| (1..=1_024).contains(&shards));
    let remedy = "leave it out: the default follows from cores and nodes";
    ensure(shards, "cluster.shards", "is not within 1 to 1024", remedy)?;
    let moves = cluster.moves_mib_per_second > 0;
    let problem = "is 0, so that no shard would ever move";
    ensure(moves, "cluster.moves_mib_per_second", problem, "64 suits most clusters")?;
    let mut ids = HashSet::new();
    let mut peers = HashSet::new();
    for (index, member) in cluster.nodes.iter().enumerate() {
        let key = |name: &str| format!("cluster.nodes[{index}].{name}");
        ensure(member.id > 0, key("id"), "is 0", "number nodes from 1")?;
        ensure(ids.insert(member.id), key("id"), "is used twice", "give every node its own id")?;
        reachable(&key("peer"), &member.peer)?;
        ensure(peers.insert(&member.peer), key("peer"), "is used twice", "give every node its own address")?;
        let is_url = member.api.as_deref().is_none_or(is_http_url);
        ensure(is_url, key("api"), "is not an http or https URL", "write http://host:port")?;
    }
    if cluster.joined {
        let others = cluster.nodes.iter().any(|member| member.id != config.node.id);
        return ensure(others, "cluster.nodes", "names no other node", "list some nodes of the cluster");
    }
    if config.own_member().is_none() {
        let problem = format!("has no entry with id {} (node.id)", config.node.id);
        return Err(Refusal::new("cluster.nodes", problem, "list every node, including this one"));
    }
    Ok(())
}

fn timing(timing: Timing) -> Result<(), Refusal> {
    let Intervals { heartbeat, election_min: min, election_max: max } = timing.intervals();
    ensure(heartbeat >= Duration::from_millis(10), "cluster.timing.heartbeat", "is under 10ms", "give 50ms or more")?;
    let fits = heartbeat <= min / HEARTBEATS_PER_ELECTION;
    let remedy = "raise it or lower the heartbeat";
    ensure(fits, "cluster.timing.election_min", "is under three heartbeats", remedy)?;
    ensure(min < max, "cluster.timing.election_max", "is not above election_min", "raise it")
}

fn secrets(config: &Config) -> Result<(), Refusal> {
    let secrets = &config.secrets;
    let keeps = secrets.keep_former_data_keys.is_none_or(|keep| keep.0 <= Duration::from_secs(365 * 86_400));
    ensure(keeps, "secrets.keep_former_data_keys", "is longer than a year", "24h is usual")?;
    one_of("secrets.master_key", secrets.master_key.as_ref(), secrets.master_key_file.as_deref())?;
    if let Some(key) = &secrets.master_key {
        master_key("secrets.master_key", &key.0)?;
    }
    if let Some(key) = &secrets.previous_master_key {
        let file = secrets.previous_master_key_file.as_deref();
        one_of("secrets.previous_master_key", Some(key), file)?;
        master_key("secrets.previous_master_key", &key.0)?;
    }
    Ok(())
}

/// Parses a master key.
///
/// # Errors
/// A [`Refusal`] that names `subject`.
pub fn master_key(subject: &str, text: &str) -> Result<MasterKey, Refusal> {
    MasterKey::parse(text).map_err(|error| Refusal::new(subject, error, "make one with: openssl rand -hex 32"))
}

fn network(config: &Config) -> Result<(), Refusal> {
    let network = &config.network;
    match network.driver {
        Driver::Simulated => {
            ensure(network.address.is_some(), "network.address", "is missing", "name the simulator's network port")?;
            let idle = network.whatsapp.is_some();
            ensure(!idle, "network.whatsapp", "is for the driver whatsapp", "remove it or set network.driver to it")?;
        }
        Driver::Whatsapp => real_network(network)?,
    }
    let is_simulator = |url: &str| network.driver == Driver::Simulated && is_loopback_url(url);
    let phones = network.phones.as_deref().is_none_or(is_simulator);
    let problem = "is not the control port of a simulator on this machine";
    let remedy = "write http://127.0.0.1:8090, or leave it out: it is for trying the console out";
    ensure(phones, "network.phones", problem, remedy)?;
    let mut seen = HashSet::from(["lid".to_owned()]);
    for (key, suffix) in suffixes_by_key(network.suffixes()) {
        let well_formed =
            !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let problem = "is not made of letters, digits, underscores, dots and hyphens";
        ensure(well_formed, key, problem, "write it without the @")?;
        ensure(seen.insert(suffix), key, "is used by another kind of address", "give each kind its own suffix")?;
    }
    let starts = network.session_starts() > 0;
    ensure(starts, "network.session_starts_per_second", "is 0", "1200 is usual, 50 with whatsapp")
}

/// Checks the settings for the driver of the real network.
fn real_network(network: &Network) -> Result<(), Refusal> {
    let has_driver = cfg!(feature = "whatsapp");
    let remedy = "build it with --features whatsapp, which makes the binary AGPL-3.0 as a whole, or use simulated";
    ensure(has_driver, "network.driver", "is whatsapp, and this build has no such driver", remedy)?;
    let own = suffixes_by_key(network.driver.suffixes());
    for ((key, given), (_, own)) in suffixes_by_key(network.suffixes()).into_iter().zip(own) {
        ensure(given == own, key, "is not that of the real network", "leave it out")?;
    }
    let is_absent = network.address.is_none();
    ensure(is_absent, "network.address", "is the simulator's", "leave it out: the driver knows the network")?;
    let whatsapp = network.whatsapp.clone().unwrap_or_default();
    ensure(whatsapp.sessions_max > 0, "network.whatsapp.sessions_max", "is 0", "2000 is usual")?;
    ensure(whatsapp.threads <= 64, "network.whatsapp.threads", "is over 64", "0 takes half the cores")?;
    let parts: Vec<_> = whatsapp.version.split('.').map(str::parse::<u32>).collect();
    let is_version = whatsapp.version.is_empty() || (parts.len() == 3 && parts.iter().all(Result::is_ok));
    ensure(is_version, "network.whatsapp.version", "is not a version", "write it like 2.3000.N, or leave it out")?;
    #[cfg(feature = "testnet")]
    for (key, url, scheme) in [
        ("network.whatsapp.endpoint", &whatsapp.endpoint, "ws"),
        ("network.whatsapp.media_endpoint", &whatsapp.media_endpoint, "http"),
    ] {
        let is_near =
            |url: &str| Url::parse(url).is_ok_and(|url| url.scheme() == scheme && url.host().is_some_and(is_loopback));
        let problem = "is not the URL of a test network on a loopback address";
        ensure(url.as_deref().is_none_or(is_near), key, problem, "this build speaks to no other network")?;
    }
    Ok(())
}

fn webhooks(config: &Config) -> Result<(), Refusal> {
    let schedule = &config.webhooks.schedule;
    let remedy = "list the delay before each attempt, the first included";
    ensure((1..=64).contains(&schedule.len()), "webhooks.schedule", "has not 1 to 64 entries", remedy)?;
    let longest = Duration::from_secs(7 * 86_400);
    let is_short = schedule.iter().all(|delay| delay.0 <= longest);
    ensure(is_short, "webhooks.schedule", "holds a delay over 7 days", "shorten it")
}

/// Each truncation is a deletion in the log's database: much smaller steps would cost more than they free.
fn log(raft: Raft) -> Result<(), Refusal> {
    const FEWEST: u64 = 10;
    const LEAST_BYTES: u64 = 64 << 10;
    ensure(raft.keep_entries >= FEWEST, "raft.keep_entries", "is below 10", "50000 is usual")?;
    ensure(raft.snapshot_every >= FEWEST, "raft.snapshot_every", "is below 10", "10000 is usual")?;
    ensure(raft.most_log_bytes >= LEAST_BYTES, "raft.most_log_bytes", "is below 64 KiB", "268435456 is usual")?;
    let buffer = (64 << 10..=1 << 30).contains(&raft.buffer_bytes);
    ensure(buffer, "raft.buffer_bytes", "is not within 64 KiB and 1 GiB", "33554432 is usual")
}

fn history(config: &Config) -> Result<(), Refusal> {
    const LONGEST: Duration = Duration::from_secs(365 * 86_400);
    let history = &config.history;
    ensure(history.retention_days <= 365, "history.retention_days", "is over 365", "give 0 to 365 days")?;
    ensure(history.retention() <= LONGEST, "history.retention", "is over 365 days", "shorten it")?;
    ensure(history.keep_ids.0 <= LONGEST, "history.keep_ids", "is over 365 days", "shorten it")?;
    let deleted = (Duration::from_secs(60)..=LONGEST).contains(&history.keep_deleted_channels.0);
    ensure(deleted, "history.keep_deleted_channels", "is not within a minute to 365 days", "1d is usual")?;
    let lids = (Duration::from_secs(86_400)..=10 * LONGEST).contains(&history.keep_lids.0);
    ensure(lids, "history.keep_lids", "is not within a day to ten years", "365d is usual")?;
    ensure(history.most_lids >= 1_000, "history.most_lids", "is below 1000", "50000 is usual")?;
    for (key, kept) in [
        ("webhooks.keep_delivered", config.webhooks.keep_delivered),
        ("webhooks.keep_deliveries", config.webhooks.keep_deliveries),
    ] {
        ensure(kept.0 <= LONGEST, key, "is over 365 days", "shorten it")?;
    }
    let often = (Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&history.trim_every.0);
    ensure(often, "history.trim_every", "is not within 100 ms to a day", "give a few minutes")
}

fn media(media: &Media) -> Result<(), Refusal> {
    let day = Duration::from_secs(86_400);
    ensure((1..=365).contains(&media.retention_days), "media.retention_days", "is not within 1 to 365", "14 is usual")?;
    let kept = media.retention.is_none_or(|retention| !retention.0.is_zero() && retention.0 <= day * 365);
    ensure(kept, "media.retention", "is not within 1ms to 365 days", "leave it out, and give retention_days")?;
    let life = (Duration::from_secs(1)..=LONGEST_LIFE).contains(&media.link_life.0);
    ensure(life, "media.link_life", "is not within a second and 48 hours", "24h is usual")?;
    let often = media.sweep_interval.0 >= Duration::from_millis(100) && media.sweep_interval.0 <= day;
    ensure(often, "media.sweep_interval", "is not within 100ms to a day", "10m is usual")?;
    let waits = !media.orphan_grace.0.is_zero();
    ensure(waits, "media.orphan_grace", "is 0", "give more than an upload can take; 1h is usual")?;
    match (media.store, &media.s3) {
        (MediaStore::Local, _) => Ok(()),
        (MediaStore::S3, None) => {
            Err(Refusal::new("media.s3", "is missing", "describe the bucket, or set media.store = \"local\""))
        }
        (MediaStore::S3, Some(s3)) => bucket(s3),
    }
}

fn disk(disk: Disk) -> Result<(), Refusal> {
    for (key, mark) in [("disk.low", disk.low), ("disk.full", disk.full)] {
        ensure(mark.percent <= 100, format!("{key}.percent"), "is over 100", "give 15 and 5, say")?;
    }
    let ordered = disk.low.percent >= disk.full.percent;
    ensure(ordered, "disk.low.percent", "is below disk.full.percent", "media must stop before sends do")
}

/// Checks the connection limits. Each pair of nodes needs more than a dozen connections.
fn connections(connections: Connections) -> Result<(), Refusal> {
    ensure(connections.most >= 64, "connections.most", "is below 64", "16384 is usual")?;
    let fits = (16..=connections.most).contains(&connections.most_per_address);
    ensure(fits, "connections.most_per_address", "is not within 16 and connections.most", "1024 is usual")
}

/// Checks `[media.s3]`.
///
/// # Errors
/// A [`Refusal`] that names the key.
pub fn bucket(s3: &MediaBucket) -> Result<(), Refusal> {
    ensure(is_http_url(&s3.endpoint), "media.s3.endpoint", "is not an http or https URL", "write https://host[:port]")?;
    let sealed = s3.allow_http || s3.endpoint.starts_with("https://");
    ensure(sealed, "media.s3.endpoint", "is plain http", "use https, or set media.s3.allow_http")?;
    ensure(!s3.bucket.is_empty(), "media.s3.bucket", "is empty", "name the bucket")?;
    ensure(!s3.access_key_id.is_empty(), "media.s3.access_key_id", "is empty", "name the access key")?;
    one_of("media.s3.secret_access_key", s3.secret_access_key.as_ref(), s3.secret_access_key_file.as_deref())
}

fn limit(key: &str, bucket: BucketRule) -> Result<(), Refusal> {
    ensure(bucket.burst > 0, format!("{key}.burst"), "is 0", "give at least 1")?;
    ensure(bucket.refill_per_second > 0, format!("{key}.refill_per_second"), "is 0", "give at least 1")
}
