//! Members' way in: passwords, session tokens, tokens of another issuer, mail, and how often all that may be tried
//! (supplement 21.5 and 31, row 37).

pub mod access;
pub mod attempts;
pub mod jwks;
pub mod mail;
pub mod oidc;
pub mod password;
pub mod session;

use std::sync::OnceLock;

use model::error::ApiError;
use shard::cluster::Cluster;

pub use mail::{MailConfig, SmtpConfig, SmtpSecurity};
pub use oidc::OidcConfig;

use access::AccessKey;
use mail::Mailer;
use oidc::Issuer;
use password::Passwords;

/// What session tokens are signed with, out of the deployment's key.
const ACCESS_PURPOSE: &str = "session access tokens";

/// `auth.*` of the configuration.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Whether strangers may sign up; the routes for it answer 404 otherwise.
    pub signup: bool,
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
    access: OnceLock<AccessKey>,
}

impl Auth {
    pub fn new(config: AuthConfig) -> Self {
        Self {
            passwords: Passwords::new(),
            mail: Mailer::new(config.mail.clone()),
            issuer: config.oidc.clone().map(Issuer::new),
            access: OnceLock::new(),
            config,
        }
    }

    /// The key of the deployment's own tokens: the same on every node, and kept from the first use on, since it never
    /// changes while the cluster lives.
    ///
    /// # Errors
    /// `auth_backend_unavailable` while the node knows of no cluster, or has another master key than it.
    pub fn access_key(&self, cluster: &Cluster) -> Result<&AccessKey, ApiError> {
        if let Some(key) = self.access.get() {
            return Ok(key);
        }
        let record = cluster.directory().read(|state| state.cluster.clone());
        let record = record.ok_or_else(ApiError::auth_backend_unavailable)?;
        let secret = cluster.secrets().deployment_key(&record.deployment_key).map_err(|error| {
            tracing::error!(%error, "the deployment's key does not open; sessions cannot be checked");
            ApiError::auth_backend_unavailable()
        })?;
        Ok(self.access.get_or_init(|| AccessKey::new(&model::seal::derive_key(&secret, ACCESS_PURPOSE))))
    }
}
