//! A customer of one test's own: its key, its channels, the phones behind them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::{Api, client, merged, string};
use crate::network::phone_suffix;
use crate::simulator::Simulator;
use crate::wait::eventually;

/// How long a paired or started channel may take until it is connected, with the machine busy.
pub const CONNECT: Duration = Duration::from_secs(20);

/// After so long in status `qr` a code is scanned once more.
const SCAN_AGAIN: Duration = Duration::from_secs(5);

/// A number that no other test of this program uses.
pub fn number() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(491_500_000_000);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// The address of a number in the network of this program.
pub fn address(number: &str) -> String {
    format!("{number}@{}", phone_suffix())
}

/// A customer made for one test.
#[derive(Debug)]
pub struct Tenant {
    pub cluster: Cluster,
    pub client: Client,
    pub customer_id: String,
    /// Unrestricted, as the operator's answer gave it.
    pub key: String,
}

impl Tenant {
    pub async fn new(cluster: &Cluster) -> Self {
        Self::with(cluster, json!({})).await
    }

    /// A customer with more than a name: plan or limits as the operator's route takes them.
    pub async fn with(cluster: &Cluster, more: Value) -> Self {
        let client = client();
        let body = merged(json!({ "name": format!("Customer {}", number()) }), &more);
        let node = cluster.running_node();
        let made = cluster.operator(node, &client).post("/v1/admin/customers", body).await.expect(201);
        Self {
            cluster: cluster.clone(),
            client,
            customer_id: string(&made["id"]),
            key: string(&made["api_key"]["secret"]),
        }
    }

    /// The customer at a node.
    pub fn api(&self, node: u64) -> Api {
        self.cluster.api(node, &self.client).with_key(&self.key)
    }

    /// The customer at the first node that runs.
    pub fn any(&self) -> Api {
        self.api(self.cluster.running_node())
    }

    pub fn simulator(&self) -> Simulator {
        self.cluster.simulator(&self.client)
    }

    /// A channel that was never paired.
    pub async fn channel(&self, name: &str) -> String {
        string(&self.any().post("/v1/channels", json!({ "name": name })).await.expect(201)["id"])
    }

    /// A connected channel with a phone of its own.
    pub async fn paired(&self, name: &str) -> Paired {
        let number = number();
        self.simulator().phone(&number, json!({})).await;
        self.paired_as(name, &number).await
    }

    /// A connected channel of a phone that is registered.
    pub async fn paired_as(&self, name: &str, number: &str) -> Paired {
        let (id, number) = (self.channel(name).await, number.to_owned());
        pair(&self.any(), &self.simulator(), &id, &number).await;
        Paired { id, number }
    }

    /// An endpoint with a secret of its own; `more` adds to the body.
    pub async fn endpoint(&self, url: &str, events: &[&str], more: Value) -> Value {
        let body = merged(json!({ "url": url, "events": events }), &more);
        self.any().post("/v1/webhook-endpoints", body).await.expect(201)
    }

    /// Where a channel lives: node, shard and epoch as the operator sees them through `node`.
    pub async fn owner(&self, node: u64, channel: &str) -> Owner {
        let operator = self.cluster.operator(node, &self.client);
        let row = operator.get(&format!("/v1/admin/channels/{channel}")).await.expect(200);
        let figure = |name: &str| row[name].as_u64();
        match (figure("node_id"), figure("shard"), figure("epoch")) {
            (Some(node), Some(shard), Some(epoch)) => Owner { node, shard, epoch },
            _ => panic!("a channel has node_id, shard and epoch: {row}"),
        }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        // The cluster may be shared and outlive the failing test; its logs are wanted now.
        if std::thread::panicking() {
            self.cluster.print_logs();
        }
    }
}

/// A connected channel.
#[derive(Clone, Debug)]
pub struct Paired {
    pub id: String,
    pub number: String,
}

impl Paired {
    pub fn address(&self) -> String {
        address(&self.number)
    }

    pub fn path(&self, rest: &str) -> String {
        format!("/v1/channels/{}{rest}", self.id)
    }
}

/// Who holds a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub node: u64,
    pub shard: u64,
    pub epoch: u64,
}

/// Lets a phone scan the channel's QR, and waits until the channel is connected.
pub async fn pair(api: &Api, simulator: &Simulator, channel: &str, number: &str) {
    pair_within(api, simulator, channel, number, CONNECT).await;
}

/// As [`pair`], each step of it within so long.
pub async fn pair_within(api: &Api, simulator: &Simulator, channel: &str, number: &str, within: Duration) {
    // A code is gone when its session ended meanwhile, as it does when the shard finds a new leader: there is another.
    let scanned = async || {
        eventually(&format!("{number} is linked to {channel}"), within, async || {
            let qr = api.get(&format!("/v1/channels/{channel}/qr?format=raw")).await;
            let raw = if qr.status == 200 { string(&qr.json()["raw"]) } else { return Err(qr.text()) };
            simulator.try_scan(number, &raw).await
        })
        .await;
        Instant::now()
    };
    let mut since = scanned().await;
    eventually(&format!("channel {channel} is connected"), within, async || {
        let answer = api.get(&format!("/v1/channels/{channel}")).await;
        match answer.json()["status"].as_str() {
            Some("connected") => return Ok(()),
            // What was scanned is lost when the session ends before it is committed.
            Some("qr") if since.elapsed() > SCAN_AGAIN => since = scanned().await,
            _ => {}
        }
        Err(answer.text())
    })
    .await;
}

/// Waits until a channel has a status.
pub async fn wait_status(api: &Api, channel: &str, status: &str, within: Duration) -> Value {
    eventually(&format!("channel {channel} is {status}"), within, async || {
        let answer = api.get(&format!("/v1/channels/{channel}")).await;
        if answer.status == 200 && answer.json()["status"] == status { Ok(answer.json()) } else { Err(answer.text()) }
    })
    .await
}

/// The body of a text.
pub fn text(to: &str, text: &str) -> Value {
    json!({ "type": "text", "to": to, "text": text })
}
