//! Members and their logins: what the directory holds of them, and what can be asked about them.
//!
//! Nothing here opens a door by itself: passwords are argon2id hashes, tokens are SHA-256 of random bytes.

use std::fmt;

use model::field::Change;
use model::id::{CustomerId, SessionId, UserId};
use model::member::Role;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::records::{AuditActor, AuditTarget, CustomerRecord, KeyRecord, hash_bytes};

/// Sessions that are kept of a member. When another one is opened one goes that has ended, or else the oldest one ends.
pub const MAX_SESSIONS: usize = 50;

/// Members that an account may have.
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
    /// The token that was last sent to the address and was not used yet.
    pub verification: Option<Verification>,
    pub created_at: Timestamp,
    pub last_login_at: Option<Timestamp>,
}

impl UserRecord {
    /// Whether the member was invited and has not come yet.
    pub fn is_invited(&self) -> bool {
        !self.password.is_set()
    }

    /// As the audit log names the member who acts.
    pub fn audit_actor(&self) -> AuditActor {
        AuditActor::member(self.id, &self.email)
    }

    /// As the audit log names the member who is acted upon.
    pub fn audit_target(&self) -> AuditTarget {
        AuditTarget::new("member", self.id, self.email.as_str())
    }
}

/// An argon2id hash with its salt and parameters. Hidden from logs: it is what a thief would try passwords on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(pub String);

/// How the hash of a password begins that nobody has chosen yet: no hash does.
const UNSET: &str = "!";

impl PasswordHash {
    /// Of a member who was invited and has not chosen a password. Another `mark` makes it another one, so that what was
    /// bound to the former is void.
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

/// One login, and the family of refresh tokens that came from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub id: SessionId,
    pub customer_id: CustomerId,
    pub user_id: UserId,
    /// Of the secret that all tokens of the family share: an old token is told from an invented one by it.
    #[serde(with = "hash_bytes")]
    pub family: [u8; 32],
    /// Of the one token that is good for the next refresh.
    #[serde(with = "hash_bytes")]
    pub token: [u8; 32],
    pub created_at: Timestamp,
    pub refreshed_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// What can be asked of the directory about members and sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum UserCommand {
    /// A new customer with its first key, its owner, and the owner's first session.
    SignUp { customer: Box<CustomerRecord>, key: Box<KeyRecord>, user: UserRecord, session: SessionRecord },
    /// A member of a customer.
    Create(UserRecord),
    /// What is set of a member.
    Update { customer: CustomerId, id: UserId, change: UserChange },
    /// Removes a member and ends its sessions.
    Delete { customer: CustomerId, id: UserId },
    /// A new token was sent to the member; an earlier one is worthless from now on.
    ExpectVerification { id: UserId, verification: Verification },
    /// The address is confirmed by the token with this hash.
    Verify {
        id: UserId,
        #[serde(with = "hash_bytes")]
        hash: [u8; 32],
    },
    /// A member signs in.
    OpenSession(SessionRecord),
    /// Exchanges a refresh token for the next one, when it still is the session's.
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
    /// Changes or removes a member, unless the account would be left without an owner who has come.
    KeepOwner(Box<UserCommand>),
}

/// Fields of a member that an operator changes. A new password ends the member's sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UserChange {
    pub role: Change<Role>,
    pub password: Change<PasswordHash>,
    pub email_verified: Change<bool>,
}
