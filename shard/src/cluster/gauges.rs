//! Keeps the gauges of what this node owns, and of how it is.

use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use model::status::Status;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::owner::NodeContext;
use crate::owner::hosting::Owners;
use crate::router::rss_bytes;

/// How often the gauges are set.
const EVERY: Duration = Duration::from_secs(2);

/// The disk is looked at once in so many times: its files have to be counted.
const DISK_TURN: u32 = 8;

/// Sets the gauges until the stop.
pub async fn keep(cluster: Arc<Cluster>, owners: Arc<Owners>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    let mut turn = 0;
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        owned(cluster.context(), &owners);
        node(&cluster);
        if turn % DISK_TURN == 0 {
            disk(&cluster).await;
        }
        turn = turn.wrapping_add(1);
    }
}

fn owned(context: &NodeContext, owners: &Owners) {
    let owners = owners.all();
    let counted = |status: Status| owners.iter().map(|owner| owner.census.count(status)).sum::<u64>();
    let live =
        context.directory.read(|state| owners.iter().map(|owner| state.channel_count_in(owner.shard)).sum::<usize>());
    let with_row: u64 = Status::ALL.into_iter().map(counted).sum();
    for status in Status::ALL {
        let untouched = if status == Status::Pending { (live as u64).saturating_sub(with_row) } else { 0 };
        gauge!("gateway_channels", "status" => status.as_str()).set((counted(status) + untouched) as f64);
    }
    gauge!("gateway_shards_owned").set(owners.len() as f64);
    let used = context.slots.used();
    let slots =
        |state: &'static str| gauge!("gateway_worker_slots", "worker" => context.node.to_string(), "state" => state);
    slots("used").set(f64::from(used));
    slots("free").set(f64::from(context.slots.cap().saturating_sub(used)));
}

fn node(cluster: &Cluster) {
    gauge!("gateway_ready").set(if cluster.readiness().is_ready() { 1.0 } else { 0.0 });
    gauge!("gateway_shards_leaderless").set(cluster.leaderless() as f64);
    // Before the first confirmation there is no age to tell.
    if let Some(age) = cluster.directory().age() {
        gauge!("gateway_directory_age_seconds").set(age.as_secs_f64());
    }
    gauge!("process_resident_memory_bytes").set(rss_bytes() as f64);
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        gauge!("process_open_fds").set(open.count() as f64);
    }
}

async fn disk(cluster: &Cluster) {
    let Some(disk) = cluster.disk().await else { return };
    for (what, bytes) in [("free", disk.free), ("total", disk.total), ("log", disk.log), ("state", disk.state)] {
        gauge!("gateway_disk_bytes", "what" => what).set(bytes as f64);
    }
}
