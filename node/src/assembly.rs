//! Assembles a node from the bottom up: stores, peers, Raft, the messaging network, the cluster, the two HTTP
//! listeners. Shuts it down in the reverse order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::{ApiConfig, ConsolePorts, CorsOrigins, EventStreamConfig, OperatorTokens, ServeError};
use model::id::NodeId;
use model::limit::BucketRule;
use model::target::TargetPolicy;
use model::webhook::RetrySchedule;
use network::driver::Network;
use network::simulated::SimulatedNetwork;
use nix::sys::resource::{Resource, getrlimit};
use parking_lot::RwLock;
use raft::directory::LocalCopy;
use raft::directory::command::Rejection;
use raft::directory::health::DisableRule;
use raft::host::{Host, HostConfig, StartError, Stores, StoresConfig, Timing};
use raft::supervise;
use raft::transport::admission::{Admission, Port};
use raft::transport::tls::expires_at;
use raft::transport::{Admit, Identity, Lookup, Peers, PeersConfig, PeersError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use shard::cluster::{Cluster, ClusterConfig, ClusterError};
use shard::deliveries::DeliveryRules;
use shard::format::Release;
use shard::media::blobs::{BlobError, BlobsConfig, Place};
use shard::media::store::MediaConfig;
use shard::membership::{Excluded, MembershipConfig};
use shard::report::{CertificateReport, Certificates, OWN_AUTHORITY, OWN_CERTIFICATE, unlike};
use shard::retention::Retention;
use shard::secrets::{KEEP_FORMER, Secrets};
use shard::webhook::attempt::{AttemptConfig, Attempter};
use shard::webhook::resolver::SystemResolver;
use tokio_util::sync::CancellationToken;

use crate::backup::jobs::Jobs;
use crate::certificate::ApiCertificate;
use crate::config::{self, Config, Driver, MediaStore, Secret, auth, files, support};
use crate::configured::Configured;
use crate::data_folder::DataFolder;
use crate::joining::audit::Written;
use crate::joining::service::{JoinService, fits, keep_authority};
use crate::operator::client::Operator;
use crate::operator_tokens;
use crate::peer_certificate::{Renewal, Shown, peer_tls, trusted_authorities};
use crate::refusal::Refusal;
use crate::telemetry;
use crate::traces::Exporter;

/// The release, shown by `/healthz` and in the `User-Agent` of webhooks.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Threads of the runtime that peers and Raft have apart from requests. Heartbeats need little CPU; the second thread
/// keeps one slow task from delaying them.
pub const RAFT_THREADS: usize = 2;

/// Folder of the local media blobs, in the data folder.
const MEDIA_FOLDER: &str = "blobs";

/// How often a starting node checks whether it can serve.
const READY_POLL: Duration = Duration::from_millis(20);

/// How long a node that can serve waits for the reports of the other nodes.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// Configuration key whose value must be the same on all nodes: see [`several_drivers`].
const DRIVER: &str = "network.driver";

/// The parts of a running node.
pub struct Assembly {
    peers: Arc<Peers>,
    host: Arc<Host>,
    cluster: Arc<Cluster>,
    ports: [api::Running; 2],
    close_ports: CancellationToken,
    /// Locked until everything that writes to the folder has ended.
    folder: DataFolder,
    drain_wait: Duration,
}

/// Opens all parts of a node. Whatever was opened before a failure ends with the process.
///
/// # Errors
/// The part that could not be opened.
pub async fn assemble(configured: Configured) -> anyhow::Result<Assembly> {
    let Configured { config, folder, identity, keyring, operator_token, metrics, .. } = configured;
    let (certificate, operators_certificate) = (configured.certificate, configured.operators_certificate);
    let (ca_pem, own_keyring) = (identity.ca_pem.clone(), keyring.clone());
    let shown: Shown = Arc::new(RwLock::new(identity.clone()));
    let own = Identity { cluster_id: folder.identity.cluster_id, storage_id: folder.identity.storage_id };
    // The stores open before any peer is contacted: the stored directory decides which peers are admitted.
    let stores = Stores::open(StoresConfig {
        node: config.node.id,
        data_dir: folder.path.clone(),
        storage_id: own.storage_id,
        buffer: config.raft.buffer_bytes,
        fatal: None,
    })
    .await
    .map_err(store_refusal)?;
    let admission = admission(&config);
    let [peer_port, api_port, ops_port] = ["peer", "api", "ops"].map(|name| Port::new(name, admission));
    let peers = Peers::start(PeersConfig {
        node: config.node.id,
        listen: config.peer.listen,
        identity: own,
        tls: peer_tls(identity),
        lookup: lookup(&config, stores.local_copy().clone()),
        admit: admit(own, stores.local_copy().clone()),
        threads: RAFT_THREADS,
        port: peer_port.clone(),
        election_min: config.cluster.timing.intervals().election_min,
    })
    .await
    .map_err(peers_refusal)?;
    let host = Host::start(HostConfig {
        stores,
        timing: config.cluster.timing.intervals(),
        log: config.raft.log_limits(),
        snapshot_bytes_per_second: u64::from(config.cluster.moves_mib_per_second) << 20,
        room: config.disk,
        media_dir: folder.path.join(MEDIA_FOLDER),
        peers: peers.clone(),
    })
    .await
    .map_err(store_refusal)?;
    let host = Arc::new(host);

    let attempts = AttemptConfig {
        standard_headers: config.webhooks.standard_headers,
        extra_ca_pem: configured.webhook_authorities.map(String::into_bytes),
        ..AttemptConfig::new(target_policy(&config), VERSION)
    };
    let keep_former = config.secrets.keep_former_data_keys.map_or(KEEP_FORMER, |keep| keep.0);
    let network = driver(&config)?;
    let cluster = Cluster::start(
        ClusterConfig {
            release: release(&folder.path),
            membership: membership(&config, own),
            secrets: Secrets::new(keyring).keeping_former(keep_former),
            certificates: certificates(config.node.id, shown.clone(), &[&certificate, &operators_certificate]),
            alike: alike(&config, &*network),
            ports: vec![peer_port, api_port.clone(), ops_port.clone()],
            network,
            suffixes: config.network.suffixes(),
            session_starts_per_second: config.network.session_starts(),
            drain_wait: config.drain.initial_wait.0,
            balance_leads: config.cluster.balance_leads,
            attempter: Attempter::new(attempts, SystemResolver::default()).context("webhooks.ca_file")?,
            retry_schedule: RetrySchedule::new(config.webhooks.schedule.iter().map(|delay| delay.0).collect()),
            delivery_rules: delivery_rules(&config),
            retention: retention(&config),
            deletion_grace: config.account.deletion_grace.0,
            media: media(&config, &folder.path, configured.media_secret),
        },
        host.clone(),
        peers.clone(),
    )
    .await
    .map_err(cluster_refusal)?;

    let close_ports = CancellationToken::new();
    if let Some(key_file) = config.peer.ca_key_file.clone() {
        let (cluster, stop) = (cluster.clone(), close_ports.clone());
        supervise::spawn("the hand-over of the authority", move || {
            keep_authority(cluster.clone(), ca_pem.clone(), key_file.clone(), stop.clone())
        });
    }
    let (of_cluster, of_peers, renewed, stop) = (cluster.clone(), peers.clone(), config.clone(), close_ports.clone());
    supervise::spawn("the renewal of the peer certificate", move || {
        let (cluster, peers) = (of_cluster.clone(), of_peers.clone());
        Renewal { cluster, peers, config: renewed.clone(), shown: shown.clone() }.keep(stop.clone())
    });
    peers.serve_unauthenticated(Arc::new(JoinService {
        cluster: cluster.clone(),
        config: config.clone(),
        keyring: own_keyring,
        operator_token: operator_token.clone(),
        written: Written::default(),
    }));
    if let Some(endpoint) = &config.traces.endpoint
        && let Some(spans) = shard::trace::install(config.traces.sample)
    {
        let exporting = Exporter::new(endpoint, config.node.id)?.run(spans, close_ports.clone());
        // If the exporter task ends, further spans are dropped and counted.
        tokio::spawn(supervise::noticed("the export of traces", exporting));
    }
    let (recorder, stop) = (metrics.clone(), close_ports.clone());
    supervise::spawn("the upkeep of metrics", move || telemetry::keep_metrics(recorder.clone(), stop.clone()));
    let (auth, support) = (auth::settings(&config.auth)?, support::settings(&config)?);
    let tls = certificate.as_ref().map(ApiCertificate::server_config).transpose().context("api.tls")?;
    let operator_tls = operators_certificate.as_ref().map(ApiCertificate::server_config).transpose();
    let operator_tls = operator_tls.context("ops.tls")?;
    for certificate in [certificate, operators_certificate].into_iter().flatten() {
        let (certificate, stop) = (Arc::new(certificate), close_ports.clone());
        supervise::spawn("a port's certificate", move || certificate.clone().keep(stop.clone()));
    }
    let backups = Jobs::new(Operator::at(&config.ops, &operator_token)?, config.media.clone());
    let operator_tokens = OperatorTokens::new(configured.operator_tokens);
    let (looked_at, kept, stop) = (config.clone(), operator_tokens.clone(), close_ports.clone());
    supervise::spawn("the operators' tokens", move || {
        operator_tokens::keep(looked_at.clone(), operator_token.clone(), kept.clone(), stop.clone())
    });
    let http = ApiConfig {
        listen: config.api.listen,
        operator_listen: config.ops.listen,
        base_url: base_url(&config),
        suffixes: config.network.suffixes(),
        trusted_proxies: config.api.trusted_proxies.clone(),
        proxy_protocol: config.api.proxy_protocol,
        port: api_port,
        operator_port: ops_port,
        tls,
        cors_origins: cors_origins(&config.api),
        limits: config.limits,
        console: ConsolePorts { customers: config.api.console, operators: config.ops.console },
        frame_ancestors: config.api.console_frame_ancestors.clone(),
        simulated_phones: config.network.phones.as_deref().map(|url| url.trim_end_matches('/').to_owned()),
        auth,
        support,
        events: EventStreamConfig { heartbeat: config.events.heartbeat.0, max_age: config.events.max_age.0 },
        target_policy: target_policy(&config),
        version: VERSION.to_owned(),
        backups: Arc::new(backups),
        metrics_text: Arc::new(move || telemetry::text(&metrics)),
        operator_tls,
        operator_tokens,
    };
    let ports = [
        api::serve_operator(http.clone(), cluster.clone(), close_ports.clone())
            .await
            .map_err(|error| port_refusal("ops.listen", &error))?,
        api::serve(http, cluster.clone(), close_ports.clone())
            .await
            .map_err(|error| port_refusal("api.listen", &error))?,
    ];
    Ok(Assembly { peers, host, cluster, ports, close_ports, folder, drain_wait: config.drain.initial_wait.0 })
}

impl Assembly {
    /// Returns when the node can serve.
    ///
    /// # Errors
    /// Another running node has a different driver.
    pub async fn ready(&self) -> Result<(), Refusal> {
        loop {
            let readiness = self.cluster.readiness();
            if readiness.store && readiness.cluster && readiness.leases {
                break;
            }
            tokio::time::sleep(READY_POLL).await;
        }
        let survey = self.cluster.survey(HEARD_WITHIN).await;
        let said = survey.iter().filter_map(|(node, heard)| Some((*node, &heard.as_ref().ok()?.report.alike)));
        several_drivers(said).map_or(Ok(()), Err)
    }

    /// Returns when the cluster has rejected this node.
    pub async fn excluded(&self) -> Refusal {
        exclusion(&self.cluster.excluded().await, &self.folder.path)
    }

    /// Transfers leaderships, answers accepted requests, and shuts down from the top.
    pub async fn stop(self) {
        self.cluster.announce_stop();
        tokio::time::sleep(self.drain_wait).await;
        // From here on, requests for the slots that this node owned are forwarded.
        self.cluster.transfer_all().await;
        self.close_ports.cancel();
        for port in self.ports {
            port.stopped().await;
        }
        self.cluster.stop().await;
        self.host.shutdown().await;
        self.peers.shutdown().await;
    }
}

/// Refuses to start when the running nodes do not all have the same driver: a channel that moves between drivers has a
/// state that the new driver cannot read, and stays in error.
fn several_drivers<'a>(said: impl Iterator<Item = (NodeId, &'a BTreeMap<String, String>)>) -> Option<Refusal> {
    // Releases before this check do not report their driver.
    let drivers = said.filter_map(|(node, alike)| Some((node, alike.get(DRIVER)?.as_str())));
    let remedy = "correct it, or stop first those whose driver is wrong";
    unlike(drivers).map(|problem| Refusal::new(DRIVER, problem, remedy))
}

