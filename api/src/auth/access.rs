//! The deployment's own access tokens: JWTs that are valid for 15 minutes and name a session.
//!
//! A token proves who logged in. What that member may do is read from the directory at each request, so a logout, a
//! changed role or a removal takes effect at once, and not when the token expires.

use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use model::error::{CallError, ErrorCode};
use model::id::{CustomerId, SessionId, UserId};
use model::member::Role;
use model::time::Timestamp;
use raft::directory::secrets::SESSION_OVERLAP;
use raft::directory::users::{SessionRecord, UserRecord};
use serde::{Deserialize, Serialize};

use crate::failure;

/// How long an access token is valid.
pub const LIFE: Duration = Duration::from_secs(15 * 60);

const _: () = assert!(LIFE.as_secs() < SESSION_OVERLAP.as_secs(), "tokens outlive the key that they were signed with");

/// The issuer claim that tells the deployment's own tokens from those of another issuer.
const ISSUER: &str = "gateway";

/// The only algorithm of own tokens. Own tokens and those of another issuer are never checked with each other's keys.
pub const ALGORITHM: Algorithm = Algorithm::HS256;

/// A key that signs and verifies the deployment's own tokens.
pub struct AccessKey {
    encoding: EncodingKey,
    decoding: DecodingKey,
}

/// The keys of the deployment's own tokens: two while the key is rotated.
pub struct AccessKeys {
    /// The key that signs.
    pub present: AccessKey,
    /// The previous signing key, and until when it still verifies tokens.
    pub former: Option<(AccessKey, Timestamp)>,
}

impl AccessKeys {
    /// Checks a token with the key that signed it.
    ///
    /// # Errors
    /// As [`AccessKey::check`].
    pub fn check(&self, token: &str, now: Timestamp) -> Result<Claims, CallError> {
        let checked = self.present.check(token, now);
        match &self.former {
            Some((former, until)) if is_of_nobody(&checked) && now < *until => former.check(token, now),
            _ => checked,
        }
    }
}

/// The claims of an access token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    iss: String,
    pub sub: UserId,
    pub customer_id: CustomerId,
    email: String,
    email_verified: bool,
    role: Role,
    pub sid: SessionId,
    iat: i64,
    exp: i64,
}

/// Whether a check failed because none of the tried keys has signed the token.
pub fn is_of_nobody(checked: &Result<Claims, CallError>) -> bool {
    checked.as_ref().is_err_and(|error| error.code == ErrorCode::AuthInvalid)
}

impl AccessKey {
    pub fn new(secret: &[u8; 32]) -> Self {
        Self { encoding: EncodingKey::from_secret(secret), decoding: DecodingKey::from_secret(secret) }
    }

    /// Issues an access token for a session.
    ///
    /// # Errors
    /// `internal_error`; the log has the reason.
    pub fn issue(&self, user: &UserRecord, session: &SessionRecord, now: Timestamp) -> Result<String, CallError> {
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: user.id,
            customer_id: user.customer_id,
            email: user.email.clone(),
            email_verified: user.email_verified,
            role: user.role,
            sid: session.id,
            iat: now.unix_seconds(),
            exp: now.plus(LIFE).unix_seconds(),
        };
        let token = encode(&Header::new(ALGORITHM), &claims, &self.encoding);
        token.map_err(|error| failure::internal("a token could not be signed", &error))
    }

    /// Checks signature, issuer and expiry.
    ///
    /// # Errors
    /// `auth_invalid`, or `auth_expired` for a token that was valid.
    pub fn check(&self, token: &str, now: Timestamp) -> Result<Claims, CallError> {
        let mut validation = Validation::new(ALGORITHM);
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["iss", "exp"]);
        // Checked below, against the time of the request.
        validation.validate_exp = false;
        let decoded = decode::<Claims>(token, &self.decoding, &validation);
        let claims = decoded.map_err(|_| CallError::auth_invalid())?.claims;
        let end = Timestamp::from_unix_seconds(claims.exp);
        if end <= now { Err(CallError::auth_expired(end)) } else { Ok(claims) }
    }
}

