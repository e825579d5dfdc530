use serde_json::json;
use wacore::types::events::{ConnectFailureReason, Event};

use crate::client::TestClient;
use crate::{CHANNEL, paired};

#[tokio::test]
async fn a_second_login_replaces_the_first_as_a_conflict_or_as_a_fence() {
    let (net, control, mut client) = paired().await;
    let store = client.store.clone();
    let mut second = TestClient::on(net.chat_address(), store.clone(), None).await;
    second.log_in().await;
    client.event("the first is replaced", |event| matches!(event, Event::StreamReplaced(_)).then_some(())).await;
    client.ended().await;
    let stats = control.get("/stats").await;
    assert_eq!((&stats["conflicts"], &stats["fenced"]), (&json!(1), &json!(0)));
    let mut third = TestClient::on(net.chat_address(), store, Some((3, 9))).await;
    third.log_in().await;
    second.event("the second is replaced", |event| matches!(event, Event::StreamReplaced(_)).then_some(())).await;
    let stats = control.get("/stats").await;
    assert_eq!((&stats["conflicts"], &stats["fenced"]), (&json!(1), &json!(1)));
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn an_unlinked_device_is_logged_out_at_once_and_at_its_next_login() {
    let (net, control, mut client) = paired().await;
    let store = client.store.clone();
    assert_eq!(control.post(&format!("/phones/{CHANNEL}/unlink"), json!({})).await.0, 204);
    let logged_out = |on_connect: bool| {
        move |event: &Event| match event {
            Event::LoggedOut(out) if out.on_connect == on_connect => Some(()),
            _ => None,
        }
    };
    client.event("the log-out", logged_out(false)).await;
    client.ended().await;
    let mut next = TestClient::on(net.chat_address(), store, None).await;
    next.run();
    next.event("the refusal", logged_out(true)).await;
    next.ended().await;
    net.shutdown().await;
}

#[tokio::test]
async fn bans_outdated_versions_and_other_failures_reach_the_client_as_they_are() {
    let (net, control, mut client) = paired().await;
    let store = client.store.clone();
    client.client.disconnect().await;
    client.ended().await;
    let until = model::time::Timestamp::now().plus(std::time::Duration::from_secs(3_600)).to_iso();
    control.post(&format!("/phones/{CHANNEL}/ban"), json!({ "until": until })).await;
    let mut banned = TestClient::on(net.chat_address(), store.clone(), None).await;
    banned.run();
    let left = banned.event("a ban", |event| match event {
        Event::TemporaryBan(ban) => Some(ban.expire.num_seconds()),
        _ => None,
    });
    assert!((3_500..=3_600).contains(&left.await));
    banned.ended().await;

    let (net, control, mut client) = paired().await;
    let store = client.store.clone();
    client.client.disconnect().await;
    client.ended().await;
    control.faults(json!({ "refuse_logins": "version" })).await;
    let mut outdated = TestClient::on(net.chat_address(), store.clone(), None).await;
    outdated.run();
    outdated.event("an outdated client", |event| matches!(event, Event::ClientOutdated(_)).then_some(())).await;
    outdated.ended().await;
    control.call("DELETE", "/faults", None).await;
    for (reason, as_told) in
        [(403, ConnectFailureReason::AccountLocked), (503, ConnectFailureReason::ServiceUnavailable)]
    {
        let path = format!("/devices/{CHANNEL}/1/failure");
        assert_eq!(control.post(&path, json!({ "reason": reason })).await.0, 204);
        let mut refused = TestClient::on(net.chat_address(), store.clone(), None).await;
        refused.run();
        let told = refused.event("the reason", |event| match event {
            Event::ConnectFailure(failure) => Some(failure.reason),
            Event::LoggedOut(out) => Some(out.reason),
            _ => None,
        });
        assert_eq!(told.await, as_told);
        assert_eq!(control.call("DELETE", &path, None).await.0, 204);
    }
    let mut back = TestClient::on(net.chat_address(), store, None).await;
    back.log_in().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_connection_can_be_cut_and_a_stream_error_sent() {
    let (net, control, mut client) = paired().await;
    assert_eq!(control.post(&format!("/devices/{CHANNEL}/1/cut"), json!({})).await.0, 204);
    client.ended().await;
    let logins = control.get("/logins").await;
    assert_eq!(logins["data"][0]["end"], "lost");
    client.log_in().await;
    assert_eq!(control.post(&format!("/devices/{CHANNEL}/1/stream-error"), json!({ "code": 503 })).await.0, 204);
    client.ended().await;
    assert_eq!(control.post(&format!("/devices/{CHANNEL}/1/cut"), json!({})).await.0, 400);
    assert_eq!(control.post(&format!("/devices/{CHANNEL}/9/cut"), json!({})).await.0, 404);
    net.shutdown().await;
}