fn exclusion(reason: &Excluded, data_dir: &Path) -> Refusal {
    let folder = || format!("node.data_dir ({})", data_dir.display());
    let (subject, remedy) = match reason {
        Excluded::MasterKey(_) => (
            "secrets.master_key_file".to_owned(),
            "give the node the master keys that the other nodes have; secrets.previous_master_key_file may go when \
             `gateway secrets status` says so",
        ),
        Excluded::Rejected(Rejection::AddressTaken { .. }) => (
            "peer.advertise".to_owned(),
            "give the address of this node, which no other has; when that other one has moved, start it first",
        ),
        Excluded::Rejected(Rejection::NodeRemoved(_) | Rejection::NodeUnknown(_)) => {
            (folder(), "move this folder and that of the configuration away first: neither is used again")
        }
        Excluded::Refused(said) if said.contains("cluster.timing") => (
            "cluster.timing".to_owned(),
            "give the node the timing of the others; another one is given to all, while all are stopped",
        ),
        Excluded::Rejected(_) | Excluded::Refused(_) => (
            folder(),
            "give the node the folder that it had; where that is lost, or the node was removed, it joins under a new id with an \
             empty one (gateway node remove, gateway token, gateway join)",
        ),
    };
    Refusal::new(subject, reason, remedy)
}

