//! Tokens of another issuer, which are accepted as dashboard sessions.

use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, dangerous, decode};
use model::error::CallError;
use model::id::CustomerId;
use model::member::Role;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::jwks::Keys;
use crate::caller::Session;

/// Tolerated clock difference to the issuer, in seconds.
const LEEWAY: u64 = 30;

/// The accepted algorithms. All are asymmetric: with a shared-secret algorithm, a public key could serve as the secret.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// The section `[auth.oidc]`: an issuer whose tokens are accepted as dashboard sessions.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    pub issuer: String,
    pub audience: String,
    /// URL of the key set; by default the issuer's discovery document names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// The claim that names the customer.
    #[serde(default = "customer_claim")]
    pub customer_claim: String,
}

fn customer_claim() -> String {
    "customer_id".to_owned()
}

/// The configured issuer, with its keys.
pub struct Issuer {
    config: OidcConfig,
    keys: Arc<Keys>,
}

/// The identity that a checked token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub customer: CustomerId,
    pub email_verified: bool,
    pub session: Session,
}

impl Issuer {
    pub fn new(config: OidcConfig) -> Self {
        Self { keys: Keys::new(config.issuer.clone(), config.jwks_url.clone()), config }
    }

    /// Checks a token's signature, issuer, audience and validity period.
    ///
    /// # Errors
    /// `auth_invalid`, `auth_expired`, or `auth_backend_unavailable` when the issuer's keys cannot be fetched.
    pub async fn check(&self, token: &str, header: &Header) -> Result<Identity, CallError> {
        if !ALGORITHMS.contains(&header.alg) {
            return Err(CallError::auth_invalid());
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let key = DecodingKey::from_jwk(&key).map_err(|_| CallError::auth_invalid())?;
        let claims = decode::<Map<String, Value>>(token, &key, &self.validation(header.alg));
        let claims = claims.map_err(|error| match error.kind() {
            ErrorKind::ExpiredSignature => expired(token),
            _ => CallError::auth_invalid(),
        })?;
        identity(&claims.claims, &self.config.customer_claim).ok_or_else(CallError::auth_invalid)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_audience(&[&self.config.audience]);
        validation.set_required_spec_claims(&["iss", "aud", "exp", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY;
        validation
    }
}

/// The error for an expired token, with its expiry. The claim can be trusted: the signature was checked before.
fn expired(token: &str) -> CallError {
    let claims = dangerous::insecure_decode::<Map<String, Value>>(token).map(|token| token.claims);
    CallError::auth_expired(claims.ok().and_then(|claims| end_of(&claims)).unwrap_or_default())
}

fn end_of(claims: &Map<String, Value>) -> Option<Timestamp> {
    claims.get("exp")?.as_f64().map(|seconds| Timestamp::from_unix_seconds(seconds as i64))
}

/// Reads the member, role and customer that the claims name. A token without a role or a customer is invalid; a token
/// without `email_verified` counts as unconfirmed.
fn identity(claims: &Map<String, Value>, customer_claim: &str) -> Option<Identity> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    Some(Identity {
        // Parsed as a UUID, since issuers may write it in another form, such as without hyphens.
        customer: CustomerId(Uuid::parse_str(text(customer_claim)?).ok()?),
        email_verified: claims.get("email_verified").and_then(Value::as_bool).unwrap_or(false),
        session: Session {
            id: None,
            subject: text("sub")?.to_owned(),
            email: text("email").unwrap_or_default().to_owned(),
            role: Role::parse(text("role")?)?,
            expires_at: end_of(claims)?,
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_names_customer_and_role_or_is_worth_nothing() {
        let customer = CustomerId::new();
        let whole = json!({
            "sub": "u1", "tenant": customer.to_string(), "email": "a@b.c", "email_verified": true, "role": "viewer",
            "exp": 1_767_225_600,
        });
        let found = identity(whole.as_object().unwrap(), "tenant").unwrap();
        assert_eq!((found.customer, found.session.role, found.email_verified), (customer, Role::Viewer, true));
        assert_eq!(found.session.expires_at, Timestamp(1_767_225_600_000));
        for missing in ["sub", "tenant", "role", "exp"] {
            let mut claims = whole.as_object().unwrap().clone();
            claims.remove(missing);
            assert_eq!(identity(&claims, "tenant"), None, "{missing}");
        }
        let mut claims = whole.as_object().unwrap().clone();
        claims.insert("email_verified".into(), json!("true"));
        assert!(!identity(&claims, "tenant").unwrap().email_verified, "only the truth is true");
        claims.insert("role".into(), json!("root"));
        assert_eq!(identity(&claims, "tenant"), None);
    }
}
