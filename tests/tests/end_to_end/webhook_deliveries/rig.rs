//! Shared code of the webhook tests: a cluster that retries soon, and lists of deliveries.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options, Shared};
use tests::http::string;
use tests::tenant::{Paired, Tenant, number};
use tests::wait::{eventually, seconds};

/// A cluster with four attempts in a few seconds, Standard Webhooks headers, and endpoint health noted each second.
pub async fn brisk() -> Cluster {
    static BRISK: Shared = Shared::new(|| {
        Options::default()
            .calm()
            .arg("--set=webhooks.schedule=[\"0s\",\"1s\",\"1s\",\"2s\"]")
            .arg("--set=webhooks.standard_headers=true")
            .arg("--set=webhooks.note_every=\"1s\"")
    });
    BRISK.get().await
}

/// Sends from a new phone to a channel, and returns the message id.
pub async fn write_to(tenant: &Tenant, channel: &Paired, words: &str) -> String {
    let sender = number();
    tenant.simulator().phone(&sender, json!({})).await;
    tenant.simulator().text(&sender, &channel.number, words, 1).await.remove(0)
}

pub fn endpoint_path(endpoint: &Value) -> String {
    format!("/v1/webhook-endpoints/{}", string(&endpoint["id"]))
}

/// The deliveries of a tenant.
pub struct Deliveries<'a>(pub &'a Tenant);

impl Deliveries<'_> {
    /// The deliveries on a single page.
    pub async fn all(&self, query: &str) -> Vec<Value> {
        let page = self.0.any().get(&format!("/v1/webhook-deliveries?{query}")).await.expect(200);
        page["data"].as_array().expect("data is a list").clone()
    }

    /// The ids of all pages, each read through another node.
    pub async fn pages(&self, query: &str) -> Vec<String> {
        let nodes = self.0.cluster.node_ids();
        let mut ids = Vec::new();
        let mut cursor = String::new();
        for round in 0.. {
            let api = self.0.api(nodes[round % nodes.len()]);
            let page = api.get(&format!("/v1/webhook-deliveries?{query}{cursor}")).await.expect(200);
            ids.extend(page["data"].as_array().expect("data is a list").iter().map(|row| string(&row["id"])));
            match &page["next_cursor"] {
                Value::Null => break,
                next => cursor = format!("&cursor={}", string(next)),
            }
        }
        ids
    }

    /// Waits until a delivery of a query has a state.
    pub async fn wait_state(&self, query: &str, state: &str) -> Value {
        eventually(&format!("a delivery of {query} is {state}"), seconds(40), async || {
            let found = self.all(query).await;
            let fits = found.iter().find(|row| row["state"] == state).cloned();
            fits.ok_or_else(|| format!("{found:?}"))
        })
        .await
    }
}
