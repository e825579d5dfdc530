//! Builds members, and their sessions and tokens, for logins, refreshes and sign-ups.

use std::time::Duration;

use model::error::CallError;
use model::id::{CustomerId, SessionId, UserId};
use model::member::Role;
use model::session_token::{EmailToken, RefreshToken};
use model::time::Timestamp;
use raft::directory::users::{PasswordHash, SessionRecord, UserRecord, Verification};
use schemars::JsonSchema;
use serde::Serialize;

use super::access;

/// A session ends when it was not refreshed for this long.
const IDLE_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// A session ends after this time, however often it is refreshed.
const LONGEST_LIFE: Duration = Duration::from_secs(180 * 24 * 3600);

/// How long a token that confirms an address is valid.
pub const VERIFICATION_LIFE: Duration = Duration::from_secs(24 * 3600);

/// The tokens of a session, issued at login and at each refresh.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tokens")]
pub struct TokensView {
    /// Access token for the header `Authorization: Bearer`.
    pub access_token: String,
    /// Seconds until the access token expires.
    pub expires_in: u64,
    pub refresh_token: String,
}

impl TokensView {
    /// Signs an access token for the session.
    ///
    /// # Errors
    /// As [`AccessKey::issue`](access::AccessKey::issue).
    pub fn issue(
        key: &access::AccessKey,
        user: &UserRecord,
        session: &SessionRecord,
        refresh: &RefreshToken,
        now: Timestamp,
    ) -> Result<Self, CallError> {
        let access_token = key.issue(user, session, now)?;
        Ok(Self { access_token, expires_in: access::LIFE.as_secs(), refresh_token: refresh.reveal() })
    }
}

/// A new member, whose address is not confirmed yet.
pub fn new_member(
    customer_id: CustomerId,
    email: String,
    password: PasswordHash,
    role: Role,
    created_at: Timestamp,
) -> UserRecord {
    let (email_verified, verification, last_login_at) = (false, None, None);
    let id = UserId::new();
    UserRecord { id, customer_id, email, password, role, email_verified, verification, created_at, last_login_at }
}

/// A new session of a member, and its first refresh token.
pub fn open(user: &UserRecord, now: Timestamp) -> (SessionRecord, RefreshToken) {
    let id = SessionId::new();
    let token = RefreshToken::first(id, rand::random(), rand::random());
    let session = SessionRecord {
        id,
        customer_id: user.customer_id,
        user_id: user.id,
        family: token.family_hash(),
        token: token.hash(),
        created_at: now,
        refreshed_at: now,
        expires_at: now.plus(IDLE_LIFE),
        revoked_at: None,
    };
    (session, token)
}

/// The expiry of a session that is refreshed now.
pub fn refreshed_until(session: &SessionRecord, now: Timestamp) -> Timestamp {
    now.plus(IDLE_LIFE).min(session.created_at.plus(LONGEST_LIFE))
}

/// A new token that confirms a member's address, and the record that the directory keeps of it.
pub fn expect_verification(user: &UserRecord, now: Timestamp) -> (Verification, EmailToken) {
    let token = EmailToken::new(user.id, rand::random());
    (Verification { hash: token.hash(), expires_at: now.plus(VERIFICATION_LIFE) }, token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lives_by_being_used_and_not_for_ever() {
        let user = crate::auth::access::tests::test_user(CustomerId::new());
        let (session, token) = open(&user, Timestamp(0));
        assert_eq!((session.token, session.family), (token.hash(), token.family_hash()));
        let day = |days: u64| Timestamp(0).plus(Duration::from_secs(days * 24 * 3600));
        assert_eq!(session.expires_at, day(30));
        assert_eq!(refreshed_until(&session, day(10)), day(40));
        assert_eq!(refreshed_until(&session, day(170)), day(180));
    }
}
