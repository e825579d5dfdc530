//! Authentication of members (passwords, session tokens, tokens of another issuer, and e-mails) and of operators.

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

/// Purpose for deriving, from the deployment's key, the key that signs session tokens until it is first rotated.
const ACCESS_PURPOSE: &str = "session access tokens";

/// Purpose for deriving the key that seals sign-ups until their address is confirmed.
const PENDING_PURPOSE: &str = "sign-ups that wait for their address";

/// Purpose for deriving the key that seals tokens that set a password.
const PASSWORD_PURPOSE: &str = "tokens that set a password";

/// The longest token that confirms an address, in characters. The token of a sign-up holds the name and the address.
pub const LONGEST_EMAIL_TOKEN: usize = 2048;

/// The settings `auth.*`.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Whether anybody may sign up; otherwise the sign-up routes answer 404.
    pub signup: bool,
    /// Whether an account is created only once its address is confirmed.
    pub verify_first: bool,
    /// URL of a page that confirms an address, with the placeholder `{token}`. `None`: the e-mail holds the bare token.
    pub verify_url: Option<String>,
    /// URL of a page on which a member chooses a password, with the placeholder `{token}`. `None`: the console's page.
    pub password_url: Option<String>,
    pub mail: MailConfig,
    /// The issuer whose tokens are accepted as sessions.
    pub oidc: Option<OidcConfig>,
}

/// What the routes and the pipeline need for authentication.
pub struct Auth {
    pub config: AuthConfig,
    pub passwords: Passwords,
    pub mail: Mailer,
    pub issuer: Option<Issuer>,
    keys: RwLock<Option<Arc<Keys>>>,
}

/// Opened keys of the whole deployment.
pub struct Keys {
    /// The directory's record of the session key when these keys were opened, to notice a rotation.
    known: Option<SessionKey>,
    /// Sign session tokens.
    pub access: AccessKeys,
    /// Seals sign-ups whose address is not confirmed yet.
    pub pending: TokenKey<Pending>,
    /// Seals tokens that set a password.
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

    /// Returns the deployment's keys, the same on every node; reopened when the directory's session key changes.
    ///
    /// # Errors
    /// `auth_backend_unavailable` while the node belongs to no cluster, or when its master key is not the cluster's.
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
