//! Sends an event to a receiver as the gateway would: the same body, headers and signature.

use std::time::{Duration, Instant};

use anyhow::Context;
use model::time::Timestamp;
use model::webhook::signature_header;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use url::Url;

use crate::console::warn;
use crate::key_files::signing_secret;

/// As long as the gateway waits for a receiver to begin its answer; nothing more of it is read here.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A receiver and what it knows the gateway by.
pub struct Receiver {
    client: Client,
    url: Url,
    secret: String,
}

impl Receiver {
    /// Without a secret one is made, and shown.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(url: Url, secret: Option<String>) -> anyhow::Result<Self> {
        let agent = concat!("gateway-webhooks/", env!("CARGO_PKG_VERSION"));
        let client = Client::builder().no_proxy().redirect(Policy::none()).timeout(TIMEOUT).user_agent(agent);
        let secret = secret.unwrap_or_else(|| {
            let secret = signing_secret();
            // Not on standard output, which may be the events for a program.
            warn(format_args!("gateway: signed with {secret}; choose another one with --signing-secret"));
            secret
        });
        Ok(Self { client: client.build().context("making an HTTP client")?, url, secret })
    }

    /// Sends a body once, and says what it was answered with and after how long.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn send(&self, event: &str, id: &str, body: String) -> anyhow::Result<(StatusCode, Duration)> {
        let t = Timestamp::now().unix_seconds();
        let request = self.client.post(self.url.clone()).header("content-type", "application/json");
        let request = request.header("x-gateway-signature", signature_header(&[&self.secret], t, body.as_bytes()));
        let request = request.header("x-gateway-event", event).header("x-gateway-event-id", id);
        let began = Instant::now();
        let answer = request.header("x-gateway-attempt", "1").body(body).send().await;
        Ok((answer.with_context(|| format!("{} did not answer", self.url))?.status(), began.elapsed()))
    }
}
