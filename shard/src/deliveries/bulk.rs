//! Bulk operations on the deliveries of an endpoint: recovery and purge.
//!
//! A bulk operation is a row of the shard. Its owner reads a part of the deliveries, commits their changes together
//! with its progress, and goes on; the next owner continues where the last one stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::error::CallError;
use model::limit::LimitScope;
use model::time::Timestamp;
use raft::machine::View;
use raft::supervise;
use state::deliveries::bulk::Part;

use super::command::{BulkOperation, DeliveryCommand, Progress};
use super::running::Running;
use super::{RETRY_PAUSE, TURN_PATIENCE, read};
use crate::command::Command;
use crate::keys;
use crate::owner::committer::Answered;
use crate::owner::{MOST_BULK_OF_ONE, Owner};
use crate::records::decode;

/// Pause between two steps, so that sends are not disturbed.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a caller waits for the end of a bulk operation, so that a small one has ended when the caller is answered.
const PATIENCE: Duration = Duration::from_millis(800);

/// Seconds after which an account with the maximum number of operations should retry.
const RETRY_SECONDS: u32 = 5;

/// How many deliveries a bulk operation would affect.
///
/// # Errors
/// `worker_at_capacity` if they are too many to be counted in time.
pub async fn count(owner: &Owner, bulk: BulkOperation, deadline: Instant) -> Result<u64, CallError> {
    if owner.reader.get(&keys::customer_endpoint(bulk.customer, bulk.endpoint)).is_none() {
        return Ok(0);
    }
    read(owner, Some(bulk.customer), deadline, move |view, running| bulk.matched(view, running)).await
}

/// Begins a bulk operation and returns how many deliveries it affects.
///
/// # Errors
/// As [`count`], and `rate_limited` for an account with too many in progress.
pub async fn begin(owner: &Arc<Owner>, bulk: BulkOperation, deadline: Instant) -> Answered<u64> {
    let Some(share) = owner.bulk.try_take(bulk.customer) else {
        return Err(CallError::rate_limited(LimitScope::Customer, MOST_BULK_OF_ONE as u32, RETRY_SECONDS).into());
    };
    let matched = count(owner, bulk.clone(), deadline).await?;
    if matched == 0 {
        return Ok(0);
    }
    let begin = Command::Delivery(DeliveryCommand::BeginBulk(bulk.clone()));
    owner.committer.commit_one(begin).await?;
    let (owning, lost) = (owner.clone(), owner.lost.clone());
    let working = owner.tasks.spawn(async move {
        let working = supervise::restarted("a bulk operation on deliveries", || go_on(owning.clone(), bulk.clone()));
        lost.run_until_cancelled(working).await;
        drop(share);
    });
    let _ = tokio::time::timeout(PATIENCE, working).await;
    Ok(matched)
}

/// Continues what an earlier owner began, concurrently: one account's operations must not wait for another's.
pub async fn resume(owner: Arc<Owner>) {
    let (from, to) = keys::bulk_operations();
    let begun = owner.reader.scan(&from, &to, usize::MAX).into_iter().map(|(_, bulk)| decode::<BulkOperation>(&bulk));
    let going_on = begun.map(|bulk| {
        let owner = owner.clone();
        async move {
            // Operations beyond the account's share continue all the same.
            let share = owner.bulk.try_take(bulk.customer);
            go_on(owner.clone(), bulk).await;
            drop(share);
        }
    });
    join_all(going_on).await;
}

/// Reads the next part, in the turn of the operation's account.
async fn next(owner: &Owner, bulk: &BulkOperation) -> Part {
    loop {
        let (customer, bulk) = (bulk.customer, bulk.clone());
        let reading = move |view: &dyn View, running: &Running| bulk.next(view, running);
        match read(owner, Some(customer), Instant::now() + TURN_PATIENCE, reading).await {
            Ok(part) => return part,
            Err(error) => tracing::debug!(%error, "a step of a bulk operation did not have its turn"),
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn go_on(owner: Arc<Owner>, mut bulk: BulkOperation) {
    let deliveries = &owner.node.deliveries;
    loop {
        let part = next(&owner, &bulk).await;
        let changes = !part.deliveries.is_empty();
        let step = DeliveryCommand::BulkStep {
            id: bulk.id,
            deliveries: part.deliveries,
            at: Timestamp::now(),
            progress: part.progress.clone(),
        };
        let Ok(committed) = owner.committer.commit_deferred(vec![Command::Delivery(step)]).await else { return };
        if committed.await.is_err() {
            return;
        }
        if changes {
            deliveries.changed(&owner, bulk.endpoint);
        }
        match part.progress {
            Progress::Reached(reached) => bulk.reached = Some(reached),
            Progress::Finished => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}