fn peers_refusal(error: PeersError) -> anyhow::Error {
    match error {
        PeersError::Listen { addr, error } => {
            let subject = format!("peer.listen ({addr})");
            Refusal::new(subject, error, "stop what listens there, or name another port").into()
        }
        PeersError::Tls(reason) => Refusal::new("peer.cert_file", reason, "have peer.ca_file sign another one").into(),
        other => anyhow::Error::new(other),
    }
}

fn store_refusal(error: StartError) -> anyhow::Error {
    match error {
        StartError::Folder { path, reason } => {
            let subject = format!("node.data_dir ({})", path.display());
            Refusal::new(subject, reason, "name this node's own folder, on a disk in order").into()
        }
        StartError::Timing(reason) => Refusal::new("cluster.timing", reason, "correct it on every node").into(),
        other => anyhow::Error::new(other).context("opening the store"),
    }
}

fn cluster_refusal(error: ClusterError) -> anyhow::Error {
    match error {
        ClusterError::Media(BlobError::Disk(error)) => {
            Refusal::new("node.data_dir", error, "name a folder whose blobs can be written").into()
        }
        full @ ClusterError::Media(BlobError::NoSpace) => full.into(),
        ClusterError::Media(error) => Refusal::new("media.s3", error, "correct the bucket's settings").into(),
        other => other.into(),
    }
}

