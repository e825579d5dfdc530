//! The owner dies at each step of the driver, during sends and received messages. The storm's proofs hold after each.

use std::collections::BTreeSet;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::wait_gone;
use tests::http::{string, try_answer};
use tests::wait::{check, eventually, seconds};

use crate::cluster;
use crate::storm::Storm;

const CHANNELS: usize = 4;

/// A channel's sends around each death.
const EACH: usize = 8;

/// How an owner is brought to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Sends and received messages.
    Storm,
    /// Received messages with slow commits: rows of uncommitted messages go to the log.
    SlowCommits,
    LogIn,
    /// The network reports that no one-time prekey of the channel is left.
    NoPrekeys,
    /// A login of a device whose signed prekey is a week old.
    Week,
    /// A send to a group whose members have not got a key yet.
    NewGroup,
}

/// The steps that the acceptance tests name, except one: nothing here makes a patch of the app state. Each has the way
/// to reach it, its failpoint, and how often that is passed before the owner dies.
const STEPS: [(&str, By, &str, &[usize]); 19] = [
    ("lease raised and not committed", By::Storm, "whatsapp::lease_raised", &[0, 1]),
    ("committed and not written", By::Storm, "whatsapp::lease_committed", &[0, 1]),
    ("written and not acked", By::Storm, "whatsapp::message_written", &[0, 4]),
    ("pending row stored", By::SlowCommits, "whatsapp::pending_stored", &[0]),
    ("hook before its commit", By::Storm, "whatsapp::before_hook", &[0, 2]),
    ("hook after its commit", By::Storm, "whatsapp::after_hook", &[0, 2]),
    ("prekeys stored and not uploaded", By::NoPrekeys, "whatsapp::prekeys_stored", &[0]),
    ("prekeys uploaded and not marked", By::NoPrekeys, "whatsapp::prekeys_uploaded", &[0]),
    ("rotation: the next key stored and not uploaded", By::Week, "whatsapp::signed_prekey_stored", &[0]),
    ("rotation: uploaded, the device not committed", By::Week, "whatsapp::signed_prekey_taken", &[0]),
    ("rotation: the device committed", By::Week, "whatsapp::signed_prekey_promoted", &[0]),
    ("sender key made and not committed", By::NewGroup, "whatsapp::sender_key_made", &[0]),
    ("sender key made and committed", By::NewGroup, "whatsapp::sender_key_committed", &[0]),
    ("SKDM sent", By::NewGroup, "whatsapp::sender_key_sent", &[0]),
    // In addition: any writes of rows or bytes, and a login.
    ("any rows not committed", By::Storm, "whatsapp::before_commit", &[9]),
    ("any rows committed", By::Storm, "whatsapp::after_commit", &[9]),
    ("any bytes not written", By::Storm, "whatsapp::before_write", &[11]),
    ("any bytes written", By::Storm, "whatsapp::after_write", &[11]),
    ("before a log-in", By::LogIn, "whatsapp::dial", &[0]),
];

async fn arm(storm: &Storm, node: u64, failpoint: &str, actions: &str) {
    let operator = storm.cluster.operator(node, &storm.tenant.client);
    let arm = operator.request(Method::PUT, &format!("/v1/admin/failpoints/{failpoint}"));
    // The node may die before it answers.
    if let Ok(answer) = try_answer(arm.json(&json!({ "actions": actions }))).await {
        answer.expect(204);
    }
}

/// How often a node died at a failpoint, according to its log.
fn deaths(log: &Path, failpoint: &str) -> usize {
    let log = std::fs::read(log).unwrap();
    String::from_utf8_lossy(&log).matches(&format!("died at {failpoint}")).count()
}

/// Asserts that each failpoint of the driver is a step.
async fn assert_none_is_left_out(storm: &Storm) {
    let operator = storm.cluster.operator(storm.cluster.running_node(), &storm.tenant.client);
    let listed = operator.get("/v1/admin/failpoints").await.expect(200);
    let names = listed["data"].as_array().unwrap().iter().map(|row| string(&row["name"]));
    let of_driver: BTreeSet<String> = names.filter(|name| name.starts_with("whatsapp::")).collect();
    let steps: BTreeSet<String> = STEPS.iter().map(|(_, _, failpoint, _)| (*failpoint).to_owned()).collect();
    assert_eq!(of_driver, steps);
}

