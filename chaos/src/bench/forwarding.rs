//! B3: the cost of a send through a node that does not own its channel.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::bench::caller::request;
use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::target::{Channel, Target as Cluster, want};
use crate::connection::Connection;

const NUMBER: &str = "B3";

const WANTED_MS: f64 = 0.5;

/// Channels that take turns. They are on all shards, so that every pair of nodes takes part.
const CHANNELS: usize = 48;

/// Sends of a round, each made twice.
const SENDS: usize = 480;
const QUICK_SENDS: usize = 192;

/// Measures B3.
///
/// # Errors
/// When a send is not accepted.
pub async fn measure(sides: &Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let channels = &sides.channels[..CHANNELS.min(sides.channels.len())];
    let owners = owners(&sides.target, channels).await?;
    let mut nodes = HashMap::new();
    for node in &sides.target.dev.nodes {
        nodes.insert(node.id, Connection::new(&node.api, &sides.target.dev.api_key)?);
    }
    let others: Vec<u64> = sides.target.dev.nodes.iter().map(|node| node.id).collect();
    let sends = if plan.quick { QUICK_SENDS } else { SENDS };
    let mut rounds = Vec::new();
    for _ in 0..plan.pairs {
        let (mut through_owner, mut through_other) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
        for n in 0..sends {
            let (channel, owner) = (&channels[n % channels.len()], owners[n % channels.len()]);
            let other = others.iter().filter(|node| **node != owner).nth(n / channels.len() % 2).copied();
            let other = other.context("there are three nodes")?;
            // Alternating, so that neither always comes second.
            let order = if n % 2 == 0 { [owner, other] } else { [other, owner] };
            for node in order {
                let connection = nodes.get_mut(&node).context("an owner is a node")?;
                let (path, body) = request(channel);
                let began = Instant::now();
                let response = connection.post(&path, body).await?;
                let took = u64::try_from(began.elapsed().as_micros())?;
                ensure!(response.status == 202, "{} {}", response.status, String::from_utf8_lossy(&response.body));
                if node == owner { through_owner.record(took)? } else { through_other.record(took)? }
            }
        }
        let ms = |times: &Histogram<u64>, part| times.value_at_quantile(part) as f64 / 1_000.0;
        let (owner, other) = (ms(&through_owner, 0.5), ms(&through_other, 0.5));
        tell(&format!("through the owner {owner:.2} ms, through another node {other:.2} ms (p50)"));
        rounds.push((owner, other));
    }
    let extra = Spread::of(rounds.iter().map(|(owner, other)| other - owner));
    let made_of = format!(
        "p50 {:.2} ms through the owner, {:.2} ms through another, one send at a time",
        Spread::of(rounds.iter().map(|(owner, _)| *owner)).median,
        Spread::of(rounds.iter().map(|(_, other)| *other)).median,
    );
    let row =
        Row::new(NUMBER, "accept through a non-owner − through the owner, p50", extra, "ms", Target::AtMost(WANTED_MS));
    let rounds: Vec<_> = rounds.iter().map(|(owner, other)| json!({ "owner_ms": owner, "other_ms": other })).collect();
    Ok(Section { rows: vec![row.note(made_of)], details: json!({ NUMBER: rounds }) })
}

/// The node that owns each channel.
///
/// # Errors
/// When the operator's port does not answer as expected.
pub async fn owners(target: &Cluster, channels: &[Channel]) -> anyhow::Result<Vec<u64>> {
    let operator = target.operator();
    let mut owners = Vec::new();
    for channel in channels {
        let row = want(operator.get(&format!("/v1/admin/channels/{}", channel.id)).await, 200)?;
        owners.push(row["node_id"].as_u64().with_context(|| format!("channel {} has no owner", channel.id))?);
    }
    Ok(owners)
}
