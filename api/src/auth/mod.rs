//! Members' way in: passwords, session tokens, tokens of another issuer, mail, and how often all that may be tried
//! (supplement 21.5 and 31, row 37); and that of operators.

pub mod access;
pub mod attempts;
pub mod jwks;
pub mod mail;
pub mod oidc;
pub mod operators;
pub mod password;
pub mod pending;
pub mod session;

use std::sync::OnceLock;

use model::error::ApiError;
use shard::cluster::Cluster;

pub use mail::{MailConfig, SmtpConfig, SmtpSecurity};
pub use oidc::OidcConfig;
pub use operators::{OperatorToken, OperatorTokens};

use access::AccessKey;
use mail::Mailer;
use oidc::Issuer;
use password::Passwords;
use pending::PendingKey;

/// What session tokens are signed with, out of the deployment's key.
const ACCESS_PURPOSE: &str = "session access tokens";

/// What sign-ups are sealed with until their address is confirmed, out of the same.
const PENDING_PURPOSE: &str = "sign-ups that wait for their address";

/// The longest token that confirms an address: one of a sign-up holds the name that was given and the address.
pub const LONGEST_EMAIL_TOKEN: usize = 2048;

/// `auth.*` of the configuration.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Whether strangers may sign up; the routes for it answer 404 otherwise.
    pub signup: bool,
    /// Whether an account comes to be only once its address is confirmed (supplement 32, row 14).
    pub verify_first: bool,
    /// A page that confirms an address, with `{token}` in it; without one the message holds the token alone.
    pub verify_url: Option<String>,
    pub mail: MailConfig,
    /// The issuer whose tokens are taken for sessions.
    pub oidc: Option<OidcConfig>,
}

/// What the routes and the pipeline need of it.
pub struct Auth {
    pub config: AuthConfig,
    pub passwords: Passwords,
    pub mail: Mailer,
    pub issuer: Option<Issuer>,
    keys: OnceLock<Keys>,
}

/// Keys that follow from the deployment's.
struct Keys {
    access: AccessKey,
    pending: PendingKey,
}

impl Auth {
    pub fn new(config: AuthConfig) -> Self {
        Self {
            passwords: Passwords::new(),
            mail: Mailer::new(config.mail.clone()),
            issuer: config.oidc.clone().map(Issuer::new),
            keys: OnceLock::new(),
            config,
        }
    }

    /// The key of the deployment's own tokens.
    ///
    /// # Errors
    /// `auth_backend_unavailable` while the node knows of no cluster, or has another master key than it.
    pub fn access_key(&self, cluster: &Cluster) -> Result<&AccessKey, ApiError> {
        self.keys(cluster).map(|keys| &keys.access)
    }

    /// The key of sign-ups that wait for their address.
    ///
    /// # Errors
    /// As [`Auth::access_key`].
    pub fn pending_key(&self, cluster: &Cluster) -> Result<&PendingKey, ApiError> {
        self.keys(cluster).map(|keys| &keys.pending)
    }

    /// The same on every node, and kept from the first use on, since they never change while the cluster lives.
    fn keys(&self, cluster: &Cluster) -> Result<&Keys, ApiError> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let record = cluster.directory().read(|state| state.cluster.clone());
        let record = record.ok_or_else(ApiError::auth_backend_unavailable)?;
        let secret = cluster.secrets().deployment_key(&record.deployment_key).map_err(|error| {
            tracing::error!(%error, "the deployment's key does not open; sessions cannot be checked");
            ApiError::auth_backend_unavailable()
        })?;
        let derived = |purpose| model::seal::derive_key(&secret, purpose);
        Ok(self.keys.get_or_init(|| Keys {
            access: AccessKey::new(&derived(ACCESS_PURPOSE)),
            pending: PendingKey::new(derived(PENDING_PURPOSE)),
        }))
    }
}
