//! Waiting for the cluster to heal, and for what was promised to arrive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;
use tests::http::try_answer;

use super::cast::{Cast, api};
use super::client::Shared;
use super::sends::send;
use crate::history::{At, LedgerRow, Liveness, Outcome};

const LOOK: Duration = Duration::from_millis(250);
/// A client of the probe waits no longer for one look.
const PATIENCE: Duration = Duration::from_secs(5);
/// A send without acceptance is written again after ten seconds, and again after twenty.
const ACCEPTED: Duration = Duration::from_secs(60);
/// A delivery that failed twice waits 15 s, give or take a fifth, for its third attempt. What failed more often is left
/// waiting, and told of.
const DELIVERED: Duration = Duration::from_secs(25);

pub async fn heal(shared: &Arc<Shared>, cast: &Cast, since: At, bound: Duration) -> Liveness {
    let nodes = shared.map().nodes;
    let mut channels: BTreeMap<String, Option<At>> =
        cast.stage.channels.iter().map(|channel| (channel.id.clone(), None)).collect();
    let mut through: BTreeMap<u64, Option<At>> = nodes.iter().map(|node| (node.id, None)).collect();
    let (client, deadline) = (shared.client(&cast.main), since.plus(bound));
    for round in 0_u64.. {
        for channel in cast.stage.channels.iter().filter(|channel| channels[&channel.id].is_none()).collect::<Vec<_>>()
        {
            let tenant = if channel.tenant == cast.main.name { &cast.main } else { &cast.stranger };
            let node = &nodes[round as usize % nodes.len()];
            let customer = node.customer(&shared.http, &tenant.key);
            let request = customer.request(Method::GET, &format!("/v1/channels/{}", channel.id)).timeout(PATIENCE);
            if let Ok(answer) = try_answer(request).await
                && answer.status == 200
                && answer.json()["status"] == "connected"
            {
                channels.insert(channel.id.clone(), Some(shared.recorder.now()));
            }
        }
        for node in nodes.iter().filter(|node| through[&node.id].is_none()).collect::<Vec<_>>() {
            let Some(channel) = cast.channels_of(&cast.main).next() else { continue };
            let text = format!("healed {} {round}", node.id);
            if let Outcome::Done(_) = send(&client, cast, node, channel, text).await {
                through.insert(node.id, Some(shared.recorder.now()));
            }
        }
        let healed = channels.values().chain(through.values()).all(Option::is_some);
        if healed || shared.recorder.now() > deadline {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Liveness { since, bound, channels, nodes: through }
}

/// Waits until the network has what was promised and endpoints that take all have it, or until that has had its time.
/// What is missing then is the judge's.
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
        let tenant = if endpoint.tenant == cast.main.name { &cast.main } else { &cast.stranger };
        let path = format!("/v1/webhook-endpoints/{}/stats", endpoint.id);
        while start.elapsed() < DELIVERED.min(patience) {
            let answer = try_answer(api(shared, tenant).request(Method::GET, &path).timeout(PATIENCE)).await;
            let waits = |stats: Value| {
                ["pending", "in_flight", "retrying"].iter().any(|state| stats[state].as_u64() != Some(0))
            };
            if answer.is_ok_and(|answer| answer.status == 200 && !waits(answer.json())) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}
