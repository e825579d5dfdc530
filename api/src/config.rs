//! What the HTTP side is told at its start.

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

/// Settings of both ports. The binary validates them; nothing here can be wrong on its own.
#[derive(Clone)]
pub struct ApiConfig {
    /// The public port.
    pub listen: SocketAddr,
    /// The operator's port: never reachable from outside.
    pub operator_listen: SocketAddr,
    /// What clients call this deployment, without a trailing slash.
    pub base_url: String,
    pub suffixes: Suffixes,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether these begin each connection to the public port with a PROXY header.
    pub proxy_protocol: bool,
    /// The places of connections to the public port, and to the operator's.
    pub port: Arc<Port>,
    pub operator_port: Arc<Port>,
    /// With which the public port speaks HTTPS; plain HTTP without.
    pub tls: Option<Arc<ServerConfig>>,
    /// Whose scripts may read answers of the public port.
    pub cors_origins: CorsOrigins,
    pub limits: DefaultLimits,
    /// Members' way in.
    pub auth: AuthConfig,
    /// Who hears of tickets.
    pub support: SupportConfig,
    pub events: EventStreamConfig,
    /// Judges the URLs of webhook endpoints.
    pub target_policy: TargetPolicy,
    /// Of the release, as `/healthz` shows it.
    pub version: String,
    /// Takes backups when an operator asks for one.
    pub backups: Arc<dyn Backups>,
    /// Renders all metrics of the process as Prometheus text.
    pub metrics_text: Arc<dyn Fn() -> String + Send + Sync>,
    /// With which the operator's port speaks HTTPS; plain HTTP without.
    pub operator_tls: Option<Arc<ServerConfig>>,
    /// Whether the console is served to members on the public port, and to operators on theirs.
    pub console: ConsolePorts,
    /// The origins whose pages may hold members' console in a frame.
    pub frame_ancestors: Vec<String>,
    /// Where phones of a simulated network are told what to do, without a trailing slash: the console offers one that scans.
    pub simulated_phones: Option<String>,
    /// What operators authenticate with.
    pub operator_tokens: OperatorTokens,
}

/// `[limits]` of the configuration: the token buckets of addresses, and of customers and channels that have no limits of their own.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DefaultLimits {
    /// Per client address, on each node by itself.
    pub ip: BucketRule,
    pub customer: BucketRule,
    pub channel: BucketRule,
    /// Of a member's session in the console.
    // Release 0.2.0 does not know it, and may be given this node's configuration when it joins.
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

/// How event streams are kept.
#[derive(Clone, Copy, Debug)]
pub struct EventStreamConfig {
    /// After so much silence a comment is sent.
    pub heartbeat: Duration,
    /// After so long a stream is closed; the client connects again.
    pub max_age: Duration,
}

/// Whose scripts may read answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsOrigins {
    #[default]
    Nobody,
    Anybody,
    /// As browsers write them: `https://app.example.com`.
    These(Vec<String>),
}

/// `support.*`: who hears of tickets beside the operator's routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SupportConfig {
    #[default]
    Nobody,
    /// Gets each message as a POST of JSON.
    Url(String),
    /// Gets each message by the mail server of `auth.mail`.
    Email(String),
}

impl SupportConfig {
    pub fn hears(&self) -> bool {
        *self != Self::Nobody
    }
}
