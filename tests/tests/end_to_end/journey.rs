//! The gateway's main job as a customer does it: create a channel, link a phone, send, receive, read the history, end.

mod channel;
mod messages;

use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{Api, string};
use tests::receiver::Receiver;
use tests::simulator::Simulator;
use tests::tenant::{Tenant, number};

pub use messages::undeliverable;

/// State that the steps share.
pub struct Journey {
    tenant: Tenant,
    /// A client of the node that the journey uses.
    api: Api,
    simulator: Simulator,
    receiver: Receiver,
    /// Signing secret of the endpoint at `/custom`.
    custom_secret: String,
    /// Signing secret of the endpoint at `/default`.
    default_secret: String,
    channel: String,
    number: String,
}

/// The events that endpoints subscribe to and that this journey causes.
const EVENTS: [&str; 8] = [
    "message.received",
    "message.sent",
    "message.status",
    "channel.connected",
    "channel.disconnected",
    "channel.status",
    "qr.updated",
    "contact.resolved",
];

/// Does the main job through one node.
pub async fn main_job(cluster: &Cluster, node: usize) {
    let mut journey = Journey::begin(cluster, node).await;
    journey.create_channel().await;
    journey.link_by_qr().await;
    let sent = journey.send_both_shapes().await;
    journey.follow_receipts(&sent).await;
    journey.receive().await;
    journey.receive_from_a_hidden_number().await;
    journey.read_history(&sent).await;
    journey.rename().await;
    journey.stop_and_start().await;
    journey.log_out().await;
    journey.delete().await;
}

/// Links a channel with a typed pairing code.
pub async fn pair_code(cluster: &Cluster) {
    let journey = Journey::begin(cluster, 0).await;
    journey.link_by_code().await;
}

impl Journey {
    async fn begin(cluster: &Cluster, node: usize) -> Self {
        let tenant = Tenant::new(cluster).await;
        let node = cluster.node_ids()[node];
        let api = tenant.api(node);
        let receiver = Receiver::start().await;
        let custom_secret = format!("whsec_{}", number());
        let custom =
            tenant.endpoint(&receiver.url("/custom"), &EVENTS, json!({ "signing_secret": custom_secret })).await;
        assert_eq!(custom["signing_secret"], json!(custom_secret), "the answer to the creation shows it once");
        let default = tenant.endpoint(&receiver.url("/default"), &EVENTS, json!({})).await;
        assert_eq!(default["signing_secret"], Value::Null);
        let path = format!("/v1/webhook-endpoints/{}/signing-secret", string(&default["id"]));
        let secret = api.get(&path).await.expect(200);
        assert_eq!(secret["is_default"], true);
        let default_secret = string(&secret["signing_secret"]);
        assert!(default_secret.starts_with("gwd_"), "{default_secret}");
        Self {
            simulator: tenant.simulator(),
            tenant,
            api,
            receiver,
            custom_secret,
            default_secret,
            channel: String::new(),
            number: number(),
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/channels/{}{rest}", self.channel)
    }
}
