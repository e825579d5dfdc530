//! Measures the costs of sessions, without a verdict. Run `--ignored numbers` on an idle machine, once as it is and
//! once with `NETWORK=simulated`. `NUMBERS_CHANNELS` and `NUMBERS_SECONDS` set the size.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::iter;
use reqwest::Method;
use serde_json::json;
use tests::cluster::Cluster;
use tests::http::try_answer;
use tests::simulator::Simulator;
use tests::tenant::{Paired, Tenant, number, pair_within, text};
use tests::wait::{check, eventually, seconds};

use crate::cluster;
use crate::storm::setting;

/// Concurrent pairings and conversations.
const AT_ONCE: usize = 4;

/// Concurrent senders, each with one request at a time.
const SENDERS: usize = 32;

/// Channels that get conversations, and the number of these for each.
const TALKERS: usize = 5;
const CHATS: usize = 200;

/// How long sessions rest before they count as idle.
const REST: Duration = seconds(60);

/// The longest duration of any step.
const PATIENCE: Duration = seconds(180);

fn pids(cluster: &Cluster) -> Vec<i32> {
    cluster.dev().nodes.iter().map(|node| node.pid).collect()
}

/// Resident memory of all nodes, in KiB.
fn memory(cluster: &Cluster) -> f64 {
    let of_one = |pid: &i32| -> f64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    };
    pids(cluster).iter().map(of_one).sum()
}

/// Processor time of all nodes, in seconds.
fn processor(cluster: &Cluster) -> f64 {
    let of_one = |pid: &i32| -> f64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<f64> =
            stat.rsplit_once(')').unwrap().1.split(' ').filter_map(|field| field.parse().ok()).collect();
        // User and system time, in hundredths of a second.
        (fields[10] + fields[11]) / 100.0
    };
    pids(cluster).iter().map(of_one).sum()
}

/// Bytes of entries in the logs of all nodes.
async fn log_bytes(tenant: &Tenant) -> f64 {
    let mut sum = 0.0;
    for node in tenant.cluster.node_ids() {
        let metrics = tenant.cluster.operator(node, &tenant.client).get("/metrics").await.text();
        let lines = metrics.lines().filter(|line| line.starts_with("raft_log_entry_bytes_total"));
        sum += lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>();
    }
    sum
}

/// Like [`Tenant::paired`], for the load that this causes on the machine.
async fn paired(tenant: &Tenant, name: &str) -> Paired {
    let (network, api, number) = (tenant.simulator(), tenant.any(), number());
    network.phone(&number, json!({})).await;
    let id = tenant.channel(name).await;
    pair_within(&api, &network, &id, &number, PATIENCE).await;
    Paired { id, number }
}

async fn write(tenant: &Tenant, channel: &Paired, to: &str) {
    tenant.api(1).post(&channel.path("/messages"), text(to, "hello")).await.expect(202);
}

/// Waits until `count` sessions live on nodes other than `gone`.
async fn wait_for_sessions(network: &Simulator, count: usize, gone: u64) {
    eventually("all sessions are there", PATIENCE, async || {
        let rows = network.api().get("/sessions?limit=10000").await.expect(200);
        let elsewhere = rows["data"].as_array().unwrap().iter().filter(|row| row["node"] != gone).count();
        check(elsewhere == count, elsewhere.to_string())
    })
    .await;
}

async fn idle(cluster: &Cluster, length: Duration) -> f64 {
    let before = processor(cluster);
    // The duration of the measurement, not a wait for a condition.
    tokio::time::sleep(length).await;
    (processor(cluster) - before) / length.as_secs_f64()
}

