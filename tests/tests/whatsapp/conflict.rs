//! Actions of the network against a channel: its session is replaced, its device unlinked, its number banned.

use serde_json::json;
use tests::tenant::{CONNECT, Tenant, text, wait_status};
use tests::wait::{check, eventually, seconds};

use crate::cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_is_replaced_comes_back_and_one_that_is_unlinked_banned_or_outdated_says_so() {
    let cluster = cluster(1).await;
    let tenant = Tenant::new(&cluster).await;
    let (network, api) = (tenant.simulator(), tenant.any());

    let unlinked = tenant.paired("unlinked").await;
    network.api().post(&format!("/phones/{}/unlink", unlinked.number), json!({})).await.expect(204);
    wait_status(&api, &unlinked.id, "logged_out", CONNECT).await;
    tests::tenant::pair(&api, &network, &unlinked.id, &unlinked.number).await;

    // The session of a logged-out channel still unlinks its device, although its writes are no longer kept.
    let left = tenant.paired("left").await;
    api.post(&left.path("/messages"), text(&unlinked.number, "a last word")).await.expect(202);
    api.act(&left.path("/logout")).await.expect(202);
    wait_status(&api, &left.id, "logged_out", CONNECT).await;
    eventually("its phone lists no device", CONNECT, async || {
        let phone = network.get_phone(&left.number).await;
        check(phone["devices"] == json!([]), phone.to_string())
    })
    .await;

    let banned = tenant.paired("banned").await;
    network.api().post(&format!("/phones/{}/ban", banned.number), json!({})).await.expect(204);
    wait_status(&api, &banned.id, "failed", CONNECT).await;

    let outdated = tenant.paired("outdated").await;
    network.faults(json!({ "refuse_logins": "version" })).await;
    network.api().post(&format!("/devices/{}/1/cut", outdated.number), json!({})).await.expect(204);
    wait_status(&api, &outdated.id, "error", CONNECT).await;
    network.clear_faults().await;

    let away = tenant.paired("away").await;
    network.faults(json!({ "refuse_logins": "transport" })).await;
    network.api().post(&format!("/devices/{}/1/cut", away.number), json!({})).await.expect(204);
    wait_status(&api, &away.id, "reconnecting", CONNECT).await;
    let sent = api.post(&away.path("/messages"), text(&unlinked.number, "meanwhile")).await.expect(202);
    network.clear_faults().await;
    wait_status(&api, &away.id, "connected", seconds(60)).await;
    eventually("what was taken meanwhile goes out", CONNECT, async || {
        let ledger = network.ledger_by_id().await;
        check(ledger.contains_key(sent["message_id"].as_str().unwrap()), ledger.len().to_string())
    })
    .await;

    // A login that is refused temporarily ends nothing.
    let refused = tenant.paired("refused").await;
    let failure = format!("/devices/{}/1/failure", refused.number);
    network.api().post(&failure, json!({ "reason": 503 })).await.expect(204);
    network.api().post(&format!("/devices/{}/1/cut", refused.number), json!({})).await.expect(204);
    wait_status(&api, &refused.id, "reconnecting", CONNECT).await;
    network.api().delete(&failure).await.expect(204);
    wait_status(&api, &refused.id, "connected", seconds(60)).await;

    let replaced = tenant.paired("replaced").await;
    let replace = format!("/phones/{}/replace", replaced.number);
    network.api().post(&replace, json!({})).await.expect(204);
    wait_status(&api, &replaced.id, "disconnected", CONNECT).await;
    // A channel whose session was replaced waits for thirty seconds, and retries once.
    wait_status(&api, &replaced.id, "connected", seconds(60)).await;
    network.api().post(&replace, json!({})).await.expect(204);
    wait_status(&api, &replaced.id, "error", CONNECT).await;
    let history = api.get(&replaced.path("/status-history?limit=1")).await.expect(200);
    assert_eq!(history["data"][0]["reason"], "stream_replaced_loop", "{history}");
}
