//! What an owner answers about its shard's deliveries.

use std::sync::Arc;

use model::id::{CustomerId, DeliveryId};
use model::time::Timestamp;
use raft::machine::View;

use super::command::DeliveryCommand;
use super::query;
use super::running::Running;
use super::view::DeliveryRecord;
use super::{sweep, waiting};
use crate::call::deliveries::{DeliveryAsk, DeliveryDone, Redelivered, Tested};
use crate::command::{Command, Reply};
use crate::owner::{NotLeader, Owner};

/// Answers at the owner.
///
/// # Errors
/// [`NotLeader`] when what was asked may not have been done.
pub async fn answer(owner: &Arc<Owner>, ask: DeliveryAsk) -> Result<DeliveryDone, NotLeader> {
    match ask {
        DeliveryAsk::Page { customer, query } => {
            read(owner, move |view, running| DeliveryDone::Page(query::page(view, customer, &query, running))).await
        }
        DeliveryAsk::Find { customer, id } => {
            read(owner, move |view, running| {
                DeliveryDone::Found(query::detail(view, customer, id, running).map(Box::new))
            })
            .await
        }
        DeliveryAsk::Figures { customer, endpoint, since } => {
            read(owner, move |view, running| {
                DeliveryDone::Figures(query::figures(view, customer, endpoint, since, running))
            })
            .await
        }
        DeliveryAsk::Waiting => read(owner, |view, _| DeliveryDone::Waiting(waiting::in_shard(view))).await,
        DeliveryAsk::Redeliver { customer, id } => redeliver(owner, customer, id).await.map(DeliveryDone::Redelivered),
        DeliveryAsk::Report(report) => {
            let members = owner.node.directory.read(|state| state.nodes.len());
            Ok(DeliveryDone::Ruled(owner.webhook_coordinator.lock().rule(&report, members, Timestamp::steady())))
        }
        DeliveryAsk::TakeTest { customer } => {
            let taken = owner.webhook_coordinator.lock().take_test(customer, Timestamp::steady());
            Ok(DeliveryDone::Test(match taken {
                Ok(()) => Tested::Counted,
                Err(retry_after) => Tested::TooMany { retry_after },
            }))
        }
        DeliveryAsk::CountSweep(sweep) => sweep::count(owner, sweep).await.map(DeliveryDone::Matched).ok_or(NotLeader),
        DeliveryAsk::Sweep(sweep) => sweep::begin(owner, sweep).await.map(DeliveryDone::Matched).ok_or(NotLeader),
    }
}

/// Reads apart from other tasks: many rows may have to come from disk.
async fn read(
    owner: &Owner,
    with: impl FnOnce(&dyn View, &Running) -> DeliveryDone + Send + 'static,
) -> Result<DeliveryDone, NotLeader> {
    let (reader, running) = (owner.reader.clone(), owner.node.deliveries.running().clone());
    tokio::task::spawn_blocking(move || with(&reader, &running)).await.map_err(|_| NotLeader)
}

async fn redeliver(owner: &Arc<Owner>, customer: CustomerId, id: DeliveryId) -> Result<Redelivered, NotLeader> {
    let running = owner.node.deliveries.running();
    let Some(row) = query::find(&owner.reader, customer, id) else { return Ok(Redelivered::NotFound) };
    let now = Timestamp::now();
    if running.is_in_flight(id) || row.is_due(now) {
        return Ok(Redelivered::DueAlready);
    }
    let redeliver = DeliveryCommand::Redeliver { endpoint: row.endpoint, delivery: id, at: now };
    let reply = owner.committer.commit_one(Command::Delivery(redeliver)).await.map_err(|_| NotLeader)?;
    if reply != Reply::Done {
        return Ok(Redelivered::DueAlready);
    }
    // As it stands before the attempt begins, which is what was asked for.
    let row = query::find(&owner.reader, customer, id).ok_or(NotLeader)?;
    let record = DeliveryRecord::of(&row, running);
    owner.node.deliveries.changed(owner, row.endpoint);
    Ok(Redelivered::Due(Box::new(record)))
}
