//! The customer of a test: its key, its channels, and the phones of these.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::{Api, client, merged, string};
use crate::network::phone_suffix;
use crate::simulator::Simulator;
use crate::wait::eventually;

/// How long a paired or started channel may take to connect on a busy machine.
pub const CONNECT: Duration = Duration::from_secs(20);

/// After this time in status `qr`, a code is scanned again.
const SCAN_AGAIN: Duration = Duration::from_secs(5);

/// A number that no other test of this program uses.
pub fn number() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(491_500_000_000);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// The address of a number in this program's network.
pub fn address(number: &str) -> String {
    format!("{number}@{}", phone_suffix())
}

/// A customer created for one test.
#[derive(Debug)]
pub struct Tenant {
    pub cluster: Cluster,
    pub client: Client,
    pub customer_id: String,
    /// The unrestricted API key from the operator's response.
    pub key: String,
}

impl Tenant {
    pub async fn new(cluster: &Cluster) -> Self {
        Self::with(cluster, json!({})).await
    }

    /// Creates a customer with more than a name: a plan or limits, as the operator's route takes them.
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

    /// A client of the customer at a node.
    pub fn api(&self, node: u64) -> Api {
        self.cluster.api(node, &self.client).with_key(&self.key)
    }

    /// A client of the customer at the first running node.
    pub fn any(&self) -> Api {
        self.api(self.cluster.running_node())
    }

    pub fn simulator(&self) -> Simulator {
        self.cluster.simulator(&self.client)
    }

    /// Creates a channel without pairing it.
    pub async fn channel(&self, name: &str) -> String {
        string(&self.any().post("/v1/channels", json!({ "name": name })).await.expect(201)["id"])
    }

    /// Creates a connected channel with its own phone.
    pub async fn paired(&self, name: &str) -> Paired {
        let number = number();
        self.simulator().phone(&number, json!({})).await;
        self.paired_as(name, &number).await
    }

    /// Creates a connected channel with a registered phone.
    pub async fn paired_as(&self, name: &str, number: &str) -> Paired {
        let (id, number) = (self.channel(name).await, number.to_owned());
        pair(&self.any(), &self.simulator(), &id, &number).await;
        Paired { id, number }
    }

    /// Creates an endpoint with its own secret; `more` adds to the body.
    pub async fn endpoint(&self, url: &str, events: &[&str], more: Value) -> Value {
        let body = merged(json!({ "url": url, "events": events }), &more);
        self.any().post("/v1/webhook-endpoints", body).await.expect(201)
    }

    /// The owner of a channel: node, shard and epoch, as `node` reports them to operators.
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
        // The cluster may be shared and outlive the failing test, so its logs are printed now.
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

/// The owner of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub node: u64,
    pub shard: u64,
    pub epoch: u64,
}

/// Lets a phone scan the channel's QR code, and waits until the channel is connected.
pub async fn pair(api: &Api, simulator: &Simulator, channel: &str, number: &str) {
    pair_within(api, simulator, channel, number, CONNECT).await;
}

/// Like [`pair`], with `within` as the deadline of each step.
pub async fn pair_within(api: &Api, simulator: &Simulator, channel: &str, number: &str, within: Duration) {
    // A code becomes invalid with its session, as on a leader change of the shard; the next attempt reads a new one.
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
            // A scan is lost when the session ends before it is committed.
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

/// The body of a text message.
pub fn text(to: &str, text: &str) -> Value {
    json!({ "type": "text", "to": to, "text": text })
}
