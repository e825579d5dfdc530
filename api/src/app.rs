//! State that all requests of one port share.

use std::net::IpAddr;
use std::sync::Arc;

use model::limit::{BucketLevel, BucketRule};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::records::CustomerRecord;
use raft::transport::admission::Port as Connections;
use shard::cluster::Cluster;
use shard::shares::Shares;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::logins::LoginLog;
use crate::audit::{FailureLog, Port};
use crate::auth::Auth;
use crate::auth::operators::OperatorAuthenticator;
use crate::body_limiter::BodyLimiter;
use crate::config::{ApiConfig, CorsOrigins};
use crate::doc::Document;
use crate::ip_bucket::IpBuckets;
use crate::key_use::KeyUse;
use crate::memory::Memory;
use crate::status_summary::StatusSummary;
use crate::telemetry::FailureLines;

/// The most downloads of media by link at once on a node, and of those the most of one account. Each holds an open file
/// until it ends, and its client may read slowly.
const READERS: usize = 4096;
const READERS_OF_ONE: usize = 512;

/// The most requests of one account that a node holds at once until a channel's status is stable. Such a call costs one
/// token, but the status is polled four times a second without further tokens.
const HELD_ANSWERS_OF_ONE: usize = 256;

/// The most exports and imports of channels at once. Each may take several times 48 MiB of memory.
const BUNDLES: usize = 2;

pub struct App {
    pub config: ApiConfig,
    pub cluster: Arc<Cluster>,
    pub failures: FailureLog,
    /// Bounds the audit entries of members' logins.
    pub logins: LoginLog,
    pub key_use: KeyUse,
    pub auth: Auth,
    /// The last status summary of the gateway.
    pub status_summary: Mutex<Option<StatusSummary>>,
    /// Cancelled when the port is about to close.
    pub closing: CancellationToken,
    /// The open event streams, until they have released their permits.
    pub event_streams: TaskTracker,
    /// The OpenAPI document of `GET /openapi.json`.
    pub document: Document,
    /// The origins whose scripts may read responses.
    pub cors_origins: CorsOrigins,
    pub operators: OperatorAuthenticator,
    /// Limits how many large bodies of an account are processed at once.
    pub body_limiter: BodyLimiter,
    /// Counts the memory that clients make the node hold.
    pub memory: Memory,
    /// Permits for downloads of media by link.
    pub readers: Shares,
    /// Permits for requests that are held until a channel's status is stable.
    pub held_answers: Shares,
    /// Permits for exports and imports of channels.
    pub bundles: Semaphore,
    /// Whether the port speaks TLS.
    pub is_https: bool,
    /// The places of the port's connections.
    pub connections: Arc<Connections>,
    /// Rate limits the log lines about failed requests.
    pub failure_lines: FailureLines,
    ip_buckets: Option<IpBuckets>,
}

impl App {
    /// Creates the state of one port. When `closing` is cancelled, event streams end with a last frame that says so. On
    /// the public port a request costs a token of its client's address. On the operator's port only wrong tokens are
    /// counted, and CORS is off.
    pub fn new(
        port: Port,
        config: ApiConfig,
        cluster: Arc<Cluster>,
        closing: CancellationToken,
        document: Document,
    ) -> Arc<Self> {
        let (tls, connections, cors_origins, ip_buckets) = match port {
            Port::Customers => {
                let ip_buckets = Some(IpBuckets::new(config.limits.ip));
                (&config.tls, &config.port, config.cors_origins.clone(), ip_buckets)
            }
            Port::Operators => (&config.operator_tls, &config.operator_port, CorsOrigins::Nobody, None),
        };
        let (is_https, connections) = (tls.is_some(), connections.clone());
        Arc::new(Self {
            auth: Auth::new(config.auth.clone()),
            operators: OperatorAuthenticator::new(config.operator_tokens.clone()),
            body_limiter: BodyLimiter::default(),
            memory: Memory::default(),
            readers: Shares::new(READERS, READERS_OF_ONE),
            held_answers: Shares::new(Semaphore::MAX_PERMITS, HELD_ANSWERS_OF_ONE),
            bundles: Semaphore::new(BUNDLES),
            config,
            cluster,
            failures: FailureLog::of(port),
            logins: LoginLog::default(),
            key_use: KeyUse::default(),
            status_summary: Mutex::default(),
            closing,
            event_streams: TaskTracker::new(),
            document,
            cors_origins,
            is_https,
            connections,
            failure_lines: FailureLines::default(),
            ip_buckets,
        })
    }

    /// Takes a token from the bucket of a client's address.
    ///
    /// # Errors
    /// The level of the bucket if it is empty.
    pub fn take_from_address(&self, address: IpAddr, now: Timestamp) -> Result<(), BucketLevel> {
        self.ip_buckets.as_ref().map_or(Ok(()), |buckets| buckets.take(address, now))
    }

    pub fn customer_rule(&self, customer: &CustomerRecord) -> BucketRule {
        customer.limits.customer.unwrap_or(self.config.limits.customer)
    }

    pub fn channel_rule(&self, customer: &CustomerRecord) -> BucketRule {
        customer.limits.channel.unwrap_or(self.config.limits.channel)
    }
}
