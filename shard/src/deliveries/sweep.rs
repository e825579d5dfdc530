//! Work on many deliveries of an endpoint: recovering and purging.
//!
//! A sweep is a row of the shard. Its owner reads a part of the deliveries, commits what is to become of them together
//! with how far it has come, and goes on; the next owner continues where the last one stood.

use std::sync::Arc;
use std::time::Duration;

use model::time::Timestamp;
use raft::machine::View;
use raft::supervise;

use super::command::{DeliveryCommand, Progress, Sweep};
use crate::command::Command;
use crate::keys;
use crate::owner::Owner;
use crate::records::decode;

/// Between two steps, so that sends do not feel them.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a caller waits for the end of a sweep, so that a small one is over when it is answered.
const PATIENCE: Duration = Duration::from_millis(800);

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
        let Ok(committed) = owner.committer.commit_deferred(vec![Command::Delivery(step)]).await else { return };
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
