//! What all requests of one port share.

use std::net::IpAddr;
use std::sync::Arc;

use model::limit::{BucketLevel, BucketRule};
use model::time::Timestamp;
use raft::directory::records::CustomerRecord;
use raft::supervise;
use shard::cluster::Cluster;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::audit::FailureLog;
use crate::auth::Auth;
use crate::config::ApiConfig;
use crate::key_use::KeyUse;
use crate::openapi::{Deployment, Document};
use crate::operator;
use crate::pipeline::{CorsOrigins, IpBuckets};
use crate::resources::{self, EventStreams, StatusSummary};
use crate::support;

pub struct App {
    pub config: ApiConfig,
    pub cluster: Arc<Cluster>,
    pub failures: FailureLog,
    pub key_use: KeyUse,
    pub auth: Auth,
    pub status_summary: StatusSummary,
    pub event_streams: EventStreams,
    /// What `GET /openapi.json` shows.
    pub document: Document,
    /// Whose scripts may read answers.
    pub cors_origins: CorsOrigins,
    ip_buckets: Option<IpBuckets>,
}

/// What the document tells of the configuration.
fn deployment<'a>(config: &'a ApiConfig, cluster: &Cluster) -> Deployment<'a> {
    let ApiConfig { suffixes, target_policy, .. } = config;
    Deployment { suffixes, target_policy, media_days: cluster.media().retention_days() }
}

impl App {
    /// For the public port: every request costs a token of its client's address. Its event streams end when `closing`
    /// is cancelled.
    pub fn public(config: ApiConfig, cluster: Arc<Cluster>, closing: CancellationToken) -> Arc<Self> {
        let ip_buckets = Some(IpBuckets::new(config.limits.ip));
        let document = Document::of("Gateway", &resources::routes(), &deployment(&config, &cluster));
        let cors_origins = config.cors_origins.clone();
        Self::new(config, cluster, cors_origins, ip_buckets, EventStreams::until(closing), document)
    }

    /// For the operator's port: nothing is counted there, and no script has any business there.
    pub fn operator(config: ApiConfig, cluster: Arc<Cluster>) -> Arc<Self> {
        let document = Document::of("Gateway, for its operators", &operator::routes(), &deployment(&config, &cluster));
        let streams = EventStreams::until(CancellationToken::new());
        Self::new(config, cluster, CorsOrigins::Nobody, None, streams, document)
    }

    fn new(
        config: ApiConfig,
        cluster: Arc<Cluster>,
        cors_origins: CorsOrigins,
        ip_buckets: Option<IpBuckets>,
        event_streams: EventStreams,
        document: Document,
    ) -> Arc<Self> {
        Arc::new(Self {
            auth: Auth::new(config.auth.clone()),
            config,
            cluster,
            failures: FailureLog::default(),
            key_use: KeyUse::default(),
            status_summary: StatusSummary::default(),
            event_streams,
            document,
            cors_origins,
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

    /// Starts what goes on beside the answers: failed authentications, times of keys' last use, messages to members and
    /// to the support.
    pub fn start_background(self: Arc<Self>) -> Background {
        let stop = CancellationToken::new();
        let (for_failures, for_keys, for_mail, for_support) = (self.clone(), self.clone(), self.clone(), self);
        let (stop_failures, stop_keys, stop_mail) = (stop.clone(), stop.clone(), stop.clone());
        let stop_support = stop.clone();
        let failures = supervise::spawn("the audit of failed authentications", move || {
            let (app, stop) = (for_failures.clone(), stop_failures.clone());
            async move { app.failures.run(&app.cluster, stop).await }
        });
        let key_use = supervise::spawn("the times of keys' last use", move || {
            let (app, stop) = (for_keys.clone(), stop_keys.clone());
            async move { app.key_use.run(&app.cluster, stop).await }
        });
        let mail = supervise::spawn("the mail to members", move || {
            let (app, stop) = (for_mail.clone(), stop_mail.clone());
            async move { app.auth.mail.run(stop).await }
        });
        let support = supervise::spawn("the way to the helpdesk", move || {
            let (app, stop) = (for_support.clone(), stop_support.clone());
            async move { support::run(&app, stop).await }
        });
        Background { stop, tasks: [failures, key_use, mail, support] }
    }
}

/// The tasks beside the requests.
pub struct Background {
    stop: CancellationToken,
    tasks: [JoinHandle<()>; 4],
}

impl Background {
    /// Stops the tasks after the last request; each writes what it still holds.
    pub async fn finish(self) {
        self.stop.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a background task ended abnormally");
            }
        }
    }
}
