//! The public keys of another issuer: fetched, cached for ten minutes, and fetched again at a bounded rate.
//!
//! A key id that is not in the set may be a new key, so the set is fetched again. The rate is bounded, so that made-up
//! key ids do not make this node send the issuer a request for each. While the issuer is unreachable or slow, cached
//! keys stay valid.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use jsonwebtoken::Algorithm;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use model::error::CallError;
use parking_lot::Mutex;
use reqwest::{Client, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

/// How long a fetched set counts as current.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// How long after a fetch an unknown key id does not cause another one.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(30);

/// How long after a failed fetch the issuer is not asked again.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// How long a request whose key is cached waits for a new fetch. A slow issuer must not make logins slow.
const OLD_KEY_PATIENCE: Duration = Duration::from_secs(1);

/// Keys that were fetched longer ago are not used until the issuer was asked again, because it may have withdrawn them.
const OLDEST_AT_ONCE: Duration = Duration::from_secs(60 * 60);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for fetching one document as a whole.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest document that is read, in bytes. Real ones have a few KiB.
const LARGEST: usize = 256 * 1024;

/// Why the set could not be fetched; only logged.
type FetchError = Box<dyn std::error::Error + Send + Sync>;

/// The cached key set.
#[derive(Default)]
struct Known {
    keys: Option<Arc<JwkSet>>,
    /// When the keys were fetched.
    fetched: Option<Instant>,
    failed: Option<Instant>,
}

/// The keys of one issuer, and how to fetch them.
pub struct Keys {
    issuer: String,
    /// URL of the key set; `None` to take it from the issuer's discovery document.
    url: Option<String>,
    client: Client,
    known: Mutex<Known>,
    /// One fetch at a time. A request that waited for it looks at the cache again.
    fetching: Arc<Semaphore>,
}

impl Keys {
    /// The keys of an issuer. Without a `url`, the issuer's discovery document names the key set.
    pub fn new(issuer: String, url: Option<String>) -> Arc<Self> {
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(FETCH_TIMEOUT)
            .redirect(redirect::Policy::none())
            // No proxies of the environment: the configuration names the issuer, and would name a proxy, too.
            .no_proxy()
            .build()
            .expect("a client with time-outs alone is always built");
        let fetching = Arc::new(Semaphore::new(1));
        Arc::new(Self { issuer, url, client, known: Mutex::default(), fetching })
    }

    /// Returns the key with this id, or, when the token names none, the only key of the algorithm.
    ///
    /// # Errors
    /// `auth_invalid` when the issuer has no such key, `auth_backend_unavailable` when its keys cannot be fetched.
    pub async fn find(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm) -> Result<Jwk, CallError> {
        if let Some(decided) = self.decide(id, algorithm) {
            return decided;
        }
        if let Some(old) = self.at_hand(id, algorithm) {
            return self.renewed(id, algorithm, old).await;
        }
        let Ok(_turn) = self.fetching.acquire().await else { return Err(CallError::auth_backend_unavailable()) };
        if let Some(decided) = self.decide(id, algorithm) {
            return decided;
        }
        self.renew().await;
        let known = self.known.lock();
        let found = known.keys.as_ref().and_then(|keys| select(keys, id, algorithm));
        let has_failed = known.failed.is_some();
        found.ok_or_else(|| if has_failed { CallError::auth_backend_unavailable() } else { CallError::auth_invalid() })
    }

    /// Refreshes the set for a cached key that is no longer current, and returns what the set then says. The first
    /// request starts the fetch and waits for it up to [`OLD_KEY_PATIENCE`]; requests during the fetch use the old key.
    async fn renewed(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm, old: Jwk) -> Result<Jwk, CallError> {
        let Ok(turn) = self.fetching.clone().try_acquire_owned() else { return Ok(old) };
        let keys = self.clone();
        let renewing = tokio::spawn(async move {
            let _turn = turn;
            keys.renew().await;
        });
        // After the timeout, the fetch continues in its own task.
        let _ = tokio::time::timeout(OLD_KEY_PATIENCE, renewing).await;
        self.decide(id, algorithm).unwrap_or(Ok(old))
    }

    /// Fetches the set and updates the cache.
    async fn renew(&self) {
        let fetched = self.fetch().await;
        let mut known = self.known.lock();
        match fetched {
            Ok(keys) => *known = Known { keys: Some(Arc::new(keys)), fetched: Some(Instant::now()), failed: None },
            Err(error) => {
                tracing::warn!(%error, issuer = self.issuer, url = ?self.url, "the issuer's keys could not be fetched");
                known.failed = Some(Instant::now());
            }
        }
    }

    /// Returns a cached key, unless the set was fetched longer than [`OLDEST_AT_ONCE`] ago.
    fn at_hand(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Jwk> {
        let known = self.known.lock();
        known.fetched.filter(|at| at.elapsed() < OLDEST_AT_ONCE)?;
        known.keys.as_ref().and_then(|keys| select(keys, id, algorithm))
    }

    /// Decides from the cache alone; `None` when a fetch is needed.
    fn decide(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Result<Jwk, CallError>> {
        let known = self.known.lock();
        let within = |at: Option<Instant>, life: Duration| at.is_some_and(|at| at.elapsed() < life);
        let found = known.keys.as_ref().and_then(|keys| select(keys, id, algorithm));
        let failed_lately = within(known.failed, FAILURE_PAUSE);
        match found {
            Some(key) if within(known.fetched, FRESH) || failed_lately => Some(Ok(key)),
            None if failed_lately => Some(Err(CallError::auth_backend_unavailable())),
            None if within(known.fetched, UNKNOWN_PAUSE) => Some(Err(CallError::auth_invalid())),
            _ => None,
        }
    }

    async fn fetch(&self) -> Result<JwkSet, FetchError> {
        if let Some(url) = &self.url {
            return self.get(url).await;
        }
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document: Discovery = self.get(&url).await?;
        if document.issuer != self.issuer {
            return Err(format!("the discovery document is of the issuer {}", document.issuer).into());
        }
        self.get(&document.jwks_uri).await
    }

    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, FetchError> {
        let mut response = self.client.get(url).send().await?;
        if !response.status().is_success() {
            return Err(format!("it answered {}", response.status().as_u16()).into());
        }
        let mut body = BytesMut::new();
        while let Some(part) = response.chunk().await? {
            if body.len() + part.len() > LARGEST {
                return Err("the document is larger than 256 KiB".into());
            }
            body.extend_from_slice(&part);
        }
        serde_json::from_slice(&body).map_err(|error| format!("the document cannot be read: {error}").into())
    }
}

/// The needed fields of a discovery document.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// Returns a key that may verify this algorithm: of its family, and not declared for another algorithm or use.
fn select(keys: &JwkSet, id: Option<&str>, algorithm: Algorithm) -> Option<Jwk> {
    let mut fitting = keys.keys.iter().filter(|key| {
        let named = id.is_none_or(|id| key.common.key_id.as_deref() == Some(id));
        named && fits(key, algorithm)
    });
    let found = fitting.next()?;
    // Without an id, exactly one key must match.
    (id.is_some() || fitting.next().is_none()).then(|| found.clone())
}

fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
    let (family, declared) = match (&key.algorithm, algorithm) {
        (AlgorithmParameters::RSA(_), Algorithm::RS256) => (true, KeyAlgorithm::RS256),
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES256) => {
            (key.curve == EllipticCurve::P256, KeyAlgorithm::ES256)
        }
        (AlgorithmParameters::OctetKeyPair(key), Algorithm::EdDSA) => {
            (key.curve == EllipticCurve::Ed25519, KeyAlgorithm::EdDSA)
        }
        _ => return false,
    };
    family
        && key.common.key_algorithm.as_ref().is_none_or(|known| *known == declared)
        && key.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use serde_json::json;

    const EC: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";

    fn set(keys: serde_json::Value) -> JwkSet {
        serde_json::from_value(json!({ "keys": keys })).unwrap()
    }

    #[test]
    fn a_key_is_chosen_by_id_and_must_fit_the_algorithm() {
        let ec = |id: &str| json!({ "kty": "EC", "crv": "P-256", "x": EC, "y": EC, "kid": id });
        let keys = set(json!([
            ec("a"),
            { "kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "r", "alg": "RS256", "use": "sig" },
            { "kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "e", "use": "enc" },
            { "kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "p", "alg": "PS256" },
            { "kty": "oct", "k": "AQAB", "kid": "h" },
            { "kty": "EC", "crv": "P-384", "x": EC, "y": EC, "kid": "b" },
        ]));
        let table = [
            (Some("a"), Algorithm::ES256, true),
            (Some("a"), Algorithm::RS256, false),
            (Some("r"), Algorithm::RS256, true),
            (Some("e"), Algorithm::RS256, false),
            (Some("p"), Algorithm::RS256, false),
            (Some("h"), Algorithm::HS256, false),
            (Some("b"), Algorithm::ES256, false),
            (Some("x"), Algorithm::ES256, false),
            (None, Algorithm::ES256, true),
            (None, Algorithm::RS256, true),
            (None, Algorithm::EdDSA, false),
        ];
        for (id, algorithm, found) in table {
            assert_eq!(select(&keys, id, algorithm).is_some(), found, "{id:?} {algorithm:?}");
        }
        assert!(select(&set(json!([ec("a"), ec("b")])), None, Algorithm::ES256).is_none(), "nothing to choose from");
    }

    #[tokio::test]
    async fn an_issuer_that_takes_its_time_holds_nobody_up_whose_key_is_at_hand() {
        let _already_there = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        // An issuer that accepts connections and never responds.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", silent.local_addr().unwrap());
        let keys = Keys::new("https://issuer.example".to_owned(), Some(url));
        let ec = json!({ "kty": "EC", "crv": "P-256", "x": EC, "y": EC, "kid": "a" });
        let fetched = |ago: Duration| {
            let keys_at_hand = Some(Arc::new(set(json!([ec]))));
            *keys.known.lock() = Known { keys: keys_at_hand, fetched: Instant::now().checked_sub(ago), failed: None };
        };
        fetched(FRESH);
        let find = || keys.find(Some("a"), Algorithm::ES256);
        let begun = Instant::now();
        let (first, second) = tokio::join!(find(), async {
            let second = find().await;
            (second, begun.elapsed())
        });
        assert!(first.is_ok() && begun.elapsed() < FETCH_TIMEOUT, "{:?}", begun.elapsed());
        assert!(second.0.is_ok() && second.1 < OLD_KEY_PATIENCE, "{:?}", second.1);
        fetched(OLDEST_AT_ONCE);
        assert!(keys.at_hand(Some("a"), Algorithm::ES256).is_none(), "the issuer is asked first");
        drop(silent);
    }
}
