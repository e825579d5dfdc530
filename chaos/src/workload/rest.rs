//! Waits for the cluster to heal, and for what was promised to arrive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::join;
use futures::stream::{self, StreamExt};
use reqwest::Method;
use serde_json::Value;
use tests::http::try_answer;

use super::cast::{Cast, api};
use super::client::{Shared, is_ready};
use super::sends::send;
use crate::history::record::Channel;
use crate::history::{At, LedgerRow, Liveness, Outcome};
use crate::world::map::Place;

const LOOK: Duration = Duration::from_millis(250);
/// Timeout of a single request.
const PATIENCE: Duration = Duration::from_secs(5);
/// A send without acceptance is written again after ten seconds, and again after twenty.
const ACCEPTED: Duration = Duration::from_secs(60);
/// A delivery that failed twice waits 15 s ± 20% for its third attempt, and an open circuit breaker lets one through
/// after 30 s. Deliveries that failed more often remain waiting, and are noted.
const DELIVERED: Duration = Duration::from_secs(35);
/// While deliveries end one after the other, those left have not had their turn, however long they have been due.
const STANDSTILL: Duration = Duration::from_secs(3);

/// Channels that are queried at the same time; only very large runs have more.
const AT_ONCE: usize = 64;
/// Channels whose sends are tried.
const TRIED: usize = 100;

/// Waits until every channel is connected and accepts sends, and every node is ready and accepts sends. All are watched
/// at the same time, so that one that hangs delays no other.
pub async fn heal(shared: &Arc<Shared>, cast: &Cast, since: At, bound: Duration) -> Liveness {
    let (nodes, deadline, all) = (shared.map().nodes, since.plus(bound), &cast.stage.channels);
    let connected =
        all.iter().map(async |channel| (channel.id.clone(), connected(shared, cast, channel, deadline).await));
    // With very many channels a sample is tried: a send of each would take longer than the time to heal.
    let every = all.len().div_ceil(TRIED);
    let tried = all.iter().step_by(every.max(1));
    let sending = tried.map(async |channel| (channel.id.clone(), sends(shared, cast, channel, &nodes, deadline).await));
    let first = cast.channels_of(&cast.main).next();
    let through = nodes.iter().map(async |node| {
        let seen = match first {
            Some(channel) => sends(shared, cast, channel, std::slice::from_ref(node), deadline).await,
            None => None,
        };
        (node.id, seen)
    });
    let ready = nodes.iter().map(async |node| (node.id, ready(shared, node, deadline).await));
    let (connected, sending, through, ready) =
        join!(many(connected), many(sending), join_all(through), join_all(ready));
    Liveness {
        since,
        bound,
        channels: connected.into_iter().collect(),
        sending: sending.into_iter().collect(),
        nodes: through.into_iter().collect(),
        ready: ready.into_iter().collect(),
    }
}

/// Runs all futures, at most [`AT_ONCE`] at a time.
async fn many<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    stream::iter(all).buffer_unordered(AT_ONCE).collect().await
}

/// When a node reported that load balancers may send it requests.
async fn ready(shared: &Shared, node: &Place, deadline: At) -> Option<At> {
    loop {
        if is_ready(shared, node, PATIENCE).await {
            return Some(shared.recorder.now());
        }
        if shared.recorder.now() > deadline {
            return None;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// When a channel was seen connected, through any node.
async fn connected(shared: &Shared, cast: &Cast, channel: &Channel, deadline: At) -> Option<At> {
    let path = format!("/v1/channels/{}", channel.id);
    for node in shared.map().nodes.iter().cycle() {
        let customer = node.customer(&shared.http, &cast.tenant(&channel.tenant).key);
        let answer = try_answer(customer.request(Method::GET, &path).timeout(PATIENCE)).await;
        if answer.is_ok_and(|answer| answer.status == 200 && answer.json()["status"] == "connected") {
            return Some(shared.recorder.now());
        }
        if shared.recorder.now() > deadline {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}

/// When a send of a channel was accepted through one of these nodes, which are tried in turn.
async fn sends(shared: &Arc<Shared>, cast: &Cast, channel: &Channel, nodes: &[Place], deadline: At) -> Option<At> {
    let client = shared.client(cast.tenant(&channel.tenant));
    for (again, node) in nodes.iter().cycle().enumerate() {
        let text = format!("healed {} by {} of {} {again} {}", channel.id, node.id, nodes.len(), deadline.0);
        if let Outcome::Done(_) = send(&client, cast, node, channel, text).await {
            return Some(shared.recorder.now());
        }
        if shared.recorder.now() > deadline {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}

/// Waits until the network has accepted what was promised and endpoints that accept everything have received it, within
/// a limit. Deliveries that still make progress get more than `patience`. What is missing then is found by the checks.
pub async fn settle(shared: &Shared, cast: &Cast, patience: Duration) -> anyhow::Result<()> {
    let (start, simulator) = (Instant::now(), shared.simulator());
    let mut seen = cast.before.seq;
    let mut missing = cast.promised.lock().expect("no holder panics").clone();
    while !missing.is_empty() && start.elapsed() < ACCEPTED.min(patience) {
        let page = simulator.api().get(&format!("/accepted?limit=10000&since_seq={seen}")).await;
        let rows: Vec<LedgerRow> = serde_json::from_value(page.json()["data"].clone())?;
        seen = rows.last().map_or(seen, |row| row.seq);
        for row in &rows {
            missing.remove(&row.id);
        }
        if rows.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    }
    let start = Instant::now();
    for endpoint in cast.stage.endpoints.iter().filter(|endpoint| endpoint.manner.takes_all()) {
        let tenant = cast.tenant(&endpoint.tenant);
        let path = format!("/v1/webhook-endpoints/{}/stats", endpoint.id);
        let (mut fewest, mut fell) = (u64::MAX, Instant::now());
        while start.elapsed() < DELIVERED && (start.elapsed() < patience || fell.elapsed() < STANDSTILL) {
            let answer = try_answer(api(shared, tenant).request(Method::GET, &path).timeout(PATIENCE)).await;
            let told = answer.ok().filter(|answer| answer.status == 200);
            match told.and_then(|answer| unfinished(&answer.json())) {
                Some(0) => break,
                Some(waiting) if waiting < fewest => (fewest, fell) = (waiting, Instant::now()),
                _ => {}
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// The number of deliveries that have not ended yet.
fn unfinished(stats: &Value) -> Option<u64> {
    ["pending", "in_flight", "retrying"].iter().map(|state| stats[state].as_u64()).sum()
}
