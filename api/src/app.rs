//! What all requests of one port share.

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

/// How many may read media by links at a node at once, and of one account's: each holds an open file for as long as it takes the
/// bytes, and may take them slowly.
const READERS: usize = 4096;
const READERS_OF_ONE: usize = 512;

/// Answers of one account that a node holds at once until a channel's status lasts: the call costs a token, and what it looks for
/// four times a second nothing.
const HELD_ANSWERS_OF_ONE: usize = 256;

/// Channels' sessions on their way into bundles and out of them at once: each may take some times 48 MiB.
const BUNDLES: usize = 2;

pub struct App {
    pub config: ApiConfig,
    pub cluster: Arc<Cluster>,
    pub failures: FailureLog,
    /// What the audit log is told of members' logins.
    pub logins: LoginLog,
    pub key_use: KeyUse,
    pub auth: Auth,
    /// What was last told of how the gateway does.
    pub status_summary: Mutex<Option<StatusSummary>>,
    /// The port is about to close.
    pub closing: CancellationToken,
    /// The event streams that have not given their places back yet.
    pub event_streams: TaskTracker,
    /// What `GET /openapi.json` shows.
    pub document: Document,
    /// Whose scripts may read answers.
    pub cors_origins: CorsOrigins,
    /// Authenticates operators by their tokens.
    pub operators: OperatorAuthenticator,
    /// Lets few large bodies of an account at work at once.
    pub body_limiter: BodyLimiter,
    /// What clients have it keep.
    pub memory: Memory,
    /// Who reads media by links.
    pub readers: Shares,
    /// Whose answers are held until a channel's status lasts.
    pub held_answers: Shares,
    /// The places of those who export or import a channel.
    pub bundles: Semaphore,
    /// Whether the port speaks TLS.
    pub is_https: bool,
    /// Who has connections there.
    pub connections: Arc<Connections>,
    /// What the log says of requests that fail.
    pub failure_lines: FailureLines,
    ip_buckets: Option<IpBuckets>,
}

impl App {
    /// For one of the ports; its event streams end when `closing` is cancelled, with a last frame that says so. A request of
    /// the public port costs a token of its client's address; at the operator's, wrong tokens alone are counted, and no script
    /// has any business there.
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

    /// Takes a token of a client's address.
    ///
    /// # Errors
    /// The level of the bucket, when it is empty.
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
