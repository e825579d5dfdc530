//! Tokens of a configured issuer.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::Api;
use tests::issuer::Issuer;
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

/// A key pair of the issuer.
struct Pair {
    id: &'static str,
    algorithm: Algorithm,
    private: EncodingKey,
    public: Value,
}

impl Pair {
    fn new(id: &'static str, algorithm: Algorithm) -> Self {
        let public_of =
            |private: &EncodingKey| serde_json::to_value(Jwk::from_encoding_key(private, algorithm).unwrap()).unwrap();
        let (private, mut public) = match algorithm {
            Algorithm::EdDSA => {
                let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
                let x = URL_SAFE_NO_PAD.encode(pair.public_key_raw());
                let private = EncodingKey::from_ed_pem(pair.serialize_pem().as_bytes()).unwrap();
                (private, json!({ "kty": "OKP", "crv": "Ed25519", "x": x }))
            }
            Algorithm::ES256 => {
                let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
                let private = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
                let public = public_of(&private);
                (private, public)
            }
            // A fixed key for this test only, since generating one takes longer than the test.
            _ => {
                let private = EncodingKey::from_rsa_pem(include_bytes!("issuer_rsa.pem")).unwrap();
                let public = public_of(&private);
                (private, public)
            }
        };
        public["kid"] = json!(id);
        Self { id, algorithm, private, public }
    }

    fn public(&self) -> Value {
        self.public.clone()
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.private).unwrap()
    }
}

fn now() -> i64 {
    chrono::Utc::now().timestamp()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_the_issuer_is_a_session_and_nothing_else_is() {
    let issuer = Issuer::start().await;
    issuer.switch(false);
    let options = Options::nodes(1)
        .arg(&format!("--set=auth.oidc.issuer={}", issuer.url()))
        .arg("--set=auth.oidc.audience=gateway")
        .arg("--set=auth.oidc.customer_claim=tenant");
    let cluster = Cluster::start(options).await;
    let tenant = Tenant::new(&cluster).await;
    let api = |token: &str| -> Api { tenant.any().with_key(token) };
    let claims = json!({
        "iss": issuer.url(), "aud": "gateway", "sub": "user-1", "exp": now() + 600, "nbf": now() - 5,
        "tenant": tenant.customer_id, "email": "ann@example.com", "email_verified": true, "role": "member",
    });
    let with = |key: &str, value: Value| {
        let mut changed = claims.clone();
        changed[key] = value;
        changed
    };
    let elliptic = Pair::new("e", Algorithm::ES256);
    issuer.publish(elliptic.public());
    let token = elliptic.sign(&claims);

    // Without keys and with the issuer down, the token may still be valid: 503.
    let refused = api(&token).get("/v1/account").await;
    refused.expect_error(503, "auth_backend_unavailable");
    assert_eq!(refused.retry_after(), 2);
    issuer.switch(true);
    eventually("the keys are fetched", seconds(10), async || {
        let answer = api(&token).get("/v1/account").await;
        check(answer.status == 200, answer.text())
    })
    .await;
    api(&token).post("/v1/api-keys", json!({ "name": "x" })).await.expect_error(403, "insufficient_scope");
    api(&token).get("/v1/account/members").await.expect(200);
    api(&token).act("/v1/auth/logout").await.expect_error(400, "bad_request");

    let no_customer = with("tenant", json!(uuid::Uuid::new_v4()));
    let invalid = [
        with("iss", json!("http://127.0.0.1:1")),
        with("aud", json!("another")),
        with("nbf", json!(now() + 3600)),
        with("role", json!("root")),
        with("role", Value::Null),
        no_customer,
    ];
    for claims in &invalid {
        api(&elliptic.sign(claims)).get("/v1/account").await.expect_error(401, "auth_invalid");
    }
    let old = with("exp", json!(now() - 3600));
    let details = api(&elliptic.sign(&old)).get("/v1/account").await.expect_error(401, "auth_expired");
    assert!(details["expired_at"].is_string(), "{details}");
    let unconfirmed = elliptic.sign(&with("email_verified", json!(false)));
    api(&unconfirmed).get("/v1/account").await.expect_error(403, "auth_no_email");

    // A forged signature with a valid key id, and the public key used as a shared secret.
    let forger = Pair::new("e", Algorithm::ES256);
    api(&forger.sign(&claims)).get("/v1/account").await.expect_error(401, "auth_invalid");
    let public = elliptic.public().to_string();
    let header = Header { kid: Some("e".into()), ..Header::new(Algorithm::HS256) };
    let shared = encode(&header, &claims, &EncodingKey::from_secret(public.as_bytes())).unwrap();
    api(&shared).get("/v1/account").await.expect_error(401, "auth_invalid");
    let (head, _) = token.rsplit_once('.').unwrap();
    api(head).get("/v1/account").await.expect_error(401, "auth_malformed");

    // Invented key ids do not each cause a request to the issuer.
    let before = issuer.fetches();
    let unknown = Pair::new("x", Algorithm::ES256).sign(&claims);
    for _ in 0..10 {
        api(&unknown).get("/v1/account").await.expect_error(401, "auth_invalid");
    }
    assert!(issuer.fetches() <= before + 1, "{} fetches for unknown keys", issuer.fetches() - before);

    // Known keys stay valid while the issuer is down.
    issuer.switch(false);
    api(&token).get("/v1/account").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_algorithm_with_a_key_pair_is_taken() {
    let issuer = Issuer::start().await;
    let pairs = [Pair::new("e", Algorithm::ES256), Pair::new("d", Algorithm::EdDSA), Pair::new("r", Algorithm::RS256)];
    pairs.iter().for_each(|pair| issuer.publish(pair.public()));
    let options = Options::nodes(1)
        .arg(&format!("--set=auth.oidc.issuer={}", issuer.url()))
        .arg(&format!("--set=auth.oidc.jwks_url={}/keys", issuer.url()))
        .arg("--set=auth.oidc.audience=gateway");
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let claims = json!({
        "iss": issuer.url(), "aud": ["other", "gateway"], "sub": "user-1", "exp": now() + 600,
        "customer_id": tenant.customer_id, "email": "ann@example.com", "email_verified": true, "role": "admin",
    });
    for pair in &pairs {
        tenant.any().with_key(&pair.sign(&claims)).get("/v1/account").await.expect(200);
    }
    assert_eq!(issuer.fetches(), 1, "the set is fetched once");
}
