//! The driver of the real network from outside: real processes, on a test network that speaks the real protocol and
//! proves from the traffic that no message key is used twice. `make whatsapp` runs these tests and builds the gateway
//! that they need.

#![allow(clippy::unwrap_used, reason = "tests")]

mod conflict;
mod contents;
mod crash_points;
mod drivers;
#[path = "../end_to_end/groups.rs"]
mod groups;
mod measured;
mod media;
#[path = "../end_to_end/metrics.rs"]
mod metrics;
mod numbers;
mod pairing;
mod proxy;
mod storm;

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::simulator::Simulator;

/// Starts a cluster on the test network.
async fn cluster(nodes: usize) -> Cluster {
    Cluster::start(Options::nodes(nodes)).await
}

/// The findings of the network's own checks.
async fn crypto(network: &Simulator) -> Value {
    network.api().get("/crypto").await.expect(200)
}

/// Asserts that the network's checks found nothing, that phones could read everything, and the number of QR pairings.
async fn assert_clean(network: &Simulator, pairings: usize) {
    let found = crypto(network).await;
    let lists = ["key_reuse", "prekey_conflicts", "prekey_unknown_rows", "body_conflicts", "foreign_acks", "two_live"];
    for list in lists {
        assert_eq!(found[list], json!([]), "{list} of {found}");
    }
    for (figure, expected) in [("undecryptable", 0), ("prekey_unknown", 0), ("qr_pairings", pairings)] {
        assert_eq!(found[figure], json!(expected), "{figure} of {found}");
    }
    assert!(found["session_gaps_max"].as_u64() < Some(2_000), "a peer takes no larger step: {found}");
    assert_eq!(found["overflow"], json!(false), "more than the network remembers: {found}");
}
