//! A test's channel on the shared cluster, used through a node that does not own it, with a phone to talk to and a
//! receiver of all events.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::Api;
use crate::receiver::{Received, Receiver};
use crate::simulator::Simulator;
use crate::tenant::{Paired, Tenant, number};
use crate::wait::seconds;

/// How long anything that is under way may take on a busy machine.
pub const SOON: std::time::Duration = seconds(30);

pub struct Scene {
    pub tenant: Tenant,
    /// A client of the customer at a node that does not own the channel.
    pub api: Api,
    pub simulator: Simulator,
    pub receiver: Receiver,
    pub channel: Paired,
    /// The number of a phone that is online.
    pub peer: String,
}

impl Scene {
    pub async fn begin() -> Self {
        Self::with(json!({})).await
    }

    /// Begins a scene whose channel's own phone is registered with `more`, such as `{ "business": true }`.
    pub async fn with(more: Value) -> Self {
        Self::on(&Cluster::shared().await, more).await
    }

    /// Begins a scene on this cluster.
    pub async fn on(cluster: &Cluster, more: Value) -> Self {
        let tenant = Tenant::new(cluster).await;
        let receiver = Receiver::start().await;
        tenant.endpoint(&receiver.url("/"), &["*"], json!({})).await;
        let simulator = tenant.simulator();
        let own = number();
        simulator.phone(&own, more).await;
        let channel = tenant.paired_as("Scene", &own).await;
        let peer = number();
        simulator.phone(&peer, json!({ "name": "Ann" })).await;
        let owner = tenant.owner(tenant.cluster.running_node(), &channel.id).await.node;
        let other = tenant.cluster.node_ids().into_iter().find(|node| *node != owner).unwrap_or(owner);
        let api = tenant.api(other);
        Self { tenant, api, simulator, receiver, channel, peer }
    }

    /// The node that owns the channel.
    pub async fn owner(&self) -> u64 {
        self.tenant.owner(self.tenant.cluster.running_node(), &self.channel.id).await.node
    }

    pub fn path(&self, rest: &str) -> String {
        self.channel.path(rest)
    }

    /// Path of the peer's phone at the simulator.
    pub fn phone_path(&self, rest: &str) -> String {
        format!("/phones/{}{rest}", self.peer)
    }

    /// Waits for an event whose data passes, and returns the data.
    pub async fn event(&self, name: &str, what: &str, passes: impl Fn(&Value) -> bool) -> Value {
        let wanted = |request: &Received| {
            let body = request.json();
            body["event"] == name && passes(&body["data"])
        };
        self.receiver.wait_for(&format!("{name}: {what}"), SOON, wanted).await.json()["data"].clone()
    }

    /// How many events of a name have come, without repeated deliveries.
    pub fn told(&self, name: &str) -> usize {
        let received = self.receiver.received();
        let ids = received.iter().filter(|request| request.event() == name).map(Received::event_id);
        ids.collect::<BTreeSet<_>>().len()
    }
}

/// Asserts that an object has these fields with these values; it may have others.
#[track_caller]
pub fn assert_has(whole: &Value, part: &Value) {
    for (field, expected) in part.as_object().expect("an object of fields") {
        assert_eq!(&whole[field], expected, "{field} of {whole}");
    }
}