fn port_refusal(key: &str, error: &ServeError) -> Refusal {
    Refusal::new(key, error, "stop what listens there, or name another port")
}

/// Bounds the connections of each port by a quarter of the file limit, so that the three ports together leave files to
/// everything else.
fn admission(config: &Config) -> Admission {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    let most = config.connections.most.min(usize::try_from(files / 4).unwrap_or(usize::MAX));
    if most < config.connections.most {
        let wanted = config.connections.most;
        tracing::warn!(
            files,
            most,
            wanted,
            "this process may open few files, and a port takes no more connections than a quarter of these: raise the limit \
             (LimitNOFILE, ulimit -n) to four times connections.most, or lower that"
        );
    }
    Admission { most, ..config.connections }
}

fn retention(config: &Config) -> Retention {
    Retention {
        history: config.history.retention(),
        store_bodies: config.history.store_bodies,
        envelopes: config.history.keep_ids.0,
        delivered: config.webhooks.keep_delivered.0,
        deliveries: config.webhooks.keep_deliveries.0,
        deleted_channels: config.history.keep_deleted_channels.0,
        most_deleted_channels: config.history.most_deleted_channels,
        lids: config.history.keep_lids.0,
        most_lids: config.history.most_lids,
        expire_every: config.history.trim_every.0,
    }
}

