//! Work on many deliveries of an endpoint: recovering and purging (supplement 20.8).
//!
//! A sweep is a row of the shard. Its owner reads a part of the deliveries, commits what is to become of them together
//! with how far it has come, and goes on; the next owner continues where the last one stood.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::id::DeliveryId;
use model::time::Timestamp;
use raft::machine::View;
use raft::supervise;

use super::command::{DeliveryCommand, Progress, Sweep, SweepWork};
use super::running::Running;
use crate::command::Command;
use crate::keys;
use crate::owner::Owner;
use crate::records::{DeliveryRow, decode};

/// How many keys a step looks at, and so how many deliveries one command changes at most.
const STEP: usize = 256;

/// Between two steps, so that sends do not feel them.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a caller waits for the end of a sweep, so that a small one is over when it is answered.
const PATIENCE: Duration = Duration::from_millis(800);

/// A part of the deliveries that a sweep is about.
struct Part {
    deliveries: Vec<DeliveryId>,
    progress: Progress,
}

impl Sweep {
    /// Reads the next part.
    fn next(&self, view: &dyn View, running: &Running) -> Part {
        let (mut from, to) = self.range();
        if let Some(reached) = &self.reached {
            from = [reached, &[0_u8][..]].concat();
        }
        let found = view.scan(&from, &to, STEP);
        let progress = match found.last() {
            Some((last, _)) if found.len() == STEP => Progress::Reached(Bytes::copy_from_slice(last)),
            _ => Progress::Finished,
        };
        let rows = found.into_iter().filter_map(|(key, value)| self.row(view, &key, &value));
        let wanted = rows.filter(|row| self.is_about(row, running));
        Part { deliveries: wanted.map(|row| row.id).collect(), progress }
    }

    /// Purging follows the jobs, which are few beside the deliveries that have ended.
    fn range(&self) -> keys::Range {
        match self.work {
            SweepWork::Recover { since, .. } => keys::deliveries_of(self.endpoint, Some(since), Some(self.until)),
            SweepWork::Purge => keys::jobs_of(self.endpoint),
        }
    }

    fn row(&self, view: &dyn View, key: &[u8], value: &[u8]) -> Option<DeliveryRow> {
        match self.work {
            SweepWork::Recover { .. } => Some(decode(value)),
            SweepWork::Purge => {
                let (endpoint, _, id) = keys::parse_job(key)?;
                view.get(&keys::delivery(endpoint, id)).map(|row| decode(&row))
            }
        }
    }

    fn is_about(&self, row: &DeliveryRow, running: &Running) -> bool {
        let of_event = match &self.work {
            SweepWork::Recover { events, .. } => {
                running.state_of(row) == row.state && (events.is_empty() || events.contains(&row.event))
            }
            SweepWork::Purge => true,
        };
        of_event && row.created_at < self.until && self.states.contains(&row.state)
    }

    /// How many deliveries it is about at the moment.
    fn matched(&self, view: &dyn View, running: &Running) -> u64 {
        let mut sweep = self.clone();
        let mut matched = 0;
        loop {
            let part = sweep.next(view, running);
            matched += part.deliveries.len() as u64;
            match part.progress {
                Progress::Reached(reached) => sweep.reached = Some(reached),
                Progress::Finished => return matched,
            }
        }
    }
}

/// How many deliveries a sweep would be about. `None`: they could not be counted.
pub async fn count(owner: &Owner, sweep: Sweep) -> Option<u64> {
    if owner.reader.get(&keys::customer_endpoint(sweep.customer, sweep.endpoint)).is_none() {
        return Some(0);
    }
    let (reader, running) = (owner.reader.clone(), owner.node.deliveries.running().clone());
    tokio::task::spawn_blocking(move || sweep.matched(&reader, &running)).await.ok()
}

/// Begins a sweep and says how many deliveries it is about. `None`: the owner's right has ended.
pub async fn begin(owner: &Arc<Owner>, sweep: Sweep) -> Option<u64> {
    let matched = count(owner, sweep.clone()).await?;
    if matched == 0 {
        return Some(0);
    }
    let begin = Command::Delivery(DeliveryCommand::BeginSweep(sweep.clone()));
    owner.committer.commit_one(begin).await.ok()?;
    let (owning, lost) = (owner.clone(), owner.lost.clone());
    let working = owner.tasks.spawn(async move {
        let working = supervise::restarted("a sweep of deliveries", || go_on(owning.clone(), sweep.clone()));
        lost.run_until_cancelled(working).await
    });
    let _ = tokio::time::timeout(PATIENCE, working).await;
    Some(matched)
}

/// Goes on with what an earlier owner began.
pub async fn resume(owner: Arc<Owner>) {
    let (from, to) = keys::sweeps();
    for (_, sweep) in owner.reader.scan(&from, &to, usize::MAX) {
        go_on(owner.clone(), decode(&sweep)).await;
    }
}

async fn go_on(owner: Arc<Owner>, mut sweep: Sweep) {
    let deliveries = &owner.node.deliveries;
    loop {
        let part = sweep.next(&owner.reader, deliveries.running());
        let changes = !part.deliveries.is_empty();
        let step = DeliveryCommand::SweepStep {
            id: sweep.id,
            deliveries: part.deliveries,
            at: Timestamp::now(),
            progress: part.progress.clone(),
        };
        let Ok(committed) = owner.committer.commit_patiently(vec![Command::Delivery(step)]).await else { return };
        if committed.await.is_err() {
            return;
        }
        if changes {
            deliveries.changed(&owner, sweep.endpoint);
        }
        match part.progress {
            Progress::Reached(reached) => sweep.reached = Some(reached),
            Progress::Finished => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}
