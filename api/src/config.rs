//! Settings of the HTTP side.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use model::address::Suffixes;
use model::limit::BucketRule;
use model::target::TargetPolicy;
use raft::transport::admission::Port;
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::ServerConfig;

use crate::auth::{AuthConfig, OperatorTokens};
use crate::backups::Backups;

/// Settings of both ports. The binary validates them; any value of these types is valid.
#[derive(Clone)]
pub struct ApiConfig {
    /// The public port.
    pub listen: SocketAddr,
    /// The operator's port, which must not be reachable from outside.
    pub operator_listen: SocketAddr,
    /// The URL by which clients reach this deployment, without a trailing slash.
    pub base_url: String,
    pub suffixes: Suffixes,
    /// Networks of peers whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether the trusted proxies begin each connection to the public port with a PROXY header.
    pub proxy_protocol: bool,
    /// The admission of connections to the public port, and to the operator's.
    pub port: Arc<Port>,
    pub operator_port: Arc<Port>,
    /// TLS of the public port; plain HTTP without it.
    pub tls: Option<Arc<ServerConfig>>,
    /// The origins whose scripts may read responses of the public port.
    pub cors_origins: CorsOrigins,
    pub limits: DefaultLimits,
    /// Authentication of members.
    pub auth: AuthConfig,
    /// Where the messages of support tickets are sent.
    pub support: SupportConfig,
    pub events: EventStreamConfig,
    /// Decides which URLs webhook endpoints may have.
    pub target_policy: TargetPolicy,
    /// The version of the release, as `/healthz` shows it.
    pub version: String,
    /// Takes backups when an operator requests one.
    pub backups: Arc<dyn Backups>,
    /// Renders all metrics of the process as Prometheus text.
    pub metrics_text: Arc<dyn Fn() -> String + Send + Sync>,
    /// TLS of the operator's port; plain HTTP without it.
    pub operator_tls: Option<Arc<ServerConfig>>,
    /// The ports that serve the console: to members on the public port, to operators on theirs.
    pub console: ConsolePorts,
    /// Origins whose pages may embed the members' console in a frame.
    pub frame_ancestors: Vec<String>,
    /// Base URL of a simulated network's phones, without a trailing slash. The console then offers one that scans.
    pub simulated_phones: Option<String>,
    /// The tokens that operators authenticate with.
    pub operator_tokens: OperatorTokens,
}

/// The section `[limits]`: buckets of client addresses, and of customers and channels without limits of their own.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DefaultLimits {
    /// Per client address, counted on each node separately.
    pub ip: BucketRule,
    pub customer: BucketRule,
    pub channel: BucketRule,
    /// Per session of a member in the console.
    // Left out at its default, because a joining node of release 0.2.0 does not know the field.
    #[serde(skip_serializing_if = "is_usual_session")]
    pub console: BucketRule,
}

fn is_usual_session(rule: &BucketRule) -> bool {
    *rule == BucketRule::PER_SESSION
}

impl Default for DefaultLimits {
    fn default() -> Self {
        Self {
            ip: BucketRule::PER_IP,
            customer: BucketRule::PER_CUSTOMER,
            channel: BucketRule::PER_CHANNEL,
            console: BucketRule::PER_SESSION,
        }
    }
}

/// The ports that serve the console.
#[derive(Clone, Copy, Debug)]
pub struct ConsolePorts {
    pub customers: bool,
    pub operators: bool,
}

/// Timing of event streams.
#[derive(Clone, Copy, Debug)]
pub struct EventStreamConfig {
    /// A heartbeat comment is sent after this much silence.
    pub heartbeat: Duration,
    /// A stream is closed after this time; the client connects again.
    pub max_age: Duration,
}

/// The origins whose scripts may read responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsOrigins {
    #[default]
    Nobody,
    Anybody,
    /// The origins as browsers write them, such as `https://app.example.com`.
    These(Vec<String>),
}

/// The settings `support.*`: where the messages of tickets are sent, besides the operator's routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SupportConfig {
    #[default]
    Nobody,
    /// Each message is sent as a POST with JSON.
    Url(String),
    /// Each message is sent over the mail server of `auth.mail`.
    Email(String),
}

impl SupportConfig {
    pub fn hears(&self) -> bool {
        *self != Self::Nobody
    }
}