/// Finds the address of a node: in the directory, or in the configuration while the directory does not know the node.
fn lookup(config: &Config, directory: LocalCopy) -> Lookup {
    let configured = config.cluster.nodes.clone();
    Arc::new(move |node| {
        let known = directory.read(|state| state.nodes.get(&node).map(|record| record.peer.clone()));
        known.or_else(|| configured.iter().find(|member| member.id == node).map(|member| member.peer.to_string()))
    })
}

/// Admits peers of this cluster that come with the data folder registered for them. The stored directory is consulted
/// even before the directory group runs, so that a wiped or swapped folder never has a vote.
fn admit(own: Identity, directory: LocalCopy) -> Admit {
    Arc::new(move |node: NodeId, theirs: &Identity, understands, way| {
        if theirs.cluster_id != own.cluster_id {
            return Err(format!("node {node} is of cluster {}, and this is {}", theirs.cluster_id, own.cluster_id));
        }
        fits(understands, directory.format()).map_err(|reason| format!("node {node}: {reason}"))?;
        directory.judge(node, theirs.storage_id, way)
    })
}

fn release(folder: &Path) -> Release {
    let folder = folder.to_owned();
    Release { version: VERSION.to_owned(), seal: Arc::new(move |format| DataFolder::seal(&folder, format)) }
}

/// Reports the certificates of the node's peer connection and of its ports, as they are now: both can be renewed at run
/// time.
fn certificates(node: NodeId, peer: Shown, ports: &[&Option<ApiCertificate>]) -> Certificates {
    let report = |key: &str, certificate: &CertificateDer<'_>| {
        let expires_at = expires_at(certificate)?;
        Some(CertificateReport { key: key.to_owned(), expires_at, authorities: Vec::new() })
    };
    let first = |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).next()?.ok();
    let ports: Vec<_> = ports.iter().copied().flatten().map(|port| (port.key(), port.watch())).collect();
    Arc::new(move || {
        let peer = peer.read();
        let trusted = trusted_authorities(&peer);
        let signer = trusted.iter().filter(|(pem, _)| files::proves(pem, &peer.cert_pem, node).is_ok());
        let signer: Vec<String> = signer.map(|(_, id)| id.clone()).collect();
        let trusted: Vec<String> = trusted.iter().map(|(_, id)| id.clone()).collect();
        let own = [(OWN_AUTHORITY, &peer.ca_pem, trusted), (OWN_CERTIFICATE, &peer.cert_pem, signer)];
        let own = own.into_iter().filter_map(|(key, pem, authorities)| {
            Some(CertificateReport { authorities, ..report(key, &first(pem)?)? })
        });
        own.chain(ports.iter().filter_map(|(key, shown)| report(key, &shown()?))).collect()
    })
}

