//! Collects state hashes of every replica of every group at the end of a run (I9).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use reqwest::Method;
use serde_json::Value;

use crate::history::{Look, Recorder, Replica};
use crate::world::World;
use crate::world::asking::{ask_within, until};

/// Timeout for the replicas of a group to reach the same entry: only timers propose by then.
const ALIGNED: Duration = Duration::from_secs(30);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(300);

/// Timeout for a node to read its whole state.
const ANSWER: Duration = Duration::from_secs(30);

/// The most looks kept, half of them the first and half the last: those between show nothing more.
const KEPT: usize = 10;

/// Collects the hashes of all groups until the replicas of each group are at the same index, or `ALIGNED` has passed.
/// The checks compare replicas at the same index, and report those that never reached it.
///
/// # Errors
/// When a node does not answer.
pub async fn collect(world: &World, recorder: &Recorder) -> anyhow::Result<Vec<Look>> {
    let start = Instant::now();
    let mut looks: Vec<Look> = Vec::new();
    loop {
        let (at, replicas) = (recorder.now(), look(world).await?);
        let mut indexes: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
        for replica in &replicas {
            indexes.entry(replica.group).or_default().insert(replica.applied);
        }
        looks.push(Look { at, replicas });
        if looks.len() > KEPT {
            looks.remove(KEPT / 2);
        }
        if indexes.values().all(|indexes| indexes.len() == 1) || start.elapsed() > ALIGNED {
            return Ok(looks);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(world: &World) -> anyhow::Result<Vec<Replica>> {
    let mut replicas = Vec::new();
    for node in world.node_ids() {
        let operator = world.operator(node)?;
        let told = until("a node tells what it holds", ANSWER, async || {
            ask_within(&operator, Method::GET, "/v1/admin/replicas", None, ANSWER).await
        })
        .await?;
        for row in told["data"].as_array().context("data is a list")? {
            replicas.push(replica(row).with_context(|| row.to_string())?);
        }
    }
    Ok(replicas)
}

fn replica(row: &Value) -> anyhow::Result<Replica> {
    let number = |field: &str| row[field].as_u64().with_context(|| format!("no {field}"));
    let hash = row["state_hash"].as_str().context("no state_hash")?.to_owned();
    Ok(Replica { node: number("node_id")?, group: u16::try_from(number("shard")?)?, applied: number("applied")?, hash })
}
