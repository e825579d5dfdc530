//! Queries the final state of network and gateway once everything has come to rest.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use model::time::Timestamp;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tests::http::Api;
use tests::simulator::Simulator;

use super::cast::Cast;
use super::client::{Shared, insist, is_ready};
use crate::history::record::Endpoint;
use crate::history::{Delivery, Evidence, LedgerRow, Login, Stats};
use crate::world::map::Place;

/// Longer than an attempt waits for its turn if its endpoint accepts everything.
const OVERDUE: Duration = Duration::from_secs(8);

/// An attempt is answered within 20 s, and its outcome is recorded soon after.
const ATTEMPT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Timeout for some node to be ready.
const ANSWERING: Duration = Duration::from_secs(10);

/// Page size of the gateway's lists.
const PAGE: usize = 100;

/// Queries everything for the checks, except the replicas' states. What the gateway does not answer is recorded: a
/// cluster that does not answer can be checked as well.
///
/// # Errors
/// When the network does not answer, or unexpectedly.
pub async fn gather(shared: &Shared, cast: &Cast) -> anyhow::Result<Evidence> {
    let (mut stage, simulator) = (cast.stage.clone(), shared.simulator());
    stage.passing = cast.passing.lock().expect("no holder panics").clone();
    stage.stopped = cast.stopped.lock().expect("no holder panics").clone();
    stage.endpoints.extend(cast.late.lock().expect("no holder panics").iter().cloned());
    let mut ledger: Vec<LedgerRow> = rows(simulator.ledger().await)?;
    ledger.retain(|row| row.seq > cast.before.seq);
    let (mut logins, mut inboxes) = (BTreeMap::new(), BTreeMap::new());
    for channel in stage.channels.iter().chain(&stage.passing) {
        let own: Vec<Login> = rows(simulator.logins(&channel.number).await)?;
        logins.insert(channel.number.clone(), own);
        inboxes.insert(channel.recipient.clone(), rows(simulator.inbox(&channel.recipient).await)?);
    }
    let (mut failed, mut deliveries, mut untold) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let node = answering(shared).await;
    let loud = cast.neighbours.as_ref().map(|neighbours| &neighbours.loud);
    for tenant in [&cast.main, &cast.stranger].into_iter().chain(loud) {
        let asked = "/v1/messages?direction=outbound&status=failed&deliveries=none";
        let rows = pages::<Value>(&node.customer(&shared.http, &tenant.key), asked).await;
        for row in rows.unwrap_or_else(|error| none(&mut untold, &error)) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            failed.insert(text(&row["message_id"]), text(&row["error"]["code"]));
        }
    }
    for endpoint in stage.endpoints.iter().filter(|endpoint| endpoint.manner.stays_on()) {
        let key = &cast.tenant(&endpoint.tenant).key;
        let mut rows = listed(shared, &node, endpoint, key).await.unwrap_or_else(|error| none(&mut untold, &error));
        if endpoint.manner.takes_all() {
            rows = ended(shared, &node, endpoint, key, rows).await;
        }
        deliveries.insert(endpoint.id.clone(), rows);
    }
    let stats = since(&cast.before.stats, &stats(&simulator).await?);
    Ok(Evidence { stage, ledger, logins, stats, inboxes, failed, deliveries, untold, ..Evidence::default() })
}

/// The deliveries of an endpoint in the gateway's records.
async fn listed(shared: &Shared, node: &Place, endpoint: &Endpoint, key: &str) -> anyhow::Result<Vec<Delivery>> {
    let asked = format!("/v1/webhook-endpoints/{}/deliveries?order=asc", endpoint.id);
    let mut rows: Vec<Delivery> = pages(&node.customer(&shared.http, key), &asked).await?;
    let now = Timestamp::now();
    for row in &mut rows {
        row.overdue = row.next_attempt_at.is_some_and(|due| now.since(due) > OVERDUE);
    }
    Ok(rows)
}

/// The same once all attempts in progress have ended. One that does not end, long after its time, is overdue.
async fn ended(
    shared: &Shared,
    node: &Place,
    endpoint: &Endpoint,
    key: &str,
    mut rows: Vec<Delivery>,
) -> Vec<Delivery> {
    let attempt = |row: &Delivery| (row.id.clone(), row.attempt_count);
    let under_way = |rows: &[Delivery]| -> HashSet<(String, u32)> {
        rows.iter().filter(|row| row.state == "in_flight").map(attempt).collect()
    };
    let (mut first, start) = (under_way(&rows), Instant::now());
    while !first.is_empty() && start.elapsed() < ATTEMPT {
        tokio::time::sleep(LOOK_AGAIN).await;
        if let Ok(again) = listed(shared, node, endpoint, key).await {
            first = first.intersection(&under_way(&again)).cloned().collect();
            rows = again;
        }
    }
    for row in rows.iter_mut().filter(|row| first.contains(&attempt(row))) {
        row.overdue = true;
    }
    rows
}

/// A node that is ready, or the first one if none becomes ready in time.
async fn answering(shared: &Shared) -> Place {
    let (nodes, start) = (shared.map().nodes, Instant::now());
    loop {
        for node in &nodes {
            if is_ready(shared, node, ANSWERING).await {
                return node.clone();
            }
        }
        if start.elapsed() > ANSWERING {
            return nodes[0].clone();
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn none<T>(untold: &mut Vec<String>, error: &anyhow::Error) -> Vec<T> {
    untold.push(format!("{error:#}"));
    Vec::new()
}

fn rows<T: DeserializeOwned>(rows: Vec<Value>) -> anyhow::Result<Vec<T>> {
    let read = rows.into_iter().map(|row| serde_json::from_value(row.clone()).with_context(|| row.to_string()));
    read.collect()
}

async fn stats(simulator: &Simulator) -> anyhow::Result<Stats> {
    Ok(serde_json::from_value(simulator.stats().await)?)
}

/// What was counted after a moment.
fn since(before: &Stats, now: &Stats) -> Stats {
    Stats {
        conflicts: now.conflicts - before.conflicts,
        fenced: now.fenced - before.fenced,
        late_writes: now.late_writes - before.late_writes,
        accepted: now.accepted - before.accepted,
        refused: now.refused - before.refused,
        duplicates_dropped: now.duplicates_dropped - before.duplicates_dropped,
        raw_sends: now.raw_sends - before.raw_sends,
        redelivered: now.redelivered - before.redelivered,
        logins: now.logins - before.logins,
    }
}

/// All pages of a list of the gateway.
async fn pages<T: DeserializeOwned>(api: &Api, path: &str) -> anyhow::Result<Vec<T>> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    let joint = if path.contains('?') { '&' } else { '?' };
    loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = insist(api, Method::GET, &format!("{path}{joint}limit={PAGE}{after}"), &Value::Null).await?;
        all.extend(rows(page["data"].as_array().cloned().unwrap_or_default())?);
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(all);
        }
    }
}
