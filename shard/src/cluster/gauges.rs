//! Updates the gauges of this node's state and of what it owns.

use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use model::status::Status;
use model::time::Timestamp;
use raft::directory::AuditQuery;
use raft::directory::records::{AuditEntry, BACKUP_TAKEN, DisabledReason, EndpointRecord};
use raft::supervise;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::router::rss_bytes;

/// How often the gauges are updated.
const EVERY: Duration = Duration::from_secs(2);

/// Gauges that are expensive to compute, such as the size of files, are updated once in this many rounds.
const COUNTED_TURN: u32 = 8;

/// An audit log entry may be written this long after the time that it carries.
const AUDIT_LATENESS: Duration = Duration::from_secs(600);

/// Updates the gauges until `stop`.
pub async fn keep(cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    let mut turn = 0;
    let mut backups = Backups::default();
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        owned(&cluster);
        node(&cluster);
        if turn % COUNTED_TURN == 0 {
            disk(&cluster).await;
            endpoints(&cluster);
            certificates(&cluster);
            backups.look(&cluster).await;
        }
        turn = turn.wrapping_add(1);
    }
}

fn owned(cluster: &Cluster) {
    let (context, owners) = (&cluster.context, cluster.owners.all());
    let live =
        context.directory.read(|state| owners.iter().map(|owner| state.channel_count_in(owner.shard)).sum::<usize>());
    let counts = cluster.router.channels_by_status();
    let with_row: u64 = counts.values().sum();
    for (status, count) in counts {
        let untouched = if status == Status::Pending { (live as u64).saturating_sub(with_row) } else { 0 };
        gauge!("gateway_channels", "status" => status.as_str()).set((count + untouched) as f64);
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
    gauge!("gateway_draining").set(if cluster.readiness().draining { 1.0 } else { 0.0 });
    gauge!("gateway_shards_leaderless").set(cluster.router.leaderless() as f64);
    // Before the first confirmation, the directory's age is unknown.
    if let Some(age) = cluster.directory().age() {
        gauge!("gateway_directory_age_seconds").set(age.as_secs_f64());
    }
    gauge!("process_resident_memory_bytes").set(rss_bytes() as f64);
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        gauge!("process_open_fds").set(open.count() as f64);
    }
}

async fn disk(cluster: &Cluster) {
    let Some(disk) = cluster.host.disk().await else { return };
    for (what, bytes) in [("free", disk.free), ("total", disk.total), ("log", disk.log), ("state", disk.state)] {
        gauge!("gateway_disk_bytes", "what" => what).set(bytes as f64);
    }
}

/// The number of endpoints of all customers by state: enabled, disabled by the customer, or by the gateway and why.
fn endpoints(cluster: &Cluster) {
    let state = |endpoint: &EndpointRecord| match (endpoint.enabled, endpoint.disabled_reason) {
        (true, _) => "enabled",
        (false, None) => "disabled",
        (false, Some(DisabledReason::Gone)) => "gone",
        (false, Some(DisabledReason::Failing)) => "failing",
    };
    let counts = cluster.directory().read(|directory| {
        let mut counts = ["enabled", "disabled", "gone", "failing"].map(|state| (state, 0_u32));
        for endpoint in directory.endpoints.values() {
            counts.iter_mut().filter(|(name, _)| *name == state(endpoint)).for_each(|(_, count)| *count += 1);
        }
        counts
    });
    for (state, count) in counts {
        gauge!("gateway_webhook_endpoints", "state" => state).set(f64::from(count));
    }
}

/// The remaining validity of the certificates that this node shows and trusts, by the configuration key of each.
fn certificates(cluster: &Cluster) {
    for certificate in (cluster.router.about().certificates)() {
        let left = certificate.expires_at.0 - Timestamp::now().0;
        gauge!("gateway_certificate_seconds_left", "key" => certificate.key).set(left as f64 / 1000.0);
    }
}

/// Finds the last backup in the audit log.
#[derive(Default)]
struct Backups {
    last: Option<Timestamp>,
    /// The time up to which the log has been searched.
    seen: Option<Timestamp>,
}

impl Backups {
    /// Reads the log back to the previous look; the first time, to the last backup or to the beginning of the log.
    async fn look(&mut self, cluster: &Arc<Cluster>) {
        let Some(formed_at) = cluster.directory().read(|state| state.cluster.as_ref().map(|known| known.formed_at))
        else {
            return;
        };
        let now = Timestamp::now();
        let since = self.seen.map_or(Timestamp(0), |seen| Timestamp(seen.0 - AUDIT_LATENESS.as_millis() as i64));
        let reader = cluster.clone();
        let look = move || {
            let query = AuditQuery { customer: None, since, until: Timestamp(i64::MAX) };
            let wanted = |entry: &AuditEntry| entry.action == BACKUP_TAKEN;
            let found = reader.directory().audit_log(&query, None, 1, usize::MAX, wanted);
            found.entries.first().map(|entry| entry.created_at)
        };
        // After a failed read, the next look covers the same entries.
        let Ok(found) = supervise::on_thread(look).await else { return };
        (self.last, self.seen) = (self.last.max(found), Some(now));
        let age = now.since(self.last.unwrap_or(formed_at));
        gauge!("gateway_backup_age_seconds").set(age.as_secs_f64());
    }
}