impl Claims {
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.exp)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
pub mod tests {
    use super::*;
    use raft::directory::users::PasswordHash;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    /// A member, for tests of this crate.
    pub fn test_user(customer: CustomerId) -> UserRecord {
        UserRecord {
            id: UserId::new(),
            customer_id: customer,
            email: "ann@example.com".into(),
            password: PasswordHash("x".into()),
            role: Role::Admin,
            email_verified: true,
            verification: None,
            created_at: NOW,
            last_login_at: None,
        }
    }

    #[test]
    fn a_token_is_good_for_fifteen_minutes_under_its_key() {
        let user = test_user(CustomerId::new());
        let (session, _) = crate::auth::session::open(&user, NOW);
        let key = AccessKey::new(&[1; 32]);
        let token = key.issue(&user, &session, NOW).unwrap();
        let claims = key.check(&token, Timestamp(NOW.0 + 899_999)).unwrap();
        assert_eq!((claims.sub, claims.sid, claims.customer_id), (user.id, session.id, user.customer_id));
        let end = Timestamp(NOW.0 + 900_000);
        assert_eq!(key.check(&token, end), Err(CallError::auth_expired(end)));
        assert_eq!(AccessKey::new(&[2; 32]).check(&token, NOW), Err(CallError::auth_invalid()));
        let (head, signature) = token.rsplit_once('.').unwrap();
        let other = format!("{head}.{}", signature.chars().rev().collect::<String>());
        assert_eq!(key.check(&other, NOW), Err(CallError::auth_invalid()));
    }

    #[test]
    fn a_token_of_the_key_before_is_good_until_the_overlap_ends_and_of_one_before_that_never() {
        let user = test_user(CustomerId::new());
        let (session, _) = crate::auth::session::open(&user, NOW);
        let issued = |key: u8, at| AccessKey::new(&[key; 32]).issue(&user, &session, at).unwrap();
        let until = NOW.plus(SESSION_OVERLAP);
        let former = Some((AccessKey::new(&[2; 32]), until));
        let keys = AccessKeys { present: AccessKey::new(&[3; 32]), former };
        assert!(keys.check(&issued(3, NOW), NOW).is_ok() && keys.check(&issued(2, NOW), NOW).is_ok());
        assert_eq!(keys.check(&issued(1, NOW), NOW), Err(CallError::auth_invalid()));
        // An attacker with the former key can write any expiry into a token, so the key itself must end at `until`.
        let forged = issued(2, Timestamp(until.0 - 60_000));
        assert!(keys.check(&forged, Timestamp(until.0 - 1)).is_ok());
        assert_eq!(keys.check(&forged, until), Err(CallError::auth_invalid()));
        assert!(keys.check(&issued(3, until), until).is_ok());
        let dropped = AccessKeys { former: None, ..keys };
        assert_eq!(dropped.check(&issued(2, NOW), NOW), Err(CallError::auth_invalid()));
    }

    #[test]
    fn a_token_of_another_issuer_or_algorithm_is_refused_under_the_same_key() {
        let user = test_user(CustomerId::new());
        let (session, _) = crate::auth::session::open(&user, NOW);
        let key = AccessKey::new(&[1; 32]);
        let claims = key.check(&key.issue(&user, &session, NOW).unwrap(), NOW).unwrap();
        let secret = EncodingKey::from_secret(&[1; 32]);
        let foreign = encode(&Header::new(ALGORITHM), &Claims { iss: "other".into(), ..claims.clone() }, &secret);
        assert_eq!(key.check(&foreign.unwrap(), NOW), Err(CallError::auth_invalid()));
        let longer = encode(&Header::new(Algorithm::HS512), &claims, &secret);
        assert_eq!(key.check(&longer.unwrap(), NOW), Err(CallError::auth_invalid()));
    }
}
