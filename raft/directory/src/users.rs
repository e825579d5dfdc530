//! Members and their logins: records and commands.
//!
//! None of the stored values grants access: passwords are argon2id hashes, tokens are SHA-256 of random bytes.

use std::fmt;

use model::field::Change;
use model::id::{CustomerId, SessionId, UserId};
use model::member::Role;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::records::{AuditActor, AuditTarget, CustomerRecord, KeyRecord, hash_bytes};

/// Maximum number of sessions of a member. A further one replaces an ended session, or else the oldest one.
pub const MAX_SESSIONS: usize = 50;

/// Maximum number of members of an account.
pub const MAX_USERS: u32 = 200;

/// A member of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserRecord {
    pub id: UserId,
    pub customer_id: CustomerId,
    /// Folded (`model::member::fold_email`), and unique over all customers.
    pub email: String,
    pub password: PasswordHash,
    pub role: Role,
    pub email_verified: bool,
    /// The latest token that was sent to the address, unless it was used.
    pub verification: Option<Verification>,
    pub created_at: Timestamp,
    pub last_login_at: Option<Timestamp>,
}

impl UserRecord {
    /// Whether the member was invited and has not accepted yet.
    pub fn is_invited(&self) -> bool {
        !self.password.is_set()
    }

    /// The member as the actor of an audit entry.
    pub fn audit_actor(&self) -> AuditActor {
        AuditActor::member(self.id, &self.email)
    }

    /// The member as the target of an audit entry.
    pub fn audit_target(&self) -> AuditTarget {
        AuditTarget::new("member", self.id, self.email.as_str())
    }
}

/// An argon2id hash with its salt and parameters. Hidden from logs, because it allows guessing the password offline.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(pub String);

/// Prefix of the value that stands for a password that is not set; no hash begins like this.
const UNSET: &str = "!";

impl PasswordHash {
    /// Value for an invited member who has not chosen a password yet. Each `mark` gives another value, so that whatever
    /// was bound to the former one becomes invalid.
    pub fn unset(mark: u128) -> Self {
        Self(format!("{UNSET}{mark:032x}"))
    }

    pub fn is_set(&self) -> bool {
        !self.0.starts_with(UNSET)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A token that confirms an e-mail address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    #[serde(with = "hash_bytes")]
    pub hash: [u8; 32],
    pub expires_at: Timestamp,
}

/// One login, and the family of refresh tokens derived from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub id: SessionId,
    pub customer_id: CustomerId,
    pub user_id: UserId,
    /// Hash of the secret that all tokens of the family share: distinguishes an old token from an invented one.
    #[serde(with = "hash_bytes")]
    pub family: [u8; 32],
    /// Hash of the one token that is valid for the next refresh.
    #[serde(with = "hash_bytes")]
    pub token: [u8; 32],
    pub created_at: Timestamp,
    pub refreshed_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// Commands about members and sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum UserCommand {
    /// Creates a customer with its first key, its owner, and the owner's first session.
    SignUp { customer: Box<CustomerRecord>, key: Box<KeyRecord>, user: UserRecord, session: SessionRecord },
    /// Creates a member of a customer.
    Create(UserRecord),
    /// Changes fields of a member.
    Update { customer: CustomerId, id: UserId, change: UserChange },
    /// Removes a member and ends its sessions.
    Delete { customer: CustomerId, id: UserId },
    /// A new token was sent to the member; earlier ones are invalid from now on.
    ExpectVerification { id: UserId, verification: Verification },
    /// Confirms the address by the token with this hash.
    Verify {
        id: UserId,
        #[serde(with = "hash_bytes")]
        hash: [u8; 32],
    },
    /// Signs a member in.
    OpenSession(SessionRecord),
    /// Replaces a refresh token, if it is the session's current one.
    RotateSession {
        id: SessionId,
        #[serde(with = "hash_bytes")]
        from: [u8; 32],
        #[serde(with = "hash_bytes")]
        to: [u8; 32],
        expires_at: Timestamp,
    },
    /// Ends a session.
    RevokeSession { id: SessionId },
    /// Changes or removes a member, unless the account would be left without an owner who has accepted the invitation.
    KeepOwner(Box<UserCommand>),
}

/// Fields of a member that an operator changes. A new password ends the member's sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UserChange {
    pub role: Change<Role>,
    pub password: Change<PasswordHash>,
    pub email_verified: Change<bool>,
}
