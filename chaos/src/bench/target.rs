//! The cluster under measurement and its connected channels.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tests::cluster::{Cluster, Dev, Options};
use tests::http::{Answer, Api, client, try_answer};

/// Channels that are paired at the same time.
const PAIRING_AT_ONCE: usize = 24;
/// Timeout for one channel to be linked.
const PAIR: Duration = Duration::from_secs(30);
/// Timeout for all channels to be connected, after the last scan or the return of a node.
const CONNECT: Duration = Duration::from_secs(120);
/// First numbers of the channels' phones and of the recipients.
const FIRST_PHONE: u64 = 492_000_000_000;
pub const FIRST_RECIPIENT: u64 = 493_000_000_000;

/// A cluster with high limits.
pub struct Target {
    pub dev: Dev,
    /// Ends when it is dropped; `None` if the cluster was running before.
    pub cluster: Option<Cluster>,
}

/// A connected channel and its recipient.
#[derive(Clone, Debug)]
pub struct Channel {
    pub id: String,
    pub recipient: String,
    /// The number of the channel's own phone.
    pub number: String,
}

impl Target {
    /// Starts a cluster.
    pub async fn start(nodes: usize) -> Self {
        Self::start_with(Options::nodes(nodes)).await
    }

    /// Starts a cluster with special options.
    pub async fn start_with(options: Options) -> Self {
        let cluster = Cluster::start(options).await;
        Self { dev: cluster.dev(), cluster: Some(cluster) }
    }

    /// Uses a running cluster, by its `dev.json`. Its limits must be high.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn attach(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let dev = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(Self { dev, cluster: None })
    }

    /// Creates and pairs channels for the demo customer until there are `count`, each with a recipient, and waits until
    /// all are connected. With `receipts`, recipients are online and confirm messages.
    ///
    /// # Errors
    /// When a request is refused, or a step takes too long.
    pub async fn channels(&self, count: usize, receipts: bool) -> anyhow::Result<Vec<Channel>> {
        let client = client();
        let simulator = self.simulator();
        let apis: Vec<_> =
            self.dev.nodes.iter().map(|node| Api::new(client.clone(), &node.api, Some(&self.dev.api_key))).collect();
        let phones = json!({ "first": FIRST_PHONE.to_string(), "count": count });
        want(simulator.post("/phones/bulk", phones).await, 201)?;
        let recipients = json!({ "first": FIRST_RECIPIENT.to_string(), "count": count, "online": receipts });
        want(simulator.post("/phones/bulk", recipients).await, 201)?;

        // The first numbers belong to the channels that exist already.
        let mut channels = connected(&apis[0]).await?;
        let (simulator, apis) = (&simulator, &apis);
        let made: Vec<Channel> = stream::iter(channels.len()..count)
            .map(|n| async move { pair(&apis[n % apis.len()], simulator, n).await })
            .buffer_unordered(PAIRING_AT_ONCE)
            .try_collect()
            .await?;
        channels.extend(made);
        self.settled(channels.len() as u64).await?;
        channels.truncate(count);
        Ok(channels)
    }

    /// A client of the network's control port.
    pub fn simulator(&self) -> Api {
        Api::new(client(), &self.dev.simulator, None)
    }

    /// A client of the customer port of the first node.
    pub fn api(&self) -> Api {
        Api::new(client(), &self.dev.nodes[0].api, Some(&self.dev.api_key))
    }

    /// Waits until every node that is not drained owns a shard, as leadership returns to restarted nodes, and until
    /// `channels` are connected.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn settled(&self, channels: u64) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let nodes = self.node_rows().await?;
            let has_its_part = |row: &&Value| {
                row["member"] == "draining" || row["owns"].as_array().is_some_and(|shards| !shards.is_empty())
            };
            let (placed, connected) = (nodes.iter().filter(has_its_part).count(), connected_at(&nodes));
            if placed == self.dev.nodes.len() && connected >= channels {
                return Ok(());
            }
            ensure!(
                start.elapsed() < CONNECT,
                "{placed} nodes own their part and {connected} of {channels} channels are connected after {CONNECT:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The number of connected channels.
    ///
    /// # Errors
    /// When the operator's port does not answer as expected.
    pub async fn connected_now(&self) -> anyhow::Result<u64> {
        Ok(connected_at(&self.node_rows().await?))
    }

    /// A client of the operator port of the first node.
    pub fn operator(&self) -> Api {
        Api::new(client(), &self.dev.nodes[0].ops, Some(&self.dev.operator_token))
    }

    /// The number of sessions at a node, by its id.
    ///
    /// # Errors
    /// When the operator's port does not answer as expected.
    pub async fn sessions_of(&self, node: u64) -> anyhow::Result<u64> {
        let row = self.node_row(node).await?;
        row["channels_connected"].as_u64().with_context(|| format!("node {node} does not tell: {row}"))
    }

    /// The number of shards that a node owns, by its id.
    ///
    /// # Errors
    /// When the operator's port does not answer as expected.
    pub async fn owned_by(&self, node: u64) -> anyhow::Result<usize> {
        let row = self.node_row(node).await?;
        Ok(row["owns"].as_array().with_context(|| format!("node {node} does not tell: {row}"))?.len())
    }

    async fn node_row(&self, node: u64) -> anyhow::Result<Value> {
        let rows = self.node_rows().await?;
        rows.into_iter().find(|row| row["id"] == node).with_context(|| format!("there is no node {node}"))
    }

    async fn node_rows(&self) -> anyhow::Result<Vec<Value>> {
        let operator = self.operator();
        let answer = try_answer(operator.request(reqwest::Method::GET, "/v1/admin/nodes")).await?;
        let nodes = want(answer, 200)?;
        Ok(nodes["data"].as_array().context("a list has data")?.clone())
    }
}

