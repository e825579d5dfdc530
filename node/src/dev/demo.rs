//! The main use case, shown at the terminal: pair a channel, send through a node that does not own it, receive the
//! webhooks. On a resumed folder, the demo reuses what exists.
//!
//! - [`receiver`]: the demo's webhook receiver; [`terminal`]: its output.

pub mod receiver;
pub mod terminal;

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use model::time::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::caller::{Caller, text_at};
use crate::cli::UpArgs;
use crate::config::Driver;
use crate::dev::description::Description;
use crate::dev::folder::Plan;
use crate::key_files::signing_secret;
use receiver::{Receiver, Webhook};
use terminal::Terminal;

/// Number of the channel's phone, and of the phone that it writes to.
const OWN_PHONE: &str = "15550001000";
const FRIEND: &str = "15550002000";

const CHANNEL_NAME: &str = "Demo";

/// Timeout of each step of the cluster.
const PATIENCE: Duration = Duration::from_secs(20);

/// Interval of polling the channel on the operators' port, which has no rate limits.
const POLL: Duration = Duration::from_millis(100);

/// What lasts after the demo: its receiver, and the endpoint for it.
pub struct Demo {
    gateway: Caller,
    endpoint: String,
    receiver: Receiver,
    terminal: Terminal,
}

impl Demo {
    /// Deletes the endpoint: the receiver is about to end, and deliveries to it would be retried for three days.
    ///
    /// # Errors
    /// The gateway refuses the request.
    pub async fn leave(self) -> anyhow::Result<()> {
        self.gateway.expect(Method::DELETE, &format!("/v1/webhook-endpoints/{}", self.endpoint), None).await?;
        Ok(())
    }

    /// Shows webhooks caused by the person's own calls, as long as it is polled.
    pub async fn keep_showing(&mut self) {
        while let Some(webhook) = self.receiver.arrived.recv().await {
            show_webhook(self.terminal, &webhook);
        }
        // The receiver has ended; the caller continues without it.
        std::future::pending().await
    }
}

/// State shared by all steps.
struct Stage<'a> {
    cluster: &'a Description,
    /// Client of node 1 with the demo customer's key.
    gateway: Caller,
    operator: Caller,
    simulator: Caller,
    terminal: Terminal,
    network: Driver,
}

/// Shows the main use case, and prints what to try next.
///
/// # Errors
/// The step that failed, with the response.
pub async fn show(cluster: &Description, plan: Plan, args: &UpArgs) -> anyhow::Result<Demo> {
    let first = cluster.nodes.first().context("the cluster has no node")?;
    let terminal = Terminal::detect();
    let stage = Stage {
        cluster,
        gateway: Caller::new(&first.api, Some(&cluster.api_key))?,
        operator: Caller::trusting(&first.ops, Some(&cluster.operator_token), &cluster.operators_trust())?,
        simulator: Caller::new(&cluster.simulator, None)?,
        terminal,
        network: plan.network,
    };

    terminal.step(1, "A webhook receiver, registered with a secret");
    let (mut receiver, endpoint) = stage.register_receiver(plan).await.context("demo, step 1 (webhook endpoint)")?;

    terminal.step(2, "A channel, created through node 1");
    let channel = stage.channel().await.context("demo, step 2 (channel)")?;

    terminal.step(3, "Pairing: the phone scans the QR code");
    stage.pair(&channel, args.no_scan).await.context("demo, step 3 (pairing)")?;

    terminal.step(4, "A text, sent through a node that does not own the channel");
    let message = stage.send(&channel).await.context("demo, step 4 (send)")?;

    terminal.step(5, "The signed webhooks of that message");
    for (event, status) in [("message.sent", None), ("message.status", Some("delivered"))] {
        let matches = |webhook: &Webhook| {
            webhook.event == event
                && webhook.body["data"]["message_id"] == message.as_str()
                && status.is_none_or(|status| webhook.body["data"]["status"] == status)
        };
        stage.expect_webhook(&mut receiver, event, matches).await.context("demo, step 5 (webhooks)")?;
    }

    terminal.step(6, "The friend answers");
    let text = format!("Got it at {}", Timestamp::now());
    let body = json!({ "to": OWN_PHONE, "type": "text", "text": text });
    stage.simulator.post(&format!("/phones/{FRIEND}/messages"), &body).await.context("demo, step 6 (receive)")?;
    let matches = |webhook: &Webhook| {
        webhook.event == "message.received" && webhook.body["data"].to_string().contains(text.as_str())
    };
    stage.expect_webhook(&mut receiver, "message.received", matches).await.context("demo, step 6 (receive)")?;

    stage.next_steps(&channel);
    Ok(Demo { gateway: stage.gateway, endpoint, receiver, terminal })
}

