//! Every kind of message, out and in, as the phones, the webhooks and the history see it: a channel, somebody to talk to, and
//! a receiver of all that is said of it.
//!
//! - [`outbound`]: what is sent; [`targets`]: what is done to messages; [`inbound`]: what comes in.
//! - [`crowds`]: groups and newsletters; [`endings`]: what becomes of sends and sessions that are ended.

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

/// How long anything may take that is on its way, with the machine busy.
const SOON: std::time::Duration = seconds(30);

struct Conversation {
    tenant: Tenant,
    api: Api,
    simulator: Simulator,
    receiver: Receiver,
    channel: Paired,
    /// A phone that is online.
    peer: String,
}

impl Conversation {
    /// On one node that all these tests share: what they try is the owner's work, wherever it is done.
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

    /// Sends, waits until the network has accepted it, and gives the message id.
    async fn send(&self, body: Value) -> String {
        let answer = self.api.post(&self.channel.path("/messages"), body).await.expect(202);
        let id = string(&answer["message_id"]);
        self.event("message.sent", &id).await;
        id
    }

    async fn text(&self, text: &str) -> String {
        self.send(json!({ "type": "text", "to": self.peer, "text": text })).await
    }

    /// A phone writes; gives the message id.
    async fn write(&self, from: &str, body: Value) -> String {
        let answer = self.simulator.api().post(&format!("/phones/{from}/messages"), body).await.expect(201);
        string(&answer["ids"][0])
    }

    /// The peer writes to the channel.
    async fn hear(&self, body: Value) -> String {
        let mut body = body;
        body["to"] = json!(self.channel.number);
        self.write(&self.peer, body).await
    }

    /// A phone's view of a message.
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

    /// The `data` of the event about a message that holds what is wanted.
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

    /// How the channel names a message in the conversation with the peer.
    fn key(&self, id: &str, from_me: bool) -> Value {
        json!({ "id": id, "from_me": from_me, "remote_jid": address(&self.peer) })
    }
}

/// Asserts that an object has these fields with these values, and maybe others.
#[track_caller]
fn assert_has(whole: &Value, part: &Value) {
    for (field, expected) in part.as_object().unwrap() {
        assert_eq!(&whole[field], expected, "{field} of {whole}");
    }
}