fn connected_at(nodes: &[Value]) -> u64 {
    nodes.iter().filter_map(|row| row["channels_connected"].as_u64()).sum()
}

async fn pair(api: &Api, simulator: &Api, n: usize) -> anyhow::Result<Channel> {
    let number = (FIRST_PHONE + n as u64).to_string();
    let made = want(api.post("/v1/channels", json!({ "name": format!("Bench {number}") })).await, 201)?;
    let id = made["id"].as_str().context("a channel has an id")?;
    let began = Instant::now();
    // A code is gone if its session ended meanwhile, as when the shard gets a new leader; the next attempt gets
    // another.
    loop {
        let qr = api.get(&format!("/v1/channels/{id}/qr?format=raw")).await;
        let linked = if qr.status == 200 {
            simulator.post(&format!("/phones/{number}/link"), json!({ "raw": qr.json()["raw"] })).await
        } else {
            qr
        };
        if linked.status == 200 {
            return Ok(Channel { id: id.to_owned(), recipient: recipient(n), number });
        }
        ensure!(began.elapsed() < PAIR, "{number} was not linked within {PAIR:?}: {}", linked.text());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn recipient(n: usize) -> String {
    (FIRST_RECIPIENT + n as u64).to_string()
}

/// All connected channels of the customer.
async fn connected(api: &Api) -> anyhow::Result<Vec<Channel>> {
    let list = want(api.get("/v1/channels?status=connected").await, 200)?;
    let rows = list["data"].as_array().context("a list has data")?;
    let channel = |(n, row): (usize, &Value)| {
        let text = |field: &str| row[field].as_str().map(str::to_owned);
        Some(Channel { id: text("id")?, recipient: recipient(n), number: text("phone_number")? })
    };
    rows.iter().enumerate().map(channel).collect::<Option<_>>().context("a connected channel has an id and a number")
}

/// The body of a response with this status; null if it is empty.
///
/// # Errors
/// When the status is another.
pub fn want(answer: Answer, status: u16) -> anyhow::Result<Value> {
    ensure!(answer.status == status, "expected {status}, got {}: {}", answer.status, answer.text());
    Ok(if answer.body.is_empty() { Value::Null } else { answer.json() })
}
