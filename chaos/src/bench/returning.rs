//! B5, second part: how soon the sessions of a killed node are live at the other nodes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;
use tests::cluster::SHARDS;
use tests::http::Api;

use crate::bench::plan::Plan;
use crate::bench::results::{Row, Section, Spread, Target as Goal};
use crate::bench::target::{Target, want};

const NUMBER: &str = "B5";

const WANTED_S: f64 = 1.5;

const LOOK: Duration = Duration::from_millis(10);
const GIVE_UP: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Serialize)]
struct Trial {
    node: u64,
    sessions: u64,
    /// Until as many sessions were back as the plan wants.
    wanted_seconds: f64,
    /// Until all sessions were back.
    seconds: f64,
}

/// Fills the cluster until each node holds at least as many sessions as the plan wants, and kills each node in turn.
///
/// # Errors
/// When sessions do not come back.
pub async fn measure(target: &Target, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let cluster = target.cluster.as_ref().context("only a cluster of its own is killed")?;
    let nodes = cluster.node_ids();
    // Some nodes lead only one shard, and the sizes of shards differ.
    let count = plan.sessions * SHARDS * 6 / 5;
    tell(&format!("pairing {count} channels"));
    target.channels(count, false).await?;
    let all = target.connected_now().await?;
    let simulator = target.simulator();
    let mut trials = Vec::new();
    for node in if plan.quick { &nodes[..1] } else { &nodes[..] } {
        let held = target.sessions_of(*node).await?;
        ensure!(held >= plan.sessions as u64, "node {node} holds {held} sessions, {} are wanted", plan.sessions);
        let before = logins(&simulator).await?;
        let struck = Instant::now();
        cluster.kill(*node);
        let mut wanted_seconds = None;
        // Each lost session that comes back is one more login, and at the end none is missing.
        loop {
            let back = logins(&simulator).await?.saturating_sub(before);
            if wanted_seconds.is_none() && back >= plan.sessions as u64 {
                wanted_seconds = Some(struck.elapsed().as_secs_f64());
            }
            if back >= held && sessions(&simulator).await? >= all {
                break;
            }
            ensure!(struck.elapsed() < GIVE_UP, "sessions are missing {GIVE_UP:?} after the kill");
            tokio::time::sleep(LOOK).await;
        }
        let seconds = struck.elapsed().as_secs_f64();
        let trial = Trial { node: *node, sessions: held, wanted_seconds: wanted_seconds.unwrap_or(seconds), seconds };
        tell(&format!(
            "node {node} killed: {} sessions are back after {:.2} s, all {held} after {seconds:.2} s",
            plan.sessions, trial.wanted_seconds
        ));
        trials.push(trial);
        cluster.restart(&[*node]).await;
        target.settled(all).await?;
    }
    let held = trials.iter().map(|trial| trial.sessions).max().unwrap_or_default();
    let goal = if plan.sessions >= 1_000 { Goal::AtMost(WANTED_S) } else { Goal::None };
    let wanted = Spread::of(trials.iter().map(|trial| trial.wanted_seconds));
    let name = format!("kill of a node until {} of its sessions are back", plan.sessions);
    let wanted = Row::new(NUMBER, name, wanted, "s", goal).note(format!("of up to {held} that it held"));
    // No target, as session starts are rate limited: the time grows with their number.
    let all = Spread::of(trials.iter().map(|trial| trial.seconds));
    let all = Row::new(NUMBER, "the same, until all of them are", all, "s", Goal::None);
    Ok(Section { rows: vec![wanted, all], details: json!({ "B5 sessions": trials }) })
}

async fn logins(simulator: &Api) -> anyhow::Result<u64> {
    stat(simulator, "logins").await
}

async fn sessions(simulator: &Api) -> anyhow::Result<u64> {
    stat(simulator, "sessions").await
}

async fn stat(simulator: &Api, name: &str) -> anyhow::Result<u64> {
    let stats = want(simulator.get("/stats").await, 200)?;
    stats[name].as_u64().with_context(|| format!("the simulator's statistics have {name}"))
}
