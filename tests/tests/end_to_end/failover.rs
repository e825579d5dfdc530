//! Nodes are killed, one by one or all at once, or paused and resumed, during work: nothing is lost or doubled, and no
//! channel has to be linked again.

use std::time::{Duration, Instant};

use crate::storm::Storm;
use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::{Api, string};
use tests::media::{fetch, path, upload};
use tests::receiver::Receiver;
use tests::tenant::{CONNECT, Paired, Tenant, address, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

const CHANNELS: usize = 20;
/// Sends for each channel and round: 200 in total.
const EACH: usize = 10;
/// Sends that are accepted before the fault.
const UNDER_WAY: usize = 60;

/// From the kill of an owner to the first 202 of each of its channels. A generous bound; the benchmark measures it.
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
        storm.prove().await;
        cluster.restart(&[victim]).await;
    }
    storm.prove().await;
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
    storm.prove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stood_still_does_no_harm_when_it_goes_on() {
    let cluster = Cluster::start(Options::default()).await;
    let storm = Storm::gather(&cluster, CHANNELS).await;
    let victim = storm.owner(0).await;
    let strike = async {
        storm.wait_count(0, UNDER_WAY).await;
        cluster.pause(victim);
        // The duration of the fault, not a wait for a condition.
        tokio::time::sleep(Duration::from_secs(10)).await;
        cluster.resume(victim);
    };
    futures::join!(storm.rage(EACH), strike);
    storm.prove().await;
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
    // The former owner does not hear of its successor, and still believes that it leads.
    let (node, epoch) = look(former.node).await;
    assert_ne!((node, epoch), (Some(former.node), Some(former.epoch)));
    operator.delete(wire).await.expect(204);
    eventually("it knows of its successor", TAKEN_OVER, async || {
        let (_, epoch) = look(former.node).await;
        check(epoch > Some(former.epoch), format!("{epoch:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_followers_have_slow_disks_keeps_its_session() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let (simulator, to) = (tenant.simulator(), number());
    simulator.phone(&to, json!({})).await;
    let owner = tenant.owner(1, &channel.id).await;
    let logins = simulator.logins(&channel.number).await.len();
    let followers = cluster.node_ids().into_iter().filter(|node| *node != owner.node);
    let followers: Vec<_> = followers.map(|node| cluster.operator(node, &tenant.client)).collect();
    let point = "/v1/admin/failpoints/log::before_flush";
    for follower in &followers {
        // Longer than an owner may send to the network without contact to a quorum.
        follower.put(point, json!({ "actions": "sleep(400)" })).await.expect(204);
    }
    let api = tenant.api(owner.node);
    for n in 0..5 {
        let sent = api.post(&channel.path("/messages"), text(&to, &format!("{n}"))).await.expect(202);
        assert_eq!(sent["status"], "sent");
    }
    for follower in &followers {
        follower.delete(point).await.expect(204);
    }
    let now = tenant.owner(owner.node, &channel.id).await;
    assert_eq!((now.node, now.epoch), (owner.node, owner.epoch));
    assert_eq!(simulator.logins(&channel.number).await.len(), logins, "it has logged in again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_whose_caller_has_given_up_before_its_turn_is_not_made() {
    /// Longer than a send takes unless its log entry is held up.
    const HELD_UP: Duration = seconds(3);
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let (simulator, to) = (tenant.simulator(), number());
    simulator.phone(&to, json!({})).await;
    let owner = tenant.owner(1, &channel.id).await;
    let (api, operator) = (tenant.api(owner.node), cluster.operator(owner.node, &tenant.client));
    let point = "/v1/admin/failpoints/commit::before";
    let path = channel.path("/messages");
    // The entry that is held up may be of another shard, so this retries.
    eventually("an entry of the channel's shard is held up", seconds(60), async || {
        operator.put(point, json!({ "actions": "1*pause" })).await.expect(204);
        let sent = tokio::time::timeout(HELD_UP, api.post(&path, text(&to, "held up"))).await;
        check(sent.is_err(), "the send was answered")
    })
    .await;
    let given_up = api.post(&path, text(&to, "given up")).await;
    assert_eq!(given_up.status, 503, "{}", given_up.text());
    operator.delete(point).await.expect(204);
    let last = api.post(&path, text(&to, "the last")).await.expect(202);
    assert_eq!(last["status"], "sent");
    let inbox = simulator.inbox(&to).await;
    assert!(inbox.iter().all(|message| !message.to_string().contains("given up")), "{inbox:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sends_of_a_channel_that_stops_end_before_the_stop_is_answered_though_its_owner_dies_in_between() {
    const SENDS: usize = 60;
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let (simulator, to) = (tenant.simulator(), number());
    simulator.phone(&to, json!({})).await;
    let former = tenant.owner(1, &channel.id).await;
    let other = tenant.api(cluster.node_ids().into_iter().find(|node| *node != former.node).unwrap());

    // No node reaches the network, so sends that are accepted now have certainly not left.
    simulator.faults(json!({ "cut_node": cluster.node_ids() })).await;
    wait_status(&other, &channel.id, "reconnecting", CONNECT).await;
    let mut waiting = Vec::new();
    for n in 0..SENDS {
        let sent = other.post(&channel.path("/messages"), text(&to, &format!("{n}"))).await.expect(202);
        assert_eq!(sent["status"], "queued");
        waiting.push(string(&sent["message_id"]));
    }
    let point = "/v1/admin/failpoints/sends::before_end";
    cluster.operator(former.node, &tenant.client).put(point, json!({ "actions": "return" })).await.expect(204);
    let stopped = other.act(&channel.path("/disconnect")).await.expect(202);
    assert_eq!(stopped["status"], "stopped_by_user");
    tests::cluster::wait_gone(cluster.node(former.node).pid, seconds(10));
    let mut rows = Vec::new();
    for id in &waiting {
        let page = other.get(&channel.path(&format!("/messages?message_id={id}"))).await.expect(200);
        rows.push((page["data"][0]["status"].clone(), page["data"][0]["error"]["code"].clone()));
    }
    assert_eq!(rows, vec![(json!("failed"), json!("channel_unavailable")); SENDS]);

    simulator.clear_faults().await;
    other.act(&channel.path("/connect")).await.expect(202);
    wait_status(&other, &channel.id, "connected", CONNECT).await;
    other.post(&channel.path("/messages"), text(&to, "and on")).await.expect(202);
    eventually("what is sent from now on goes out, and nothing else", CONNECT, async || {
        let ledger = simulator.ledger().await;
        let own: Vec<_> = ledger.iter().filter(|row| row["from"] == channel.address()).collect();
        check(own.len() == 1, format!("{own:?}"))
    })
    .await;
}

/// Lets a channel's owner die at its shard's next commit, before anybody learns of it. Returns another node's API.
async fn about_to_die(tenant: &Tenant, channel: &str) -> Api {
    let owner = tenant.owner(1, channel).await.node;
    let point = "/v1/admin/failpoints/commit::after";
    let operator = tenant.cluster.operator(owner, &tenant.client);
    operator.put(point, json!({ "actions": "return" })).await.expect(204);
    tenant.api(tenant.cluster.node_ids().into_iter().find(|node| *node != owner).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_of_media_that_its_owner_dies_behind_is_answered_as_one() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Files").await;
    let made = upload(&tenant.any(), &channel, "text/plain", b"soon gone".to_vec()).await;
    let own = format!("/v1/channels/{channel}/media/{}", string(&made["id"]));
    let other = about_to_die(&tenant, &channel).await;
    other.delete(&own).await.expect(204);
    other.delete(&own).await.expect_error(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redelivery_that_its_owner_dies_behind_is_answered_as_one() {
    let cluster = Cluster::start(Options::default()).await;
    let (tenant, receiver) = (Tenant::new(&cluster).await, Receiver::start().await);
    tenant.endpoint(&receiver.url("/"), &["channel.connected"], json!({})).await;
    let channel = tenant.paired("Sales").await;
    let delivered = eventually("the event is delivered", seconds(30), async || {
        let page = tenant.any().get("/v1/webhook-deliveries?state=delivered").await.expect(200);
        page["data"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| page.to_string())
    })
    .await;
    let other = about_to_die(&tenant, &channel.id).await;
    let again = other.act(&format!("/v1/webhook-deliveries/{delivered}/redeliver")).await.expect(202);
    assert_eq!(again["id"], json!(delivered));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reaction_that_outlives_its_owner_is_told_of_whole_where_no_bodies_are_stored() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let (simulator, receiver, to) = (tenant.simulator(), Receiver::start().await, number());
    simulator.phone(&to, json!({})).await;
    tenant.endpoint(&receiver.url("/"), &["message.reaction"], json!({})).await;
    let (api, messages) = (tenant.api(1), channel.path("/messages"));
    api.patch(&channel.path("/settings"), json!({ "store_bodies": false })).await.expect(200);
    let sent = api.post(&messages, text(&to, "hello")).await.expect(202);

    simulator.faults(json!({ "cut_node": [1] })).await;
    wait_status(&api, &channel.id, "reconnecting", CONNECT).await;
    let key = json!({ "id": sent["message_id"], "from_me": true, "remote_jid": address(&to) });
    let reaction = json!({ "type": "reaction", "message_key": key, "emoji": "👍" });
    let waiting = api.post(&messages, reaction).await.expect(202);
    assert_eq!(waiting["status"], "queued");
    cluster.kill(1);
    cluster.restart(&[1]).await;
    simulator.clear_faults().await;
    let told = receiver.wait_message("message.reaction", &string(&waiting["message_id"]), seconds(30)).await;
    assert_eq!(told.json()["data"]["emoji"], "👍", "no emoji would say that it was taken back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_does_not_hear_the_directory_makes_no_events_and_keeps_no_session() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let simulator = tenant.simulator();
    let shards = cluster.operator(1, &tenant.client).get("/v1/admin/shards").await.expect(200);
    let groups = shards["data"].as_array().unwrap();
    let leader = groups.iter().find(|group| group["kind"] == "directory").unwrap()["leader"].as_u64().unwrap();
    // Two channels with the same owner, which does not lead the directory: one stays, and one is deleted.
    let mut theirs: Vec<Paired> = Vec::new();
    let mut deaf: Option<u64> = None;
    while theirs.len() < 2 {
        let channel = tenant.paired("Sales").await;
        let node = tenant.owner(1, &channel.id).await.node;
        if node != leader && deaf.is_none_or(|deaf| deaf == node) {
            deaf = Some(node);
            theirs.push(channel);
        }
    }
    let (deaf, [kept, deleted]) = (deaf.unwrap(), [&theirs[0], &theirs[1]]);
    let api = tenant.api(leader);
    let (peer, receiver) = (number(), Receiver::start().await);
    simulator.phone(&peer, json!({})).await;

    let wire = "/v1/admin/failpoints/wire::directory";
    let operator = cluster.operator(deaf, &tenant.client);
    operator.put(wire, json!({ "actions": "return" })).await.expect(204);
    api.delete(&deleted.path("")).await.expect(204);
    let endpoint = json!({ "url": receiver.url("/"), "events": ["message.received"] });
    api.post("/v1/webhook-endpoints", endpoint).await.expect(201);
    let ids = simulator.text(&peer, &kept.number, "after the answer", 1).await;
    receiver.wait_message("message.received", &ids[0], seconds(30)).await;

    eventually("the deleted channel has no session", CONNECT, async || {
        let sessions = simulator.api().get(&format!("/sessions?number={}", deleted.number)).await.expect(200);
        check(sessions["total"] == 0, sessions.to_string())
    })
    .await;
    assert_ne!(tenant.owner(leader, &kept.id).await.node, deaf, "the lead went to who hears");
    wait_status(&api, &kept.id, "connected", CONNECT).await;
    operator.delete(wire).await.expect(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_does_not_hear_the_directory_serves_no_media_of_a_deleted_channel() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let shards = cluster.operator(1, &tenant.client).get("/v1/admin/shards").await.expect(200);
    let groups = shards["data"].as_array().unwrap();
    let leader = groups.iter().find(|group| group["kind"] == "directory").unwrap()["leader"].as_u64().unwrap();
    let (channel, deaf) = loop {
        let channel = tenant.channel("Pictures").await;
        let node = tenant.owner(1, &channel).await.node;
        if node != leader {
            break (channel, node);
        }
    };
    let api = tenant.api(leader);
    let link = path(&upload(&api, &channel, "text/plain", b"hello".to_vec()).await);
    assert_eq!(fetch(&tenant.api(deaf), &link, &[]).await.status, 200);

    let wire = "/v1/admin/failpoints/wire::directory";
    let operator = cluster.operator(deaf, &tenant.client);
    operator.put(wire, json!({ "actions": "return" })).await.expect(204);
    api.delete(&format!("/v1/channels/{channel}")).await.expect(204);
    let answer = fetch(&tenant.api(deaf), &link, &[]).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    operator.delete(wire).await.expect(204);
    eventually("it is gone there, too", seconds(20), async || {
        let answer = fetch(&tenant.api(deaf), &link, &[]).await;
        check(answer.status == 410, answer.text())
    })
    .await;
}