/// Accepted sends per second, and bytes of one node's log for each.
async fn sends(tenant: &Tenant, channels: &[Paired], friend: &str, length: Duration) -> (f64, f64) {
    let (network, next) = (tenant.simulator(), AtomicUsize::new(0));
    let nodes = tenant.cluster.node_ids();
    let sender = |n: usize| {
        let (nodes, next, end) = (&nodes, &next, Instant::now() + length);
        async move {
            while Instant::now() < end {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let channel = &channels[at % channels.len()];
                let api = tenant.api(nodes[(at + n) % nodes.len()]);
                let request = api.request(Method::POST, &channel.path("/messages"));
                try_answer(request.json(&text(friend, "hello"))).await.unwrap().expect(202);
            }
        }
    };
    let (began, before, bytes) = (Instant::now(), network.stat("accepted").await, log_bytes(tenant).await);
    futures::future::join_all((0..SENDERS).map(sender)).await;
    let taken = next.load(Ordering::Relaxed) as u64;
    eventually("all are accepted", PATIENCE, async || {
        let accepted = network.stat("accepted").await - before;
        check(accepted >= taken, format!("{accepted} of {taken}"))
    })
    .await;
    let took = began.elapsed().as_secs_f64();
    let per_send = (log_bytes(tenant).await - bytes) / taken as f64 / nodes.len() as f64;
    (taken as f64 / took, per_send)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures, and judges nothing"]
async fn numbers_of_sessions() {
    let count = setting("NUMBERS_CHANNELS", 300);
    let length = seconds(setting("NUMBERS_SECONDS", 60) as u64);
    let cluster = cluster(3).await;
    let tenant = Tenant::new(&cluster).await;
    let network = tenant.simulator();
    let (empty_memory, empty_processor) = (memory(&cluster), idle(&cluster, length).await);
    println!("no session: {:.0} MiB, {:.1} % of a core", empty_memory / 1_024.0, 100.0 * empty_processor);

    let paired = iter(0..count).map(|n| {
        let tenant = &tenant;
        async move { paired(tenant, &format!("Channel {n}")).await }
    });
    let channels: Vec<Paired> = paired.buffer_unordered(AT_ONCE).collect().await;
    let grown = |now: f64| (now - empty_memory) / count as f64;
    println!("{count} sessions that were just paired: {:.0} KiB each", grown(memory(&cluster)));

    // Restarting the processes frees the memory that pairings left.
    let nodes = cluster.node_ids();
    cluster.kill_all(&nodes);
    let began = Instant::now();
    cluster.restart(&nodes).await;
    wait_for_sessions(&network, count, 0).await;
    println!("all nodes were killed: all sessions are back {:.1} s later", began.elapsed().as_secs_f64());
    // Work after the logins finishes in this pause; its duration is fixed.
    tokio::time::sleep(REST).await;
    let busy = idle(&cluster, length).await;
    println!(
        "{count} idle sessions after a restart: {:.0} KiB each, {:.1} % of a core for all",
        grown(memory(&cluster)),
        100.0 * (busy - empty_processor)
    );

    let friend = number();
    network.phone(&friend, json!({ "online": false })).await;
    // The first message of each channel is not measured.
    let first = iter(&channels).map(|channel| write(&tenant, channel, &friend));
    first.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    let (rate, bytes) = sends(&tenant, &channels, &friend, length).await;
    println!("{SENDERS} senders to somebody known: {rate:.0} accepted a second, {bytes:.0} bytes of log each");

    let people = 391_000_000_000_u64 + rand::random_range(0..1_000_000) * 10_000;
    network.phones(&people.to_string(), CHATS).await;
    let before = memory(&cluster);
    let talks = channels.iter().take(TALKERS).flat_map(|channel| (0..CHATS as u64).map(move |n| (channel, people + n)));
    let talks = iter(talks).map(|(channel, person)| {
        let (tenant, network) = (&tenant, &network);
        async move {
            write(tenant, channel, &person.to_string()).await;
            network.text(&person.to_string(), &channel.number, "and you?", 1).await;
        }
    });
    talks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    let wanted = TALKERS * CHATS;
    eventually("all has come", PATIENCE, async || {
        let inbound = tenant.any().get(&channels[TALKERS - 1].path("/messages?direction=inbound&limit=1")).await;
        check(inbound.status == 200, inbound.text())
    })
    .await;
    println!(
        "{CHATS} conversations of a channel: {:.0} KiB more ({wanted} of them)",
        (memory(&cluster) - before) / TALKERS as f64
    );

    let victim = tenant.owner(1, &channels[0].id).await.node;
    let mut owned = Vec::new();
    for channel in &channels {
        if tenant.owner(1, &channel.id).await.node == victim {
            owned.push(channel.clone());
        }
    }
    let survivor = cluster.node_ids().into_iter().find(|node| *node != victim).unwrap();
    let began = Instant::now();
    cluster.kill(victim);
    let api = tenant.api(survivor);
    let first = async {
        loop {
            let request = api.request(Method::POST, &owned[0].path("/messages"));
            if try_answer(request.json(&text(&friend, "after"))).await.is_ok_and(|answer| answer.status == 202) {
                return began.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let all = async {
        wait_for_sessions(&network, count, victim).await;
        began.elapsed()
    };
    let (first, all) = futures::join!(first, all);
    println!(
        "the owner of {} sessions is killed: first 202 after {:.1} s, all sessions back after {:.1} s",
        owned.len(),
        first.as_secs_f64(),
        all.as_secs_f64()
    );
}
