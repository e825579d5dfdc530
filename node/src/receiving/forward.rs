//! Sends an event to a receiver in the same way as the gateway: the same body, headers and signature.

use std::time::{Duration, Instant};

use anyhow::Context;
use model::time::Timestamp;
use model::webhook::signature_header;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use url::Url;

use crate::console::warn;
use crate::key_files::signing_secret;

/// Same as the gateway's timeout for the start of a response; the body is not read here.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A receiver, and the secret that signs its webhooks.
pub struct Receiver {
    client: Client,
    url: Url,
    secret: String,
}

impl Receiver {
    /// Without a secret, a new one is generated and printed.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn new(url: Url, secret: Option<String>) -> anyhow::Result<Self> {
        let agent = concat!("gateway-webhooks/", env!("CARGO_PKG_VERSION"));
        let client = Client::builder().no_proxy().redirect(Policy::none()).timeout(TIMEOUT).user_agent(agent);
        let secret = secret.unwrap_or_else(|| {
            let secret = signing_secret();
            // Printed on standard error, because standard output may carry events for a program.
            warn(format_args!("gateway: signed with {secret}; choose another one with --signing-secret"));
            secret
        });
        Ok(Self { client: client.build().context("making an HTTP client")?, url, secret })
    }

    /// Sends a body once, and returns the status and the time that it took.
    ///
    /// # Errors
    /// No response arrived.
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
