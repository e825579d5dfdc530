//! Members' way in: passwords, session tokens, tokens of another issuer, and mail; and that of operators.

pub mod access;
pub mod jwks;
pub mod mail;
pub mod oidc;
pub mod operators;
pub mod password;
pub mod password_token;
pub mod pending;
pub mod sealed_token;
pub mod session;

use std::sync::Arc;

use model::error::CallError;
use model::seal::SealError;
use parking_lot::RwLock;
use raft::directory::records::ClusterRecord;
use raft::directory::secrets::{FormerSessionKey, SessionKey};
use shard::cluster::Cluster;
use shard::secrets::Secrets;

pub use mail::{MailConfig, SmtpConfig, SmtpSecurity};
pub use oidc::OidcConfig;
pub use operators::{OperatorToken, OperatorTokens};

use access::{AccessKey, AccessKeys};
use mail::Mailer;
use oidc::Issuer;
use password::Passwords;
use password_token::PasswordToken;
use pending::Pending;
use sealed_token::TokenKey;

/// What session tokens are signed with, out of the deployment's key, until that is rotated.
const ACCESS_PURPOSE: &str = "session access tokens";

/// What sign-ups are sealed with until their address is confirmed, out of the same.
const PENDING_PURPOSE: &str = "sign-ups that wait for their address";

/// What tokens that set a password are sealed with, out of the same.
const PASSWORD_PURPOSE: &str = "tokens that set a password";

/// The longest token that confirms an address: one of a sign-up holds the name that was given and the address.
pub const LONGEST_EMAIL_TOKEN: usize = 2048;

/// `auth.*` of the configuration.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Whether strangers may sign up; the routes for it answer 404 otherwise.
    pub signup: bool,
    /// Whether an account comes to be only once its address is confirmed.
    pub verify_first: bool,
    /// A page that confirms an address, with `{token}` in it; without one the message holds the token alone.
    pub verify_url: Option<String>,
    /// A page on which a member chooses a password, with `{token}` in it; without one it is the console's.
    pub password_url: Option<String>,
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
    keys: RwLock<Option<Arc<Keys>>>,
}

/// Keys of the whole deployment.
pub struct Keys {
    /// What the directory said of the first when they were opened.
    known: Option<SessionKey>,
    /// What signs session tokens.
    pub access: AccessKeys,
    /// What seals sign-ups that wait for their address.
    pub pending: TokenKey<Pending>,
    /// What seals tokens that set a password.
    pub password: TokenKey<PasswordToken>,
}

impl Keys {
    fn open(record: &ClusterRecord, secrets: &Secrets) -> Result<Self, SealError> {
        let secret = secrets.deployment_key(&record.deployment_key)?;
        let derived = |purpose| model::seal::derive_key(&secret, purpose);
        let opened = |sealed: &[u8]| secrets.session_key(record, sealed).map(|key| AccessKey::new(&key));
        let access = match &record.session_key {
            None => AccessKeys { present: AccessKey::new(&derived(ACCESS_PURPOSE)), former: None },
            Some(key) => {
                let former = match &key.former {
                    FormerSessionKey::Derived => Some(AccessKey::new(&derived(ACCESS_PURPOSE))),
                    FormerSessionKey::Sealed(sealed) => Some(opened(sealed)?),
                    FormerSessionKey::Dropped => None,
                };
                AccessKeys {
                    present: opened(&key.sealed)?,
                    former: former.map(|former| (former, key.overlaps_until())),
                }
            }
        };
        Ok(Self {
            known: record.session_key.clone(),
            access,
            pending: TokenKey::new(derived(PENDING_PURPOSE)),
            password: TokenKey::new(derived(PASSWORD_PURPOSE)),
        })
    }
}

impl Auth {
    pub fn new(config: AuthConfig) -> Self {
        Self {
            passwords: Passwords::new(),
            mail: Mailer::new(config.mail.clone()),
            issuer: config.oidc.clone().map(Issuer::new),
            keys: RwLock::default(),
            config,
        }
    }

    /// The keys of the deployment: the same on every node, and opened when the directory says others.
    ///
    /// # Errors
    /// `auth_backend_unavailable` while the node knows of no cluster, or has another master key than it.
    pub fn keys(&self, cluster: &Cluster) -> Result<Arc<Keys>, CallError> {
        let record = cluster.directory().read(|state| state.cluster.clone());
        let record = record.ok_or_else(CallError::auth_backend_unavailable)?;
        if let Some(keys) = self.keys.read().as_ref().filter(|keys| keys.known == record.session_key) {
            return Ok(keys.clone());
        }
        let keys = Keys::open(&record, cluster.secrets()).map_err(|error| {
            tracing::error!(%error, "the deployment's keys cannot be decrypted; sessions cannot be checked");
            CallError::auth_backend_unavailable()
        })?;
        let keys = Arc::new(keys);
        *self.keys.write() = Some(keys.clone());
        Ok(keys)
    }
}
