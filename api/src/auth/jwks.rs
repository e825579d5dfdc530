//! The public keys of another issuer: fetched, kept for ten minutes, and never fetched faster than that is worth.
//!
//! A key that is not in the set may be a new one, so the set is fetched again; but whoever invents key ids must not make
//! this node ask the issuer for each of them. While the issuer cannot be reached, or takes its time, the keys at hand stay good.

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

/// How long a fetched set is taken for the present one.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// How soon after a fetch an unknown key id is worth another one.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(30);

/// How soon after a fetch that failed the issuer is asked again.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// How long whoever has a key that is at hand waits for the set to be fetched again: members must not be as slow as their issuer.
const OLD_KEY_PATIENCE: Duration = Duration::from_secs(1);

/// Keys that were fetched longer ago are not good before the issuer was asked again: they may have been withdrawn since.
const OLDEST_AT_ONCE: Duration = Duration::from_secs(60 * 60);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// For one document, whole.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest document that is read. Real ones have a few KiB.
const LARGEST: usize = 256 * 1024;

/// Why the set could not be fetched; the log alone is told.
type FetchError = Box<dyn std::error::Error + Send + Sync>;

/// What is known of the set.
#[derive(Default)]
struct Known {
    keys: Option<Arc<JwkSet>>,
    /// When the keys were fetched.
    fetched: Option<Instant>,
    failed: Option<Instant>,
}

/// The keys, and the way to them.
pub struct Keys {
    issuer: String,
    /// Where the set is; without it, where the issuer's discovery document says.
    url: Option<String>,
    client: Client,
    known: Mutex<Known>,
    /// One fetch at a time; whoever waits for it looks again at what is known.
    fetching: Arc<Semaphore>,
}

impl Keys {
    /// The keys of an issuer; its discovery document names the set's URL where there is none.
    pub fn new(issuer: String, url: Option<String>) -> Arc<Self> {
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(FETCH_TIMEOUT)
            .redirect(redirect::Policy::none())
            // The issuer is named in the configuration, and so is everything on the way to it.
            .no_proxy()
            .build()
            .expect("a client with time-outs alone is always built");
        let fetching = Arc::new(Semaphore::new(1));
        Arc::new(Self { issuer, url, client, known: Mutex::default(), fetching })
    }

    /// The key with an id, or the only key of the algorithm when the token names none.
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

    /// A key that was fetched a while ago, or what has come of it since: whoever is the first to want it has the set fetched
    /// again, and waits a moment.
    async fn renewed(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm, old: Jwk) -> Result<Jwk, CallError> {
        let Ok(turn) = self.fetching.clone().try_acquire_owned() else { return Ok(old) };
        let keys = self.clone();
        let renewing = tokio::spawn(async move {
            let _turn = turn;
            keys.renew().await;
        });
        // The fetch goes on where this one goes without it.
        let _ = tokio::time::timeout(OLD_KEY_PATIENCE, renewing).await;
        self.decide(id, algorithm).unwrap_or(Ok(old))
    }

    /// Fetches the set.
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

    /// Such a key, if it was not fetched too long ago.
    fn at_hand(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Jwk> {
        let known = self.known.lock();
        known.fetched.filter(|at| at.elapsed() < OLDEST_AT_ONCE)?;
        known.keys.as_ref().and_then(|keys| select(keys, id, algorithm))
    }

    /// What can be said without a fetch.
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

/// The part of a discovery document that is needed.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// A key that may check a signature of this algorithm: of its family, and not declared for something else.
fn select(keys: &JwkSet, id: Option<&str>, algorithm: Algorithm) -> Option<Jwk> {
    let mut fitting = keys.keys.iter().filter(|key| {
        let named = id.is_none_or(|id| key.common.key_id.as_deref() == Some(id));
        named && fits(key, algorithm)
    });
    let found = fitting.next()?;
    // Without an id there must be nothing to choose from.
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
        // An issuer that accepts connections and never answers.
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