/// Settings that must be the same on all nodes. Each node reports its own, and checks compare the reports. With
/// different timings, a former owner's fence may outlast the election of the next owner; with the other settings,
/// behavior would depend on which node owns a channel.
fn alike(config: &Config, network: &dyn Network) -> BTreeMap<String, String> {
    let Timing { heartbeat, election_min, election_max } = config.cluster.timing.intervals();
    let store = config.media.bucket().map(|s3| format!("s3 {}/{}", s3.bucket, s3.prefix));
    let bucket = |rule: BucketRule| format!("{} + {}/s", rule.burst, rule.refill_per_second);
    let webhooks = &config.webhooks;
    let ranges: Vec<String> = webhooks.allow_cidrs.iter().map(ToString::to_string).collect();
    let pairs = [
        ("cluster.timing", format!("{heartbeat:?}, {election_min:?}, {election_max:?}")),
        ("limits.customer", bucket(config.limits.customer)),
        ("limits.channel", bucket(config.limits.channel)),
        ("media.store", store.unwrap_or_else(|| "local".to_owned())),
        (DRIVER, network.name().to_owned()),
        ("webhooks.allow_http", webhooks.allow_http.to_string()),
        ("webhooks.allow_loopback", webhooks.allow_loopback.to_string()),
        ("webhooks.allow_cidrs", format!("[{}]", ranges.join(", "))),
    ];
    let pairs = pairs.into_iter().chain(config::suffixes_by_key(config.network.suffixes()));
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn membership(config: &Config, own: Identity) -> MembershipConfig {
    // A node that joined is not one of the nodes that formed the cluster.
    let members = config.cluster.nodes.iter().filter(|member| !config.cluster.joined || member.id != config.node.id);
    MembershipConfig {
        cluster_id: own.cluster_id,
        shard_count: config.cluster.shard_count(),
        first_members: members.map(|member| member.id).collect(),
        own: config.own_record(own.storage_id),
        election_min: config.cluster.timing.intervals().election_min,
    }
}

fn driver(config: &Config) -> anyhow::Result<Arc<dyn Network>> {
    match config.network.driver {
        Driver::Simulated => {
            let address = config.network.address.as_ref().context("network.address is missing")?;
            Ok(Arc::new(SimulatedNetwork::new(address.to_string(), config.node.id)))
        }
        #[cfg(feature = "whatsapp")]
        Driver::Whatsapp => real_network(&config.network.whatsapp.clone().unwrap_or_default(), target_policy(config)),
        #[cfg(not(feature = "whatsapp"))]
        Driver::Whatsapp => anyhow::bail!("this build has no driver whatsapp"),
    }
}

/// The real network, or a test network on this machine in builds for tests.
#[cfg(feature = "whatsapp")]
fn real_network(settings: &crate::config::Whatsapp, targets: TargetPolicy) -> anyhow::Result<Arc<dyn Network>> {
    use whatsapp::{ClientVersion, Endpoint, Settings, WhatsappNetwork};

    #[cfg(feature = "testnet")]
    let endpoint = match &settings.endpoint {
        Some(url) => Endpoint::test(url)
            .map_err(|error| Refusal::new("network.whatsapp.endpoint", error, "name the test network's port"))?,
        None => {
            let remedy = "name the test network's port: this build speaks to no other network";
            return Err(Refusal::new("network.whatsapp.endpoint", "is missing", remedy).into());
        }
    };
    #[cfg(not(feature = "testnet"))]
    let endpoint = Endpoint::network()?;
    let version = ClientVersion::parse(&settings.version);
    tracing::warn!(
        "the driver whatsapp speaks the protocol of WhatsApp Web as an unofficial client. It is not made, endorsed or supported \
         by WhatsApp or Meta, whose terms of service do not allow unofficial or automated clients; numbers that use it can be \
         limited or banned, temporarily or for good, and the protocol can change any day"
    );
    if cfg!(feature = "testnet") {
        tracing::warn!("this build speaks to a test network alone: it is for tests, and must not serve customers");
    }
    let (threads, sessions_max) = (settings.threads, settings.sessions_max);
    Ok(Arc::new(WhatsappNetwork::start(Settings { threads, version, endpoint, sessions_max, targets })?))
}

fn delivery_rules(config: &Config) -> DeliveryRules {
    let webhooks = &config.webhooks;
    DeliveryRules {
        disable: DisableRule {
            after: webhooks.disable_after.0,
            failures: webhooks.disable_failures,
            span: webhooks.disable_span.0,
        },
        note_every: webhooks.note_every.0,
    }
}

fn target_policy(config: &Config) -> TargetPolicy {
    TargetPolicy {
        allow_http: config.webhooks.allow_http,
        allow_loopback: config.webhooks.allow_loopback,
        allow_cidrs: config.webhooks.allow_cidrs.clone(),
    }
}

fn media(config: &Config, data_dir: &Path, secret: Option<Secret>) -> MediaConfig {
    let media = &config.media;
    let place = match (media.store, &media.s3) {
        (MediaStore::S3, Some(s3)) => {
            let secret = secret.map_or_else(String::new, |secret| secret.0);
            Place::Bucket(s3.service(&s3.bucket, &s3.prefix, secret))
        }
        (MediaStore::Local, _) | (MediaStore::S3, None) => Place::Replicas,
    };
    MediaConfig {
        blobs: BlobsConfig {
            folder: data_dir.join(MEDIA_FOLDER),
            place,
            gc_every: media.sweep_interval.0,
            orphan_grace: media.orphan_grace.0,
        },
        retention: media.retention(),
        link_life: media.link_life.0,
        base_url: base_url(config),
    }
}

/// `api.base_url` without a trailing slash.
fn base_url(config: &Config) -> String {
    config.api.base_url.trim_end_matches('/').to_owned()
}

fn cors_origins(api: &config::Api) -> CorsOrigins {
    match api.cors_origins.as_slice() {
        [] => CorsOrigins::Nobody,
        [any] if any == config::ANY_ORIGIN => CorsOrigins::Anybody,
        origins => CorsOrigins::These(origins.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_on_a_full_disk_is_no_refusal_so_that_it_is_tried_again() {
        let refused = |reason: &str| {
            let error = StartError::of_folder(Path::new("/data/raft"), reason.to_owned());
            store_refusal(error).is::<Refusal>()
        };
        assert!(!refused("IO error: No space left on device: While appending to file: /data/raft/000012.sst"));
        assert!(!refused("Disk quota exceeded (os error 122)"));
        assert!(refused("is locked: another process uses this folder"));
        assert!(!cluster_refusal(ClusterError::Media(BlobError::NoSpace)).is::<Refusal>());
    }

    #[test]
    fn a_node_is_refused_beside_those_that_have_another_driver_and_not_beside_those_that_do_not_say() {
        let alike = |driver: &str| BTreeMap::from([(DRIVER.to_owned(), driver.to_owned())]);
        let (simulated, real, silent) = (alike("simulated"), alike("whatsapp"), BTreeMap::new());
        assert_eq!(several_drivers([(1, &simulated), (2, &silent), (3, &simulated)].into_iter()), None);
        let refused = several_drivers([(1, &simulated), (2, &real), (3, &simulated)].into_iter());
        let problem = "has to be alike on all nodes: simulated at node 1, node 3; whatsapp at node 2";
        assert_eq!(refused.map(|refusal| refusal.problem).as_deref(), Some(problem));
    }

    #[test]
    fn a_node_that_was_removed_or_has_another_timing_is_not_sent_to_look_for_its_folder() {
        let told = |reason: Excluded| exclusion(&reason, Path::new("/data")).to_string();
        let removed = told(Excluded::Rejected(Rejection::NodeRemoved(4)));
        assert!(removed.contains("gateway join") && !removed.contains("that it had"), "{removed}");
        let wiped = told(Excluded::Refused("node 4 came with another folder".to_owned()));
        assert!(wiped.contains("that it had") && wiped.contains("gateway join"), "{wiped}");
        let hasty = told(Excluded::Refused("node 4 has another cluster.timing: its shortest".to_owned()));
        assert!(hasty.contains("stopped") && !hasty.contains("node.data_dir"), "{hasty}");
    }
}
