//! Sends and sessions that are ended.

use std::time::Duration;

use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::tenant::{CONNECT, Tenant, number, wait_status};
use tests::wait::{check, eventually};

use super::Conversation;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_is_ended_fails_with_what_is_known_of_it() {
    // Runs on its own cluster, since faults affect the whole network.
    let cluster = Cluster::start(Options::nodes(1)).await;
    let path = |talk: &Conversation| talk.channel.path("/messages");
    let text = |talk: &Conversation| json!({ "type": "text", "to": talk.peer, "text": "anybody?" });

    // The send has left, and it is unknown whether it was accepted.
    let talk = Conversation::on(&cluster).await;
    talk.simulator.faults(json!({ "drop_before_accept_pct": 100 })).await;
    let sent = talk.api.post(&path(&talk), text(&talk)).await.expect(202);
    assert_eq!(sent["status"], "queued");
    talk.api.act(&talk.channel.path("/disconnect")).await.expect(202);
    let failed = talk.event_with("message.status", &string(&sent["message_id"]), "status", "failed").await;
    assert_eq!(failed["error"]["code"], "outcome_unknown", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("may have accepted"), "{failed}");
    talk.simulator.clear_faults().await;

    // The send has never left, since there was no session.
    let talk = Conversation::on(&cluster).await;
    talk.simulator.faults(json!({ "cut_node": [1] })).await;
    wait_status(&talk.api, &talk.channel.id, "reconnecting", CONNECT).await;
    let sent = talk.api.post(&path(&talk), text(&talk)).await.expect(202);
    assert_eq!(sent["status"], "queued");
    talk.api.act(&talk.channel.path("/disconnect")).await.expect(202);
    let failed = talk.event_with("message.status", &string(&sent["message_id"]), "status", "failed").await;
    assert_eq!(failed["error"]["code"], "channel_unavailable", "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_on_purpose_is_closed_in_order() {
    let talk = Conversation::begin().await;
    let act = async |what: &str, status: &str| {
        talk.api.act(&talk.channel.path(what)).await.expect(202);
        wait_status(&talk.api, &talk.channel.id, status, CONNECT).await;
    };
    act("/restart", "connected").await;
    act("/disable", "disabled_by_admin").await;
    act("/enable", "connected").await;
    act("/disconnect", "stopped_by_user").await;
    act("/connect", "connected").await;
    talk.api.delete(&talk.channel.path("")).await.expect(204);
    let ends = eventually("the last session has ended", super::SOON, async || {
        let logins = talk.simulator.logins(&talk.channel.number).await;
        let ends: Vec<_> = logins.iter().map(|login| login["end"].clone()).collect();
        check(!ends.contains(&json!(null)), format!("{ends:?}")).map(|()| ends)
    })
    .await;
    assert_eq!(ends.len(), 4, "{ends:?}");
    assert!(ends.iter().all(|end| end == "closed"), "{ends:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_unlinks_the_device_of_a_channel_that_is_not_connected_too() {
    // Runs on its own cluster, since faults affect the whole network.
    let cluster = Cluster::start(Options::nodes(1)).await;
    let talk = Conversation::on(&cluster).await;
    for before in ["connected", "stopped_by_user", "connecting"] {
        let channel = talk.tenant.paired("Left").await;
        match before {
            "stopped_by_user" => _ = talk.api.act(&channel.path("/disconnect")).await.expect(202),
            "connecting" => {
                talk.simulator.faults(json!({ "login_delay_ms": 1_000 })).await;
                talk.api.act(&channel.path("/restart")).await.expect(202);
            }
            _ => {}
        }
        let left = talk.api.act(&channel.path("/logout")).await.expect(202);
        assert_eq!(left["status"], "logged_out", "{before}");
        eventually(&format!("the phone of a channel that was {before} lists no device"), super::SOON, async || {
            let phone = talk.simulator.get_phone(&channel.number).await;
            check(phone["devices"] == json!([]), phone.to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_code_that_the_network_refused_costs_no_minute() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let talk = Conversation::on(&cluster).await;
    let channel = talk.tenant.channel("Typed").await;
    let phone = number();
    talk.simulator.phone(&phone, json!({})).await;
    let ask = async || {
        let body = json!({ "phone_number": phone });
        talk.api.post(&format!("/v1/channels/{channel}/pair-code"), body).await
    };
    talk.simulator.faults(json!({ "refuse_pairing": "code" })).await;
    ask().await.expect_error(502, "pair_code_failed");
    talk.simulator.clear_faults().await;
    ask().await.expect(200);
    ask().await.expect_error(429, "rate_limited");
    // A refused request does not start the channel either.
    talk.api.act(&format!("/v1/channels/{channel}/disconnect")).await.expect(202);
    ask().await.expect_error(429, "rate_limited");
    let shown = talk.api.get(&format!("/v1/channels/{channel}")).await.expect(200);
    assert_eq!(shown["status"], "stopped_by_user");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_shown_no_more_once_its_session_has_ended() {
    // Runs on its own cluster, since faults affect the whole network.
    let cluster = Cluster::start(Options::nodes(1)).await;
    let tenant = Tenant::new(&cluster).await;
    let qr = format!("/v1/channels/{}/qr?format=raw", tenant.channel("Scanned").await);
    let shown = tenant.any().get(&qr).await.expect(200);
    tenant.simulator().faults(json!({ "cut_node": [1] })).await;
    // After two seconds the pairing ends, and there would be no code anyway.
    eventually("the code is shown no more", Duration::from_millis(1500), async || {
        let answer = tenant.any().get(&qr).await;
        check(answer.status != 200 || answer.json()["raw"] != shown["raw"], answer.text())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_stands_in_the_history_by_the_time_that_it_is_told() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let talk = Conversation::on(&cluster).await;
    talk.simulator.faults(json!({ "nack": { "code": 400, "pct": 100 } })).await;
    for n in 0..10 {
        let label = format!("refused-{n}");
        let body = json!({ "type": "text", "to": talk.peer, "text": "no", "client_ref": label });
        talk.api.post(&talk.channel.path("/messages"), body).await.expect_error(422, "other");
        let row = talk.api.get(&talk.channel.path(&format!("/messages?client_ref={label}"))).await.expect(200);
        assert_eq!(row["data"][0]["status"], "failed", "{row}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_row_of_a_send_says_what_its_sender_was_told() {
    let talk = Conversation::begin().await;
    for n in 0..40 {
        let body = json!({ "type": "text", "to": talk.peer, "text": format!("{n}") });
        let sent = talk.api.post(&talk.channel.path("/messages"), body).await.expect(202);
        assert_eq!(sent["status"], "sent");
        let id = string(&sent["message_id"]);
        let row = talk.api.get(&talk.channel.path(&format!("/messages?message_id={id}"))).await.expect(200);
        assert_ne!(row["data"][0]["status"], "queued", "send {n}: {row}");
    }
}
