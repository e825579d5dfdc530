//! B5, its second half: how soon all sessions of a killed node live at the others.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;
use tests::http::Api;

use crate::bench::plan::Plan;
use crate::bench::results::{Row, Section, Spread, Target as Goal};
use crate::bench::target::{Target, want};

const NUMBER: &str = "B5";

const WANTED_S: f64 = 3.0;

const LOOK: Duration = Duration::from_millis(10);
const GIVE_UP: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Serialize)]
struct Trial {
    node: u64,
    sessions: u64,
    seconds: f64,
}

/// Fills the cluster until each node holds at least as many sessions as are wanted, and kills each of them in turn.
///
/// # Errors
/// When sessions do not come back.
pub async fn measure(target: &Target, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let cluster = target.cluster.as_ref().context("only a cluster of its own is killed")?;
    let nodes = cluster.node_ids();
    // Shards are of different sizes, and leads are dealt by their number.
    let count = plan.sessions * nodes.len() * 6 / 5;
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
        // Each session that is gone is a login more when it is back; and none is missing then.
        while logins(&simulator).await? < before + held || sessions(&simulator).await? < all {
            ensure!(struck.elapsed() < GIVE_UP, "sessions are missing {GIVE_UP:?} after the kill");
            tokio::time::sleep(LOOK).await;
        }
        let trial = Trial { node: *node, sessions: held, seconds: struck.elapsed().as_secs_f64() };
        tell(&format!("node {node} killed: its {held} sessions are back after {:.2} s", trial.seconds));
        trials.push(trial);
        cluster.restart(&[*node]).await;
        target.settled(all).await?;
    }
    // The time that a thousand take, if there were more: starts are paced.
    let per_thousand = Spread::of(trials.iter().map(|trial| trial.seconds));
    let held = trials.iter().map(|trial| trial.sessions).max().unwrap_or_default();
    let name = format!("kill of a node until its sessions are back ({} at least)", plan.sessions);
    let goal = if plan.sessions >= 1_000 { Goal::AtMost(WANTED_S) } else { Goal::None };
    let row = Row::new(NUMBER, name, per_thousand, "s", goal).note(format!("up to {held} sessions at once"));
    Ok(Section { rows: vec![row], details: json!({ "B5 sessions": trials }) })
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