impl Stage<'_> {
    async fn register_receiver(&self, plan: Plan) -> anyhow::Result<(Receiver, String)> {
        let secret = signing_secret();
        let address = plan.ports().demo_receiver();
        let receiver = Receiver::start(address, &secret).await?;
        let url = format!("http://{address}/webhooks");
        let settings = json!({
            "url": url,
            "events": ["message.sent", "message.status", "message.received"],
            "signing_secret": secret,
            "enabled": true,
        });
        let existing = self.gateway.get("/v1/webhook-endpoints").await?;
        let answer = match find(&existing, "url", &url) {
            Some(endpoint) => {
                let path = format!("/v1/webhook-endpoints/{}", text_at(endpoint, "/id")?);
                self.gateway.expect(Method::PATCH, &path, Some(&settings)).await?
            }
            None => self.gateway.post("/v1/webhook-endpoints", &settings).await?,
        };
        self.terminal.note("endpoint", &url);
        Ok((receiver, text_at(&answer, "/id")?.to_owned()))
    }

    /// The demo's channel: that of an earlier run, unless it can no longer be paired.
    async fn channel(&self) -> anyhow::Result<String> {
        let existing = self.gateway.get("/v1/channels").await?;
        let usable = find(&existing, "name", CHANNEL_NAME)
            .filter(|channel| !matches!(channel["status"].as_str(), Some("failed" | "error" | "disabled_by_admin")));
        let channel = match usable {
            Some(channel) => channel.clone(),
            None => self.gateway.post("/v1/channels", &json!({ "name": CHANNEL_NAME })).await?,
        };
        let id = text_at(&channel, "/id")?.to_owned();
        self.terminal.note("channel", &format!("{id}, {}", text_at(&channel, "/status")?));
        Ok(id)
    }

    async fn pair(&self, channel: &str, no_scan: bool) -> anyhow::Result<()> {
        for (number, name) in [(OWN_PHONE, "Demo phone"), (FRIEND, "Friend")] {
            self.simulator.post("/phones", &json!({ "number": number, "name": name })).await?;
        }
        let is_settled = |status: &str| !matches!(status, "connecting" | "reconnecting" | "disconnected");
        match self.status_once(channel, is_settled).await?.as_str() {
            "connected" => {
                self.terminal.good("status", "already connected, with the credentials of an earlier run");
                return Ok(());
            }
            "stopped_by_user" => {
                self.gateway.expect(Method::POST, &format!("/v1/channels/{channel}/connect"), None).await?;
            }
            _ => {}
        }
        if no_scan {
            self.wait_for_person(channel).await?
        } else {
            self.scan(channel).await?
        }
        let status = self.status_once(channel, |status| status == "connected").await?;
        ensure!(status == "connected", "the channel is still {status} after {PATIENCE:?}");
        self.terminal.good("status", &format!("connected as {OWN_PHONE}"));
        Ok(())
    }

    async fn scan(&self, channel: &str) -> anyhow::Result<()> {
        let (raw, _) = self.qr(channel).await?;
        self.terminal.qr(&raw)?;
        self.simulator.post(&format!("/phones/{OWN_PHONE}/link"), &json!({ "raw": raw })).await?;
        self.terminal.note("phone", &format!("{OWN_PHONE} scanned it"));
        Ok(())
    }

    /// Shows QR codes, and the command that scans them, until the person has scanned one.
    async fn wait_for_person(&self, channel: &str) -> anyhow::Result<()> {
        loop {
            let (raw, expires_at) = self.qr(channel).await?;
            self.terminal.qr(&raw)?;
            let link = format!("{}/phones/{OWN_PHONE}/link", self.cluster.simulator);
            let what = format!("scan it with the demo's phone before {expires_at}");
            self.terminal.command(&what, &post_line(&link, None, &json!({ "raw": raw })));
            while Timestamp::now() < expires_at {
                if matches!(self.status(channel).await?.as_str(), "connecting" | "connected") {
                    return Ok(());
                }
                tokio::time::sleep(POLL).await;
            }
        }
    }

    /// The current QR text. A channel that has just lost its pairing may need a moment to get one.
    async fn qr(&self, channel: &str) -> anyhow::Result<(String, Timestamp)> {
        let path = format!("/v1/channels/{channel}/qr?format=raw");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.gateway.call(Method::GET, &path, None).await? {
                (StatusCode::OK, answer) => {
                    let expires_at = text_at(&answer, "/expires_at")?;
                    let expires_at = Timestamp::parse_iso(expires_at).context("expires_at is no time")?;
                    return Ok((text_at(&answer, "/raw")?.to_owned(), expires_at));
                }
                (StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE, _) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                (status, answer) => bail!("GET {path} answered {status}: {answer}"),
            }
        }
    }

    async fn operator_view(&self, channel: &str) -> anyhow::Result<Value> {
        self.operator.get(&format!("/v1/admin/channels/{channel}")).await
    }

    async fn status(&self, channel: &str) -> anyhow::Result<String> {
        Ok(text_at(&self.operator_view(channel).await?, "/status")?.to_owned())
    }

    /// Polls the status until it is an awaited one, or [`PATIENCE`] is over.
    async fn status_once(&self, channel: &str, is_awaited: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status(channel).await?;
            if is_awaited(&status) || Instant::now() >= deadline {
                return Ok(status);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends a text, if possible through a node that does not own the channel, and returns the message id.
    async fn send(&self, channel: &str) -> anyhow::Result<String> {
        let view = self.operator_view(channel).await?;
        let owner = view["node_id"].as_u64().with_context(|| format!("no node_id in {view}"))?;
        let nodes = &self.cluster.nodes;
        let stranger = nodes.iter().find(|node| node.id != owner).or(nodes.first());
        let stranger = stranger.context("the cluster has no node")?;
        let through = self.gateway.at(&stranger.api);
        match stranger.id == owner {
            false => {
                self.terminal.note("route", &format!("node {owner} owns it; sending through node {}", stranger.id))
            }
            true => self.terminal.note("route", "the cluster has one node, which owns every channel"),
        }
        let body = json!({
            "to": self.friend(), "type": "text", "text": "Hello from the gateway", "client_ref": "demo",
        });
        let answer = through.post(&format!("/v1/channels/{channel}/messages"), &body).await?;
        let message = text_at(&answer, "/message_id")?;
        self.terminal.good("answer", &format!("{} {message}", text_at(&answer, "/status")?));
        Ok(message.to_owned())
    }

    /// Waits for a webhook that `matches`, and shows it; others are skipped.
    async fn expect_webhook(
        &self,
        receiver: &mut Receiver,
        event: &str,
        matches: impl Fn(&Webhook) -> bool,
    ) -> anyhow::Result<()> {
        let arrival = async {
            loop {
                let webhook = receiver.arrived.recv().await.context("the receiver has ended")?;
                if matches(&webhook) {
                    return Ok::<_, anyhow::Error>(webhook);
                }
            }
        };
        let webhook = tokio::time::timeout(PATIENCE, arrival)
            .await
            .with_context(|| format!("no {event} webhook within {PATIENCE:?}"))??;
        show_webhook(self.terminal, &webhook);
        if let Err(reason) = webhook.verdict {
            bail!("{event} arrived with a wrong signature: {reason}");
        }
        Ok(())
    }

    /// Address of the phone that the demo writes to.
    fn friend(&self) -> String {
        format!("{FRIEND}@{}", self.network.suffixes().phone)
    }

    fn next_steps(&self, channel: &str) {
        let [first, ..] = self.cluster.nodes.as_slice() else { return };
        let last = self.cluster.nodes.last().unwrap_or(first);
        let Description { api_key, operator_token, simulator, .. } = self.cluster;
        self.terminal.heading("Try next");
        let messages = format!("{}/v1/channels/{channel}/messages", last.api);
        let text = json!({ "to": self.friend(), "type": "text", "text": "Hello again" });
        self.terminal.command("send a text, through any node", &post_line(&messages, Some(api_key), &text));
        let messages = format!("{simulator}/phones/{FRIEND}/messages");
        let text = json!({ "to": OWN_PHONE, "type": "text", "text": "Hi" });
        self.terminal.command("let the friend write to the channel", &post_line(&messages, None, &text));
        let inbox = format!("curl -s {simulator}/phones/{FRIEND}/inbox");
        self.terminal.command("see what the friend's phone got", &inbox);
        self.terminal.command("read the history", &get_line(&format!("{}/v1/messages", first.api), api_key));
        let owner = format!("{}/v1/admin/channels/{channel}", first.ops);
        self.terminal.command("see which node owns the channel", &get_line(&owner, operator_token));
        self.terminal.command("kill a node; what you send meanwhile is not lost", &format!("kill -9 {}", last.pid));
    }
}

fn show_webhook(terminal: Terminal, webhook: &Webhook) {
    terminal.note("webhook", &format!("{} {}", webhook.event, webhook.event_id));
    terminal.note("", &webhook.body["data"].to_string());
    terminal.note("signature", &webhook.signature);
    match &webhook.verdict {
        Ok(()) => terminal.good("", "the signature verifies"),
        Err(reason) => terminal.bad("", reason),
    }
}

fn find<'a>(list: &'a Value, field: &str, value: &str) -> Option<&'a Value> {
    list["data"].as_array()?.iter().find(|item| item[field] == value)
}

fn get_line(url: &str, token: &str) -> String {
    format!("curl -s {url} -H 'Authorization: Bearer {token}'")
}

fn post_line(url: &str, token: Option<&str>, body: &Value) -> String {
    let token = token.map(|token| format!(" -H 'Authorization: Bearer {token}'")).unwrap_or_default();
    // A single quote in the body would end the quoting in the shell.
    let body = body.to_string().replace('\'', r"'\''");
    format!("curl -s {url}{token} -H 'Content-Type: application/json' -d '{body}'")
}
