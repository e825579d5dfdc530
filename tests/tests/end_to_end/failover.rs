//! Nodes are killed, all at once or one by one, or stopped and continued, in the middle of work; nothing is lost,
//! nothing is doubled, and no channel is linked anew.

use std::time::{Duration, Instant};

use crate::storm::Storm;
use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::tenant::Tenant;
use tests::wait::{check, eventually};

const CHANNELS: usize = 20;
/// Per channel and round: 200 sends in all.
const EACH: usize = 10;
/// How many are accepted before the fault strikes.
const UNDER_WAY: usize = 60;

/// From the kill of an owner to the first 202 of each of its channels, generously: the benchmark measures it.
const TAKEN_OVER: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_send_and_no_event_is_lost_when_owners_are_killed_in_the_middle_of_work() {
    let cluster = Cluster::start(Options::default()).await;
    let storm = Storm::gather(&cluster, CHANNELS).await;
    for round in 0..5 {
        let victim = storm.owner(round * 4).await;
        let owned = storm.owned_by(victim).await;
        let before = storm.count();
        let strike = async {
            storm.wait_count(before, UNDER_WAY).await;
            let moment = Instant::now();
            cluster.kill(victim);
            moment
        };
        let ((), moment) = futures::join!(storm.rage(EACH), strike);
        let first = storm.first_since(moment);
        let waits: Vec<_> = owned.iter().filter_map(|channel| first.get(channel)).collect();
        println!("round {round}: node {victim} killed, its {} channels answered after {waits:?}", owned.len());
        for wait in waits {
            assert!(*wait < TAKEN_OVER, "round {round}: {wait:?} without a 202");
        }
        storm.prove(round as u64 + 1).await;
        cluster.restart(&[victim]).await;
    }
    storm.prove(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_all_nodes_are_killed_at_once() {
    let cluster = Cluster::start(Options::default()).await;
    let storm = Storm::gather(&cluster, CHANNELS).await;
    let nodes = cluster.node_ids();
    let strike = async {
        storm.wait_count(0, UNDER_WAY).await;
        cluster.kill_all(&nodes);
        cluster.restart(&nodes).await;
    };
    futures::join!(storm.rage(EACH), strike);
    storm.prove(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stood_still_does_no_harm_when_it_goes_on() {
    let cluster = Cluster::start(Options::default()).await;
    let storm = Storm::gather(&cluster, CHANNELS).await;
    let victim = storm.owner(0).await;
    let strike = async {
        storm.wait_count(0, UNDER_WAY).await;
        cluster.pause(victim);
        // The length of the fault, not a wait for anything.
        tokio::time::sleep(Duration::from_secs(10)).await;
        cluster.resume(victim);
    };
    futures::join!(storm.rage(EACH), strike);
    storm.prove(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_is_cut_off_from_its_peers_says_nothing_of_what_it_owned() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let former = tenant.owner(1, &channel.id).await;
    let look = async |node: u64| {
        let operator = cluster.operator(node, &tenant.client);
        let told = operator.get(&format!("/v1/admin/channels/{}", channel.id)).await;
        if told.status == 200 { (told.json()["node_id"].as_u64(), told.json()["epoch"].as_u64()) } else { (None, None) }
    };
    let operator = cluster.operator(former.node, &tenant.client);
    let wire = "/v1/admin/failpoints/wire::peers";
    operator.put(wire, json!({ "actions": "return" })).await.expect(204);
    let other = cluster.node_ids().into_iter().find(|node| *node != former.node).unwrap();
    eventually("another node owns the channel", TAKEN_OVER, async || {
        let (node, epoch) = look(other).await;
        check(node != Some(former.node) && epoch > Some(former.epoch), format!("node {node:?} in {epoch:?}"))
    })
    .await;
    // It does not hear of its successor, and goes on as the leader that it was.
    let (node, epoch) = look(former.node).await;
    assert_ne!((node, epoch), (Some(former.node), Some(former.epoch)));
    operator.delete(wire).await.expect(204);
    eventually("it knows of its successor", TAKEN_OVER, async || {
        let (_, epoch) = look(former.node).await;
        check(epoch > Some(former.epoch), format!("{epoch:?}"))
    })
    .await;
}
