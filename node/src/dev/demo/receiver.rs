//! A small webhook receiver, like a customer's: it verifies the signature, then trusts the body.

use std::net::SocketAddr;

use anyhow::Context;
use hmac::{Hmac, KeyInit, Mac};
use model::time::Timestamp;
use salvo::conn::TcpListener;
use salvo::http::StatusCode;
use salvo::{Depot, FlowCtrl, Handler, Listener, Request, Response, Router, Server, async_trait};
use serde_json::Value;
use sha2::Sha256;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Webhooks with older signatures are rejected as replays.
const TOLERANCE_SECONDS: i64 = 300;

/// Capacity of the queue of webhooks to show; when it is full, the receiver answers 503 and the gateway retries.
const QUEUE: usize = 256;

/// A received webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub event: String,
    pub event_id: String,
    /// The parsed envelope.
    pub body: Value,
    /// The signature header.
    pub signature: String,
    /// The reason, if the signature is not valid.
    pub verdict: Result<(), String>,
}

/// The server; it ends when this is dropped.
#[derive(Debug)]
pub struct Receiver {
    pub arrived: mpsc::Receiver<Webhook>,
    server: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Receiver {
    /// Listens on `address`, and verifies signatures with `secret`.
    ///
    /// # Errors
    /// The port is in use.
    pub async fn start(address: SocketAddr, secret: &str) -> anyhow::Result<Self> {
        let (sender, arrived) = mpsc::channel(QUEUE);
        let router = Router::with_path("webhooks").post(Arrivals { secret: secret.to_owned(), sender });
        let acceptor = TcpListener::new(address)
            .try_bind()
            .await
            .with_context(|| format!("listening for webhooks on {address}"))?;
        let server = tokio::spawn(Server::new(acceptor).serve(router));
        Ok(Self { arrived, server })
    }
}

struct Arrivals {
    secret: String,
    sender: mpsc::Sender<Webhook>,
}

#[async_trait]
impl Handler for Arrivals {
    async fn handle(&self, request: &mut Request, _depot: &mut Depot, response: &mut Response, _flow: &mut FlowCtrl) {
        let signature = request.header::<String>("X-Gateway-Signature").unwrap_or_default();
        let Ok(bytes) = request.payload().await else {
            response.status_code(StatusCode::BAD_REQUEST);
            return;
        };
        let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let webhook = Webhook {
            event: text("event"),
            event_id: text("event_id"),
            verdict: verify(&self.secret, &signature, bytes, Timestamp::now().unix_seconds()),
            signature,
            body,
        };
        let status = match (&webhook.verdict, self.sender.try_send(webhook.clone())) {
            (_, Err(_)) => StatusCode::SERVICE_UNAVAILABLE,
            (Err(_), Ok(())) => StatusCode::UNAUTHORIZED,
            (Ok(()), Ok(())) => StatusCode::NO_CONTENT,
        };
        response.status_code(status);
    }
}

/// Verifies a signature header `t=<unix seconds>,v1=<hex>` over `<t>.<body>`.
///
/// # Errors
/// The reason why the signature is not valid, for people.
pub fn verify(secret: &str, header: &str, body: &[u8], now: i64) -> Result<(), String> {
    let mut time = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.split_once('=') {
            Some(("t", value)) => time = value.parse::<i64>().ok(),
            Some(("v1", value)) => signatures.extend(hex::decode(value).ok()),
            _ => {}
        }
    }
    let time = time.ok_or("the signature header has no time")?;
    if now.abs_diff(time) > TOLERANCE_SECONDS.unsigned_abs() {
        return Err(format!("the signature is {} s off", now.abs_diff(time)));
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|error| error.to_string())?;
    mac.update(format!("{time}.").as_bytes());
    mac.update(body);
    // `verify_slice` compares in constant time.
    if signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok()) {
        Ok(())
    } else {
        Err("no v1 of the signature header fits the body and the secret".to_owned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// The test vector published in the documentation of signatures.
    const SECRET: &str = "whsec_example_0123456789abcdef";
    const BODY: &str = r#"{"event":"message.status","event_id":"evt_01JGFJJZ008N9Y7K4S5T6V7W8X","api_version":"2026-04","channel_id":"7f2c1a52-7d3e-4a55-9a42-0d6f0b1c2d3e","occurred_at":"2026-01-01T00:00:00.000Z","data":{"message_id":"3EB0A1B2C3D4E5F60718293A4B5C6D7E8F901234","to":"15550001111@s.example","status":"delivered","is_group":false,"timestamp":1767225599}}"#;
    const HEADER: &str = "t=1767225600,v1=a89da4199da71ca79d99de6a257da4950f90d22d09e96a29f3a7624490e3f6ee";
    const T: i64 = 1_767_225_600;

    #[test]
    fn the_published_vector_verifies_and_nothing_near_it_does() {
        verify(SECRET, HEADER, BODY.as_bytes(), T + 299).unwrap();
        let two = format!("{HEADER},v1={}", "00".repeat(32));
        verify(SECRET, &two, BODY.as_bytes(), T).unwrap();
        assert!(verify(SECRET, HEADER, BODY.as_bytes(), T + 301).is_err());
        assert!(verify("another_secret_0123456", HEADER, BODY.as_bytes(), T).is_err());
        assert!(verify(SECRET, HEADER, &BODY.as_bytes()[1..], T).is_err());
        assert!(verify(SECRET, "", BODY.as_bytes(), T).is_err());
    }
}
