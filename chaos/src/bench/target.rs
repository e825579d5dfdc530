//! The cluster under measurement and its connected channels.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tests::cluster::{Cluster, Dev, Options};
use tests::http::{Answer, Api, client};

/// Channels that are paired at the same time.
const PAIRING_AT_ONCE: usize = 24;
/// For all channels to be connected, after the last was scanned.
const CONNECT: Duration = Duration::from_secs(120);
/// Numbers of the channels' phones and of the recipients follow these.
const FIRST_PHONE: u64 = 492_000_000_000;
pub const FIRST_RECIPIENT: u64 = 493_000_000_000;

/// A cluster with high limits.
pub struct Target {
    pub dev: Dev,
    /// Stops when it goes; none when the cluster was there before.
    pub cluster: Option<Cluster>,
}

/// A connected channel and whom it writes to.
#[derive(Clone, Debug)]
pub struct Channel {
    pub id: String,
    pub recipient: String,
}

impl Target {
    /// Starts a cluster.
    pub async fn start(nodes: usize) -> Self {
        let cluster = Cluster::start(Options::nodes(nodes)).await;
        Self { dev: cluster.dev(), cluster: Some(cluster) }
    }

    /// Takes one that runs, by its `dev.json`. Its limits must be high.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn attach(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let dev = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(Self { dev, cluster: None })
    }

    /// Makes and pairs channels for the demo customer, each with a recipient; those that are connected already are
    /// taken first. With `receipts`, recipients are online and confirm what they get.
    ///
    /// # Errors
    /// When a step is answered otherwise than it should.
    pub async fn channels(&self, count: usize, receipts: bool) -> anyhow::Result<Vec<Channel>> {
        let client = client();
        let simulator = Api::new(client.clone(), &self.dev.simulator, None);
        let apis: Vec<_> =
            self.dev.nodes.iter().map(|node| Api::new(client.clone(), &node.api, Some(&self.dev.api_key))).collect();
        let phones = json!({ "first": FIRST_PHONE.to_string(), "count": count });
        want(simulator.post("/phones/bulk", phones).await, 201)?;
        let recipients = json!({ "first": FIRST_RECIPIENT.to_string(), "count": count, "online": receipts });
        want(simulator.post("/phones/bulk", recipients).await, 201)?;

        // The first numbers belong to the channels that are there already.
        let present = connected(&apis[0]).await?.len();
        let (simulator, apis) = (&simulator, &apis);
        stream::iter(present..count)
            .map(|n| async move {
                let number = (FIRST_PHONE + n as u64).to_string();
                pair(&apis[n % apis.len()], simulator, &number).await
            })
            .buffer_unordered(PAIRING_AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;

        let start = Instant::now();
        loop {
            let mut ids = connected(&apis[0]).await?;
            if ids.len() >= count {
                ids.truncate(count);
                let recipient = |n: usize| (FIRST_RECIPIENT + n as u64).to_string();
                return Ok(ids
                    .into_iter()
                    .enumerate()
                    .map(|(n, id)| Channel { id, recipient: recipient(n) })
                    .collect());
            }
            if start.elapsed() > CONNECT {
                bail!("{} of {count} channels are connected after {CONNECT:?}", ids.len());
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

async fn pair(api: &Api, simulator: &Api, number: &str) -> anyhow::Result<()> {
    let made = want(api.post("/v1/channels", json!({ "name": format!("Bench {number}") })).await, 201)?;
    let id = made["id"].as_str().context("a channel has an id")?;
    let qr = want(api.get(&format!("/v1/channels/{id}/qr?format=raw")).await, 200)?;
    want(simulator.post(&format!("/phones/{number}/link"), json!({ "raw": qr["raw"] })).await, 200)?;
    Ok(())
}

/// The connected channels of the customer, all of them.
async fn connected(api: &Api) -> anyhow::Result<Vec<String>> {
    let list = want(api.get("/v1/channels?status=connected").await, 200)?;
    let rows = list["data"].as_array().context("a list has data")?;
    Ok(rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect())
}

fn want(answer: Answer, status: u16) -> anyhow::Result<Value> {
    ensure!(answer.status == status, "expected {status}, got {}: {}", answer.status, answer.text());
    Ok(answer.json())
}
