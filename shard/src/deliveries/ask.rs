//! What can be asked of an owner about its shard's deliveries, and how it answers.

use std::sync::Arc;

use model::id::{CustomerId, DeliveryId, EndpointId};
use model::time::Timestamp;
use raft::machine::View;
use serde::{Deserialize, Serialize};

use super::command::{DeliveryCommand, Sweep};
use super::coordinator::{Report, Ruling};
use super::query::{self, DeliveryPage, DeliveryQuery, Figures};
use super::running::Running;
use super::sweep;
use super::view::{DeliveryDetail, DeliveryRecord};
use super::waiting::{self, Waiting};
use crate::command::{Command, Reply};
use crate::owner::{NotLeader, Owner};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DeliveryAsk {
    Page {
        customer: CustomerId,
        query: DeliveryQuery,
    },
    Find {
        customer: CustomerId,
        id: DeliveryId,
    },
    /// Makes a delivery due now.
    Redeliver {
        customer: CustomerId,
        id: DeliveryId,
    },
    Sweep(Sweep),
    Figures {
        customer: CustomerId,
        endpoint: EndpointId,
        since: Timestamp,
    },
    /// What a node tells the home of an endpoint's customer.
    Report(Report),
    /// Counts a call of a test route, at the customer's home.
    TakeTest {
        customer: CustomerId,
    },
    /// What waits for each endpoint in this shard.
    Waiting,
    /// How many deliveries a sweep would be about.
    CountSweep(Sweep),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DeliveryDone {
    Page(DeliveryPage),
    Found(Option<Box<DeliveryDetail>>),
    Redelivered(Redelivered),
    /// How many deliveries a sweep is about.
    Matched(u64),
    Figures(Figures),
    Ruled(Ruling),
    Test(Tested),
    Waiting(Vec<Waiting>),
}

/// Whether an endpoint may be tested once more.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Tested {
    Counted,
    TooMany { retry_after: u32 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Redelivered {
    Due(Box<DeliveryRecord>),
    /// It is to be attempted at once anyway.
    DueAlready,
    NotFound,
}

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
