//! The authenticated caller: an API key, or a member with a dashboard session.

use std::sync::Arc;

use model::error::CallError;
use model::id::{ChannelId, CustomerId, KeyId, SessionId};
use model::member::Role;
use model::scope::{Access, Scopes};
use model::time::Timestamp;
use raft::directory::records::{AuditActor, CustomerRecord, KeyOrigin, KeyRecord};
use raft::directory::state::DirectoryState;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The account that a request acts for, and what it may do.
#[derive(Clone)]
pub struct Caller {
    pub credential: Credential,
    pub customer: Arc<CustomerRecord>,
    pub scopes: Scopes,
}

/// The credential that the caller was authenticated by.
#[derive(Clone)]
pub enum Credential {
    Key(Arc<KeyRecord>),
    Session(Session),
}

/// A dashboard session: a login at the gateway, or a token of the configured issuer. Stream tickets store its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The login that the token belongs to; `None` for a token of another issuer, which ends only by its expiry.
    pub id: Option<SessionId>,
    /// The member's id, or the subject of the issuer's token.
    pub subject: String,
    pub email: String,
    pub role: Role,
    /// Expiry of the token.
    pub expires_at: Timestamp,
}

/// The number of buckets that a member's console sessions share. Two or three sessions mostly have a bucket each.
const BUCKETS_OF_A_MEMBER: u128 = 4;

/// The number of buckets that all console sessions of an account share, which bounds the calls of many members.
const BUCKETS_OF_AN_ACCOUNT: u128 = 16;

impl Session {
    /// Id of the bucket that counts this session's calls of the console; the same on every node. Neither a member who
    /// logs in often nor an account that invites many members gets calls without limit.
    pub fn bucket(&self, account: CustomerId) -> Uuid {
        let named = |name: String| Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
        let place = self.id.map_or(0, |id| id.0.as_u128() % BUCKETS_OF_A_MEMBER);
        let place = named(format!("{} {place}", self.subject)).as_u128() % BUCKETS_OF_AN_ACCOUNT;
        named(format!("console of {account}, {place}"))
    }
}

impl Caller {
    /// The channel that the key is bound to; `None` for sessions.
    pub fn bound_channel(&self) -> Option<ChannelId> {
        self.key().and_then(|key| key.channel_id)
    }

    /// The API key, if the caller is one.
    pub fn key(&self) -> Option<&Arc<KeyRecord>> {
        if let Credential::Key(key) = &self.credential { Some(key) } else { None }
    }

    pub fn key_id(&self) -> Option<KeyId> {
        self.key().map(|key| key.id)
    }

    /// The dashboard session, if the caller is one.
    pub fn session(&self) -> Option<&Session> {
        if let Credential::Session(session) = &self.credential { Some(session) } else { None }
    }

    /// Expiry of the key or the token.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match &self.credential {
            Credential::Key(key) => key.expires_at,
            Credential::Session(session) => Some(session.expires_at),
        }
    }

    /// The latest expiry of a key that this caller creates: that of the creating key. Sessions do not bound keys.
    pub fn latest_expiry(&self) -> Option<Timestamp> {
        self.key().and_then(|key| key.expires_at)
    }

    /// The origin of keys that this caller creates.
    pub fn key_origin(&self) -> KeyOrigin {
        if self.key().is_some() { KeyOrigin::ApiKey } else { KeyOrigin::Dashboard }
    }

    /// The caller as an actor in the audit log.
    pub fn actor(&self) -> AuditActor {
        match &self.credential {
            Credential::Key(key) => AuditActor::key(key),
            Credential::Session(session) => AuditActor::member(&session.subject, &session.email),
        }
    }

    /// Refuses callers that may not use the account's own routes: a restricted key, or a role without this access.
    ///
    /// # Errors
    /// `insufficient_scope`, which asks for `*`.
    pub fn require_account(&self, access: Access) -> Result<(), CallError> {
        match self.session() {
            None => self.scopes.require_unrestricted(),
            Some(session) if session.role.reaches_account(access) => Ok(()),
            Some(_) => Err(CallError::insufficient_scope(&["*".to_owned()], &self.scopes.to_strings())),
        }
    }

    /// Returns the session, for routes that no API key may use.
    ///
    /// # Errors
    /// `insufficient_scope`, which asks for `dashboard_session`.
    pub fn require_session(&self) -> Result<&Session, CallError> {
        // The empty list grants everything, but would read as if it granted nothing.
        let granted = || if self.scopes.is_unrestricted() { vec!["*".to_owned()] } else { self.scopes.to_strings() };
        self.session().ok_or_else(|| CallError::insufficient_scope(&["dashboard_session".to_owned()], &granted()))
    }

    /// Whether the credential is still valid. Checked during long responses, such as event streams.
    pub fn still_stands(&self, state: &DirectoryState, now: Timestamp) -> bool {
        let customer = state.customers.get(&self.customer.id);
        customer.is_some_and(|customer| customer.deleted_at.is_none())
            && match &self.credential {
                Credential::Key(key) => state
                    .keys
                    .get(&key.id)
                    .is_some_and(|key| state.ended_at(key).is_none() && key.expires_at.is_none_or(|end| end > now)),
                Credential::Session(session) => {
                    let stands = |id| state.users.session(id).is_some_and(|session| session.revoked_at.is_none());
                    session.expires_at > now && session.id.is_none_or(stands)
                }
            }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn session(id: Option<SessionId>, subject: &str) -> Session {
        let (subject, email) = (subject.to_owned(), "ann@example.com".to_owned());
        Session { id, subject, email, role: Role::Owner, expires_at: Timestamp(0) }
    }

    #[test]
    fn however_often_its_members_log_in_the_sessions_of_an_account_share_a_few_buckets_of_the_console() {
        let (account, other) = (CustomerId::random(), CustomerId::random());
        let of = |account: CustomerId, subject: &str| -> HashSet<Uuid> {
            (0..50).map(|_| session(Some(SessionId::new()), subject).bucket(account)).collect()
        };
        let one = of(account, "one");
        assert!(one.len() <= BUCKETS_OF_A_MEMBER as usize, "{}", one.len());
        let many: HashSet<Uuid> = (0..200).flat_map(|member| of(account, &member.to_string())).collect();
        assert!((2..=BUCKETS_OF_AN_ACCOUNT as usize).contains(&many.len()), "{}", many.len());
        assert!(many.is_disjoint(&of(other, "one")), "another account has its own");
        for id in [Some(SessionId::new()), None] {
            assert_eq!(session(id, "one").bucket(account), session(id, "one").bucket(account));
        }
    }
}
