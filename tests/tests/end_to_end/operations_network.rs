//! Network operations without an answer, while a channel recovers, and when the owner dies: each is executed once, and
//! its changes are reported once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::scene::{SOON, Scene};
use tests::tenant::{CONNECT, wait_status};
use tests::wait::{check, eventually, seconds};

fn group(scene: &Scene, subject: &str) -> Value {
    json!({ "subject": subject, "participants": [scene.peer] })
}

/// The groups that the peer's phone is in.
async fn groups_of_peer(scene: &Scene) -> Vec<Value> {
    let groups = scene.simulator.api().get(&scene.phone_path("/groups")).await.expect(200);
    groups["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_waits_for_the_channel_and_the_network_as_long_as_it_may() {
    let scene = Scene::on(&Cluster::start(Options::default()).await, json!({})).await;
    let path = scene.path("/groups");
    let restart = async |login_delay_ms: u64| {
        scene.simulator.faults(json!({ "login_delay_ms": login_delay_ms })).await;
        scene.api.act(&scene.path("/restart")).await.expect(202);
        Instant::now()
    };

    // A channel that recovers in time.
    restart(1500).await;
    scene.api.post(&path, group(&scene, "waited for")).await.expect(201);
    // A channel that does not.
    let began = restart(20_000).await;
    let late = scene.api.post(&path, group(&scene, "given up")).await;
    assert_eq!(late.expect_error(409, "not_connected")["status"], "connecting");
    assert_eq!(late.retry_after(), 2);
    assert!((seconds(4)..seconds(12)).contains(&began.elapsed()), "{:?}", began.elapsed());
    restart(0).await;

    // The network executes the operation, and does not answer.
    scene.simulator.faults(json!({ "mute_operations": true })).await;
    let began = Instant::now();
    let silent = scene.api.post(&path, group(&scene, "unanswered")).await;
    assert_eq!(silent.expect_error(502, "other")["upstream"], "timeout");
    assert!((seconds(20)..seconds(30)).contains(&began.elapsed()), "{:?}", began.elapsed());
    scene.simulator.clear_faults().await;
    let subjects: Vec<String> = groups_of_peer(&scene).await.iter().map(|group| string(&group["subject"])).collect();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert!(!subjects.contains(&"given up".to_owned()), "{subjects:?}");
    // Its changes are reported all the same.
    scene.event("group.created", "unanswered", |data| data["group"]["subject"] == "unanswered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_channel_that_is_deleted_is_told_at_once_that_it_is_gone() {
    let scene = Scene::on(&Cluster::start(Options::nodes(1)).await, json!({})).await;
    let pairing = format!("/v1/channels/{}", scene.tenant.channel("Never paired").await);
    // No session can be opened.
    scene.simulator.faults(json!({ "cut_node": [1] })).await;
    wait_status(&scene.api, &scene.channel.id, "reconnecting", CONNECT).await;
    let (groups, restart, own) = (scene.path("/groups"), scene.path("/restart?wait=30"), scene.path(""));
    let qr = format!("{pairing}/qr");
    let began = Instant::now();
    let (held, operated, shown, first, second) = tokio::join!(
        scene.api.act(&restart),
        scene.api.post(&groups, group(&scene, "too late")),
        scene.api.get(&qr),
        scene.api.delete(&own),
        scene.api.delete(&pairing),
    );
    first.expect(204);
    second.expect(204);
    // The restart succeeds if it came before the delete.
    assert!(matches!(held.status, 202 | 404), "{}", held.text());
    operated.expect_error(404, "channel_not_found");
    shown.expect_error(404, "channel_not_found");
    assert!(began.elapsed() < seconds(5), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_is_done_once_and_notices_are_told_once_over_the_death_of_the_owner() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::on(&cluster, json!({})).await;

    // The owner dies after the network has executed the operation and before the answer.
    scene.simulator.faults(json!({ "mute_operations": true })).await;
    let (api, path, body) = (scene.api.clone(), scene.path("/groups"), group(&scene, "made once"));
    let asked = tokio::spawn(async move { api.post(&path, body).await });
    eventually("the network has made the group", SOON, async || {
        let groups = groups_of_peer(&scene).await;
        check(groups.len() == 1, format!("{groups:?}"))
    })
    .await;
    let victim = scene.owner().await;
    cluster.kill(victim);
    scene.simulator.clear_faults().await;
    let made = asked.await.unwrap().expect(201);
    assert_eq!(made["subject"], "made once");
    let id = string(&made["id"]);
    assert_eq!(groups_of_peer(&scene).await.len(), 1);
    scene.event("group.created", &id, |data| data["group"]["id"] == id.as_str()).await;

    // Others change the group while owners die, and the network holds back all acknowledgements.
    scene.simulator.faults(json!({ "hold_inbound_acks": true })).await;
    let settings = json!({ "reject_calls": true, "reject_call_message": "Please write instead." });
    scene.api.patch(&scene.path("/settings"), settings).await.expect(200);
    let call = json!({ "to": scene.channel.number });
    let call = scene.simulator.api().post(&scene.phone_path("/calls"), call).await.expect(201)["call_id"].clone();
    scene.event("call.terminated", "rejected", |data| data["call_id"] == call).await;
    let promote = json!({ "action": "promote", "participants": [scene.peer] });
    scene.api.post(&scene.path(&format!("/groups/{id}/participants")), promote).await.expect(200);
    let rename = async |n: usize| {
        let path = scene.phone_path(&format!("/groups/{id}/subject"));
        scene.simulator.api().put(&path, json!({ "subject": format!("name {n}") })).await.expect(200);
    };
    let told = async |n: usize| {
        let name = format!("name {n}");
        scene.event("group.updated", &name, |data| data["changes"]["subject"] == name.as_str()).await;
    };
    cluster.restart(&[victim]).await;
    for n in 0..5 {
        rename(n).await;
    }
    told(2).await;
    let victim = scene.owner().await;
    cluster.kill(victim);
    for n in 5..10 {
        rename(n).await;
    }
    told(9).await;
    scene.simulator.clear_faults().await;
    cluster.restart(&[victim]).await;
    let api = scene.tenant.api(cluster.running_node());
    let shown = api.get(&scene.path(&format!("/groups/{id}"))).await.expect(200);
    assert_eq!(shown["subject"], "name 9");
    // A second report would have come with the redelivery before the last message.
    told_once(&scene, 10).await;
    assert_eq!((scene.told("group.created"), scene.told("group.admin_promoted")), (1, 1));
    // Each owner heard of the call, and it was answered once.
    let inbox = scene.simulator.inbox(&scene.peer).await;
    let texts: Vec<_> = inbox.iter().map(|row| (&row["text"], &row["copies"])).collect();
    assert_eq!(texts, [(&json!("Please write instead."), &json!(1))]);
    assert_eq!((scene.told("call.offered"), scene.told("call.terminated")), (1, 1));
}

/// Waits until `count` changes were reported, and asserts that the next session reports no more.
async fn told_once(scene: &Scene, count: usize) {
    let api = scene.tenant.api(scene.tenant.cluster.running_node());
    api.act(&scene.path("/restart")).await.expect(202);
    tests::tenant::wait_status(&api, &scene.channel.id, "connected", SOON).await;
    let body = json!({ "to": scene.channel.number, "type": "text", "text": "the last thing" });
    scene.simulator.api().post(&scene.phone_path("/messages"), body).await.expect(201);
    scene.event("message.received", "the last thing", |data| data["body"]["text"] == "the last thing").await;
    eventually("all are told", Duration::from_secs(30), async || {
        let told = scene.told("group.updated");
        check(told == count, format!("{told} of {count}"))
    })
    .await;
}
