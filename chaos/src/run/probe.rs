//! A channel of the harness's own: through it each node shows that it takes sends again.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tests::http::{Api, client};

use crate::world::World;
use crate::world::asking::{ask, get, until};

/// Numbers that no workload uses.
const OWN: &str = "499900000001";
const PEER: &str = "499900000002";

/// For the pairing.
const PAIRED: Duration = Duration::from_secs(30);

/// A connected channel, and the key of its customer.
#[derive(Clone, Debug)]
pub struct Probe {
    client: Client,
    key: String,
    channel: String,
}

impl Probe {
    /// Makes a customer and pairs a channel.
    ///
    /// # Errors
    /// When a step is answered otherwise than it should.
    pub async fn pair(world: &World) -> anyhow::Result<Self> {
        let (_, operator) = world.ready_operator(None, PAIRED).await?;
        let customer = ask(&operator, Method::POST, "/v1/admin/customers", Some(json!({ "name": "Probe" }))).await?;
        let key = text(&customer["api_key"]["secret"])?;
        let map = world.map();
        let client = client();
        let api = map.nodes.first().context("there is a node")?.customer(&client, &key);
        let control = map.simulator(&client);
        for number in [OWN, PEER] {
            ask(control.api(), Method::POST, "/phones", Some(json!({ "number": number }))).await?;
        }
        let made = ask(&api, Method::POST, "/v1/channels", Some(json!({ "name": "Probe" }))).await?;
        let channel = text(&made["id"])?;
        until("the probe is paired", PAIRED, async || {
            let qr = get(&api, &format!("/v1/channels/{channel}/qr?format=raw")).await?;
            ask(control.api(), Method::POST, &format!("/phones/{OWN}/link"), Some(json!({ "raw": qr["raw"] }))).await
        })
        .await?;
        let probe = Self { client, key, channel };
        probe.connected(&api, PAIRED).await?;
        Ok(probe)
    }

    async fn connected(&self, api: &Api, within: Duration) -> anyhow::Result<()> {
        until("the probe is connected", within, async || {
            let row = get(api, &format!("/v1/channels/{}", self.channel)).await?;
            ensure!(row["status"] == "connected", "{row}");
            Ok(())
        })
        .await
    }

    /// Sends through a node, until it is accepted.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn send(&self, world: &World, node: u64, within: Duration) -> anyhow::Result<()> {
        let map = world.map();
        let place =
            map.nodes.iter().find(|place| place.id == node).with_context(|| format!("there is no node {node}"))?;
        let api = place.customer(&self.client, &self.key);
        until(&format!("a send through node {node} is accepted"), within, async || {
            let body = json!({ "type": "text", "to": PEER, "text": format!("through node {node}") });
            let sent = ask(&api, Method::POST, &format!("/v1/channels/{}/messages", self.channel), Some(body)).await?;
            ensure!(sent["message_id"].is_string(), "{sent}");
            Ok(())
        })
        .await
    }
}

fn text(value: &Value) -> anyhow::Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("no string: {value}"))
}
