use serde_json::json;

use crate::client::TestClient;
use crate::{CHANNEL, PEER, paired};

#[tokio::test]
async fn a_client_whose_prekeys_run_out_offers_more_and_no_prekey_is_given_twice() {
    let (net, control, client) = paired().await;
    let devices = format!("/devices/{CHANNEL}");
    control.until("prekeys are offered", &devices, |devices| devices["data"][0]["prekeys_left"] == 32).await;
    let (status, _) = control.post("/phones/bulk", json!({ "first": "15553000000", "count": 40 })).await;
    assert_eq!(status, 201);
    for phone in 0..40 {
        let ids = control.write(&format!("{}", 15_553_000_000_u64 + phone), CHANNEL, "hello", 1).await;
        client.message(&ids[0]).await;
    }
    // Each was given once: more than there were at first, as the client offered more.
    let shown = control.until("more are offered", &devices, |devices| devices["data"][0]["prekeys_left"] != 0).await;
    let left = shown["data"][0]["prekeys_left"].as_u64().unwrap();
    let given = control.get("/crypto").await["prekeys_given"].as_u64().unwrap();
    assert!((32..=40).contains(&given) && given + left > 32, "{given} given, {left} left");
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_session_begins_without_a_one_time_prekey() {
    let (net, control, client) = paired().await;
    control.faults(json!({ "prekeys_empty": [PEER, CHANNEL] })).await;
    assert_eq!(client.send(PEER, "3EB0BARE", "hello").await, None);
    assert_eq!(control.received(PEER, "3EB0BARE").await["text"], "hello");
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_client_that_died_skips_counters_and_repeats_none() {
    let (net, control, client) = paired().await;
    client.send(PEER, "3EB0ONE", "one").await;
    control.received(PEER, "3EB0ONE").await;
    let store = client.die();
    let mut next = TestClient::on(net.chat_address(), store, None).await;
    next.log_in().await;
    next.send(PEER, "3EB0TWO", "two").await;
    assert_eq!(control.received(PEER, "3EB0TWO").await["text"], "two");
    let report = control.get("/crypto").await;
    assert!((1..=63).contains(&report["session_gaps_max"].as_u64().unwrap()), "{report}");
    control.assert_clean().await;
    net.shutdown().await;
}
