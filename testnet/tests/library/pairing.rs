use serde_json::json;
use wacore::pair_code::PairCodeOptions;
use wacore::types::events::Event;

use crate::client::TestClient;
use crate::{CHANNEL, PEER, network, paired};

#[tokio::test]
async fn a_client_pairs_by_qr_and_logs_in_by_xx() {
    let (net, control, client) = paired().await;
    assert_eq!(client.dials(), 2, "the pairing and the log-in after it");
    let phone = control.get(&format!("/phones/{CHANNEL}")).await;
    assert_eq!(phone["devices"][0]["id"], 1);
    assert!(phone["devices"][0]["channel_session"].is_object(), "{phone}");
    assert_eq!(client.client.pn().unwrap().to_string(), format!("{CHANNEL}:1@s.whatsapp.net"));
    control
        .until("prekeys are offered", &format!("/devices/{CHANNEL}"), |devices| {
            devices["data"][0]["prekeys_left"] == 32
        })
        .await;
    assert_eq!(control.get("/crypto").await["qr_pairings"], 1);
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_new_client_on_the_stored_state_resumes_without_a_new_qr() {
    let (net, control, client) = paired().await;
    control
        .until("the store is written", &format!("/devices/{CHANNEL}"), |devices| {
            devices["data"][0]["prekeys_left"] == 32
        })
        .await;
    let store = client.die();
    let mut next = TestClient::on(net.chat_address(), store, Some((2, 7))).await;
    next.log_in().await;
    assert_eq!(next.dials(), 1);
    let logins = control.get(&format!("/logins?number={CHANNEL}")).await;
    let last = logins["data"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["node"], &last["epoch"]), (&json!(2), &json!(7)), "{logins}");
    assert_eq!(control.get("/crypto").await["qr_pairings"], 1);
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_resumption_that_is_refused_falls_back_to_xx() {
    let (net, control, client) = paired().await;
    let store = client.die();
    control.faults(json!({ "ik": "reject" })).await;
    let mut next = TestClient::on(net.chat_address(), store, None).await;
    next.log_in().await;
    assert!(next.send(PEER, "3EB0FALLBACK", "hello").await.is_none());
    assert_eq!(control.received(PEER, "3EB0FALLBACK").await["text"], "hello");
    net.shutdown().await;
}

#[tokio::test]
async fn a_pairing_with_a_wrong_hmac_is_refused_by_the_client_and_links_nothing() {
    let (net, control) = network().await;
    control.faults(json!({ "pairing": "hmac" })).await;
    let mut client = TestClient::new(net.chat_address()).await;
    client.run();
    let code = client.qr().await;
    let (status, refused) = control.post(&format!("/phones/{CHANNEL}/link"), json!({ "raw": code })).await;
    assert_eq!(status, 400, "{refused}");
    client.event("an error", |event| matches!(event, Event::PairError(_)).then_some(())).await;
    assert_eq!(control.get(&format!("/phones/{CHANNEL}")).await["devices"], json!([]));
    net.shutdown().await;
}

#[tokio::test]
async fn a_pairing_whose_answer_is_lost_links_nothing_at_the_phone() {
    let (net, control) = network().await;
    control.faults(json!({ "pairing": "drop_sign" })).await;
    let mut client = TestClient::new(net.chat_address()).await;
    client.run();
    let code = client.qr().await;
    let (status, refused) = control.post(&format!("/phones/{CHANNEL}/link"), json!({ "raw": code })).await;
    assert_eq!(status, 400, "{refused}");
    client.ended().await;
    assert_eq!(control.get(&format!("/phones/{CHANNEL}")).await["devices"], json!([]));
    assert_eq!(control.get("/crypto").await["qr_pairings"], 0);
    net.shutdown().await;
}

#[tokio::test]
async fn a_text_that_no_device_shows_or_that_has_expired_is_refused() {
    let (net, control) = network().await;
    control.faults(json!({ "qr_time_scale": 0.001 })).await;
    let mut client = TestClient::new(net.chat_address()).await;
    client.run();
    let code = client.qr().await;
    let link = format!("/phones/{CHANNEL}/link");
    // It lives 60 ms, from before it came here.
    let alive = std::time::Instant::now() + std::time::Duration::from_millis(60);
    tokio::time::sleep_until(alive.into()).await;
    let (status, refused) = control.post(&link, json!({ "raw": code })).await;
    assert_eq!((status, &refused["error"]), (400, &json!("the text has expired")));
    for raw in ["2@AAAA,a,b,c,1", "no QR text"] {
        let (status, _) = control.post(&link, json!({ "raw": raw })).await;
        assert_eq!(status, 400, "{raw}");
    }
    assert_eq!(control.post("/phones/19990000000/link", json!({ "raw": code })).await.0, 404);
    assert_eq!(control.post(&link, json!({ "pair_code": "ABCD1234" })).await.0, 400);
    net.shutdown().await;
}

#[tokio::test]
async fn a_client_pairs_by_a_code_and_a_wrong_code_links_nothing() {
    let (net, control) = network().await;
    let link = format!("/phones/{CHANNEL}/link");
    let shown = async || {
        let mut client = TestClient::new(net.chat_address()).await;
        client.run();
        client.qr().await;
        let options = PairCodeOptions { phone_number: CHANNEL.to_owned(), ..Default::default() };
        let code = client.client.pair_with_code(options).await.unwrap();
        (client, code)
    };
    let (_wrong, _) = shown().await;
    let (status, refused) = control.post(&link, json!({ "pair_code": "11111111" })).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(control.get(&format!("/phones/{CHANNEL}")).await["devices"], json!([]));
    let (mut client, code) = shown().await;
    let (status, linked) = control.post(&link, json!({ "pair_code": code })).await;
    assert_eq!(status, 200, "{linked}");
    client.ended().await;
    client.log_in().await;
    assert_eq!(client.send(PEER, "3EB0BYCODE", "hello").await, None);
    assert_eq!(control.received(PEER, "3EB0BYCODE").await["text"], "hello");
    control.assert_clean().await;
    net.shutdown().await;
}
