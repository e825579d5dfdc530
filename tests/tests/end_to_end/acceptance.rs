//! Sends that the network refuses, accepts late, or accepts without the acceptance reaching the gateway.

use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::receiver::Receiver;
use tests::simulator::Simulator;
use tests::tenant::{Paired, Tenant, number, text};
use tests::wait::{check, eventually, seconds};

/// A channel, a recipient, and a receiver of status events.
struct Outbound {
    tenant: Tenant,
    simulator: Simulator,
    receiver: Receiver,
    channel: Paired,
    recipient: String,
}

impl Outbound {
    /// Runs on its own cluster, since a fault affects the whole network.
    async fn begin(online: bool) -> Self {
        let cluster = Cluster::start(Options::nodes(1)).await;
        let tenant = Tenant::new(&cluster).await;
        let receiver = Receiver::start().await;
        tenant.endpoint(&receiver.url("/"), &["message.status", "message.sent"], json!({})).await;
        let channel = tenant.paired("Sales").await;
        let recipient = number();
        let simulator = tenant.simulator();
        simulator.phone(&recipient, json!({ "online": online })).await;
        Self { tenant, simulator, receiver, channel, recipient }
    }

    async fn send_queued(&self, words: &str) -> String {
        let path = self.channel.path("/messages");
        let answer = self.tenant.any().post(&path, text(&self.recipient, words)).await.expect(202);
        assert_eq!(answer["status"], "queued");
        string(&answer["message_id"])
    }

    async fn arrives_once(&self, id: &str) {
        self.receiver.wait_message("message.sent", id, seconds(60)).await;
        let ledger = self.simulator.ledger_by_id().await;
        assert_eq!(ledger[id].len(), 1, "{:?}", ledger[id]);
        assert_eq!(self.receiver.event_ids("message.sent")[id].len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_the_network_refuses_is_told_to_the_caller_and_ends_failed() {
    let outbound = Outbound::begin(true).await;
    let (api, channel) = (outbound.tenant.any(), &outbound.channel);
    outbound.simulator.faults(json!({ "nack": { "code": 463, "pct": 100 } })).await;
    let answer = api.post(&channel.path("/messages"), text(&outbound.recipient, "refused")).await;
    let details = answer.expect_error(422, "other");
    assert_eq!((&details["upstream_code"], &details["upstream_text"]), (&json!(463), &json!("reachout_timelock")));
    // This refusal is about the account and not the recipient: it may start no new chats at all.
    outbound.simulator.faults(json!({ "nack": { "code": 475, "pct": 100 } })).await;
    let answer = api.post(&channel.path("/messages"), text(&outbound.recipient, "capped")).await;
    let details = answer.expect_error(422, "other");
    assert_eq!((&details["upstream_code"], &details["upstream_text"]), (&json!(475), &json!("new_chats_capped")));
    outbound.simulator.clear_faults().await;
    // The response may come before the outcome is stored, so the test waits for the row.
    let row = eventually("the history knows of the refusal", seconds(10), async || {
        let history = api.get(&channel.path("/messages?status=failed")).await.expect(200);
        check(history["data"].as_array().is_some_and(|rows| rows.len() == 2), history.to_string())
            .map(|()| history["data"][1].clone())
    })
    .await;
    assert_eq!((&row["text"], &row["status"]), (&json!("refused"), &json!("failed")));
    assert!(row["error"]["code"].is_string(), "{row}");
    let id = string(&row["message_id"]);
    let failed = outbound.receiver.wait_message("message.status", &id, seconds(10)).await;
    assert_eq!(failed.json()["data"]["status"], "failed");
    assert!(!outbound.simulator.ledger_by_id().await.contains_key(&id), "a refused message had no effect");
}

/// The acceptance takes longer than 10 s: the caller gets its response before, and the message arrives once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_is_accepted_late_is_answered_queued_and_arrives_once() {
    let outbound = Outbound::begin(true).await;
    outbound.simulator.faults(json!({ "accept_delay_ms": 15_000 })).await;
    let start = std::time::Instant::now();
    let id = outbound.send_queued("late").await;
    assert!((seconds(9)..seconds(15)).contains(&start.elapsed()), "{:?}", start.elapsed());
    outbound.simulator.clear_faults().await;
    outbound.arrives_once(&id).await;
}

/// The acceptance is lost: the message is sent again with its id, and the network drops the repeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_whose_acceptance_is_lost_is_repeated_under_its_id_and_arrives_once() {
    // The phone is offline, since its receipt would imply the acceptance.
    let outbound = Outbound::begin(false).await;
    outbound.simulator.faults(json!({ "drop_after_accept_pct": 100 })).await;
    let id = outbound.send_queued("lost").await;
    outbound.simulator.clear_faults().await;
    outbound.arrives_once(&id).await;
    assert!(outbound.simulator.stat("duplicates_dropped").await >= 1);
}