/// The network's view of a channel's device.
async fn device(storm: &Storm, channel: usize) -> Value {
    let path = format!("/devices/{}", storm.channels[channel].number);
    storm.tenant.simulator().api().get(&path).await.expect(200)["data"][0].clone()
}

/// Waits until each shard is led by its intended leader; until then leadership may move away from the failpoint.
async fn wait_for_leaders(storm: &Storm) {
    let operator = storm.cluster.operator(storm.cluster.running_node(), &storm.tenant.client);
    eventually("the leads are where they should be", seconds(60), async || {
        let shards = operator.get("/v1/admin/shards").await.expect(200);
        let rows = shards["data"].as_array().unwrap();
        let is_there = |row: &Value| row["wanted_leader"].is_null() || row["leader"] == row["wanted_leader"];
        check(rows.iter().all(is_there), shards.to_string())
    })
    .await;
}

async fn die(storm: &Storm, channel: usize, by: By, failpoint: &str, passed: usize) {
    wait_for_leaders(storm).await;
    if by == By::NewGroup {
        storm.regroup(channel).await;
    }
    let victim = storm.owner(channel).await;
    let node = storm.cluster.node(victim);
    let (pid, before) = (node.pid, deaths(&node.log, failpoint));
    let actions = if passed == 0 { "1*return".to_owned() } else { format!("{passed}*off->1*return") };
    println!("{failpoint} after {passed}: node {victim} is to die");
    match by {
        By::SlowCommits => arm(storm, victim, "inbound::before_commit", "sleep(60)").await,
        By::Week => arm(storm, victim, "due::signed_prekey", "return").await,
        By::Storm | By::LogIn | By::NoPrekeys | By::NewGroup => {}
    }
    arm(storm, victim, failpoint, &actions).await;
    let strike = async {
        let of = &storm.channels[channel];
        match by {
            By::Storm | By::SlowCommits | By::NewGroup => {}
            By::LogIn | By::Week => {
                let restart = storm.tenant.api(victim).request(Method::POST, &of.path("/restart"));
                let _ = try_answer(restart).await;
            }
            By::NoPrekeys => {
                let spend = format!("/devices/{}/1/spend-prekeys", of.number);
                storm.tenant.simulator().api().post(&spend, json!({})).await.expect(204);
            }
        }
        tokio::task::spawn_blocking(move || wait_gone(pid, seconds(60))).await.unwrap();
        // This uses the prekeys that the network had until then.
        storm.meet(channel).await;
        storm.cluster.restart(&[victim]).await;
    };
    futures::join!(storm.rage(EACH), strike);
    assert_eq!(deaths(&node.log, failpoint), before + 1, "node {victim} died elsewhere than at {failpoint}");
    storm.meet(channel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_dies_at_any_step_of_the_driver_loses_and_doubles_nothing_and_uses_no_key_twice() {
    let cluster = cluster(3).await;
    let count: usize = STEPS.iter().map(|(_, _, _, passed)| passed.len()).sum();
    let storm = Storm::gather(&cluster, CHANNELS, EACH * count).await;
    assert_none_is_left_out(&storm).await;
    let mut round = 0;
    for (step, by, failpoint, all_passed) in STEPS {
        for passed in all_passed {
            let channel = round % CHANNELS;
            let signed_prekey = device(&storm, channel).await["signed_prekey_id"].as_u64();
            die(&storm, channel, by, failpoint, *passed).await;
            // The next owner has finished what the former one did not.
            eventually(&format!("after {step:?}: the network has the channel's keys"), seconds(60), async || {
                let now = device(&storm, channel).await;
                let is_rotated = by != By::Week || now["signed_prekey_id"].as_u64() > signed_prekey;
                check(is_rotated && now["prekeys_left"] != 0, now.to_string())
            })
            .await;
            round += 1;
        }
        storm.prove().await;
        println!("{step}: nothing is lost");
    }
}
