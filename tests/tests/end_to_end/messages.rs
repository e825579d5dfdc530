//! Every kind of message in both directions, as phones, webhooks and the history show it.
//!
//! - [`outbound`]: sends; [`targets`]: actions on messages; [`inbound`]: received messages.
//! - [`crowds`]: groups and newsletters; [`endings`]: sends and sessions that are ended.

mod crowds;
mod endings;
mod inbound;
mod outbound;
mod targets;

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options, Shared};
use tests::http::{Api, string};
use tests::receiver::Receiver;
use tests::simulator::Simulator;
use tests::tenant::{Paired, Tenant, address, number};
use tests::wait::{eventually, seconds};

/// How long anything that is under way may take on a busy machine.
const SOON: std::time::Duration = seconds(30);

struct Conversation {
    tenant: Tenant,
    api: Api,
    simulator: Simulator,
    receiver: Receiver,
    channel: Paired,
    /// The number of a phone that is online.
    peer: String,
}

impl Conversation {
    /// Begins a conversation on a single shared node: these tests are about the owner, whose work is the same anywhere.
    async fn begin() -> Self {
        static SHARED: Shared = Shared::new(|| Options::nodes(1));
        Self::on(&SHARED.get().await).await
    }

    async fn on(cluster: &Cluster) -> Self {
        let tenant = Tenant::new(cluster).await;
        let receiver = Receiver::start().await;
        tenant.endpoint(&receiver.url("/"), &["*"], json!({})).await;
        let channel = tenant.paired("Sales").await;
        let (api, simulator) = (tenant.any(), tenant.simulator());
        let peer = number();
        simulator.phone(&peer, json!({ "name": "Ann" })).await;
        Self { tenant, api, simulator, receiver, channel, peer }
    }

    /// Changes the channel's settings.
    async fn settle(&self, settings: Value) {
        self.api.patch(&self.channel.path("/settings"), settings).await.expect(200);
    }

    /// Sends, waits until the network has accepted the message, and returns its id.
    async fn send(&self, body: Value) -> String {
        let answer = self.api.post(&self.channel.path("/messages"), body).await.expect(202);
        let id = string(&answer["message_id"]);
        self.event("message.sent", &id).await;
        id
    }

    async fn text(&self, text: &str) -> String {
        self.send(json!({ "type": "text", "to": self.peer, "text": text })).await
    }

    /// Sends from a phone, and returns the message id.
    async fn write(&self, from: &str, body: Value) -> String {
        let answer = self.simulator.api().post(&format!("/phones/{from}/messages"), body).await.expect(201);
        string(&answer["ids"][0])
    }

    /// Sends from the peer to the channel.
    async fn hear(&self, body: Value) -> String {
        let mut body = body;
        body["to"] = json!(self.channel.number);
        self.write(&self.peer, body).await
    }

    /// A message as a phone received it.
    async fn arrived(&self, phone: &str, id: &str) -> Value {
        eventually(&format!("{id} reached {phone}"), SOON, async || {
            let inbox = self.simulator.inbox(phone).await;
            inbox.iter().find(|row| row["id"] == id).cloned().ok_or_else(|| format!("{inbox:?}"))
        })
        .await
    }

    /// The `data` of the event about a message.
    async fn event(&self, event: &str, id: &str) -> Value {
        self.receiver.wait_message(event, id, SOON).await.json()["data"].clone()
    }

    /// The `data` of the event about a message in which a field has a value.
    async fn event_with(&self, event: &str, id: &str, field: &str, value: &str) -> Value {
        let wanted = |request: &tests::receiver::Received| {
            let body = request.json();
            body["event"] == event && body["data"]["message_id"] == id && body["data"][field] == value
        };
        let what = format!("{event} of {id} with {field} {value}");
        self.receiver.wait_for(&what, SOON, wanted).await.json()["data"].clone()
    }

    /// The stored row of a message.
    async fn row(&self, id: &str) -> Value {
        let path = self.channel.path(&format!("/messages?message_id={id}&deliveries=none"));
        let page = self.api.get(&path).await.expect(200);
        assert_eq!(page["data"].as_array().map(Vec::len), Some(1), "{page}");
        page["data"][0].clone()
    }

    /// The key of a message in the chat with the peer, from the channel's point of view.
    fn key(&self, id: &str, from_me: bool) -> Value {
        json!({ "id": id, "from_me": from_me, "remote_jid": address(&self.peer) })
    }
}

/// Asserts that an object has these fields with these values; it may have others.
#[track_caller]
fn assert_has(whole: &Value, part: &Value) {
    for (field, expected) in part.as_object().unwrap() {
        assert_eq!(&whole[field], expected, "{field} of {whole}");
    }
}
