//! Metrics of a node's driver: sessions, logins and their results, refusals, and requests to resend messages.

use serde_json::json;
use tests::tenant::{CONNECT, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

use crate::cluster;
use crate::metrics::becomes;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_log_ins_refusals_and_repeats_are_counted() {
    let cluster = cluster(1).await;
    let tenant = Tenant::new(&cluster).await;
    let (network, api, friend) = (tenant.simulator(), tenant.any(), number());
    network.phone(&friend, json!({})).await;
    let is_there = |count: f64| count >= 1.0;
    for result in ["ok", "transport", "client_outdated"] {
        let series = format!(r#"gateway_whatsapp_logins_total{{result="{result}"}}"#);
        becomes(&cluster, &series, |count| count == 0.0).await;
    }
    let channel = tenant.paired("measured").await;
    becomes(&cluster, "gateway_whatsapp_sessions", |count| count == 1.0).await;
    becomes(&cluster, r#"gateway_whatsapp_logins_total{result="ok"}"#, is_there).await;
    becomes(&cluster, "gateway_whatsapp_log_batches_total", is_there).await;
    becomes(&cluster, "gateway_whatsapp_log_batch_bytes_count", is_there).await;
    becomes(&cluster, "gateway_whatsapp_barrier_seconds_count", is_there).await;
    becomes(&cluster, "gateway_whatsapp_auth_bytes", is_there).await;

    let send = async |words: &str| api.post(&channel.path("/messages"), text(&friend, words)).await;
    let is_read = async |id: &str| {
        eventually(&format!("{id} is read"), CONNECT, async || {
            let rows = network.inbox(&friend).await;
            check(rows.iter().any(|row| row["id"] == id), format!("{rows:?}"))
        })
        .await;
    };
    network.faults(json!({ "nack": { "code": 479, "pct": 100 } })).await;
    send("not as it should be").await;
    becomes(&cluster, r#"gateway_whatsapp_refused_total{code="479"}"#, is_there).await;
    network.clear_faults().await;

    // The phone cannot read the next message and asks for it again; then the channel does the same.
    let first = send("hello").await.expect(202);
    is_read(first["message_id"].as_str().unwrap()).await;
    let settled = network.text(&friend, &channel.number, "so that the session is settled", 1).await.remove(0);
    eventually("the session is settled", CONNECT, async || {
        let rows = api.get(&channel.path(&format!("/messages?message_id={settled}"))).await.expect(200);
        check(!rows["data"][0].is_null(), rows.to_string())
    })
    .await;
    let forget = format!("/phones/{friend}/forget-session");
    network.api().post(&forget, json!({ "with": channel.number })).await.expect(204);
    let again = send("again, please").await.expect(202);
    is_read(again["message_id"].as_str().unwrap()).await;
    becomes(&cluster, r#"gateway_whatsapp_retry_receipts_total{direction="in"}"#, is_there).await;
    network.api().post(&format!("/phones/{friend}/corrupt"), json!({ "to": channel.number })).await.expect(204);
    network.text(&friend, &channel.number, "damaged on its way", 1).await;
    becomes(&cluster, "gateway_whatsapp_undecryptable_total", is_there).await;
    becomes(&cluster, r#"gateway_whatsapp_retry_receipts_total{direction="out"}"#, is_there).await;

    // A refused login leaves no session behind.
    network.faults(json!({ "refuse_logins": "transport" })).await;
    network.api().post(&format!("/devices/{}/1/cut", channel.number), json!({})).await.expect(204);
    wait_status(&api, &channel.id, "reconnecting", CONNECT).await;
    becomes(&cluster, r#"gateway_whatsapp_logins_total{result="transport"}"#, is_there).await;
    network.clear_faults().await;
    wait_status(&api, &channel.id, "connected", seconds(60)).await;
    becomes(&cluster, "gateway_whatsapp_sessions", |count| count == 1.0).await;
    becomes(&cluster, "gateway_whatsapp_inbox_rows", |count| count == 0.0).await;
}
