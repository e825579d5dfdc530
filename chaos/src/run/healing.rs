//! What must be so again soon after all faults have ended, without an operator (I10).

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::injector;
use super::probe::Probe;
use crate::world::World;
use crate::world::asking::until;

/// From the end of the last fault.
pub const BOUND: Duration = Duration::from_secs(30);

/// What a channel is that wants to be connected and is not.
const ON_THE_WAY: [&str; 3] = ["connecting", "reconnecting", "rate_limited"];

/// Ends all faults, and waits until every node is ready and takes sends, all replicas keep up, and no channel is still on
/// its way back; how long that took.
///
/// # Errors
/// What was not so in time.
pub async fn heal(world: &World, probe: &Probe) -> anyhow::Result<Duration> {
    injector::heal(world).await?;
    let start = Instant::now();
    let left = || BOUND.saturating_sub(start.elapsed());
    for id in world.node_ids() {
        world.wait_ready(id, left()).await?;
    }
    for id in world.node_ids() {
        probe.send(world, id, left()).await?;
    }
    until("all replicas keep up, and all channels are back", left(), async || {
        let status = world.of_any("/v1/admin/status").await?;
        let all = |what: &str| status[what]["ready"] == status[what]["total"];
        let away = ON_THE_WAY.iter().filter_map(|name| status["channels"][name].as_u64()).sum::<u64>();
        ensure!(all("nodes") && all("shards") && away == 0, "{status}");
        Ok(())
    })
    .await
    .context("after all faults had ended")?;
    Ok(start.elapsed())
}
