//! An owner's answers about its shard's deliveries.

use std::sync::Arc;
use std::time::Instant;

use model::time::Timestamp;
use raft::machine::View;

use super::command::DeliveryCommand;
use super::query;
use super::running::Running;
use super::view::DeliveryRecord;
use super::{bulk, read, waiting};
use crate::call::deliveries::{DeliveryRequest, DeliveryResponse, Redelivered, Tested};
use crate::command::{Command, Reply};
use crate::keys;
use crate::owner::Owner;
use crate::owner::committer::{Answered, LeadershipLost};
use crate::records::{DeliveryRow, decode};

/// Answers a request at the owner.
///
/// # Errors
/// Its refusal, or [`LeadershipLost`] if it may not have been done.
pub async fn answer(owner: &Arc<Owner>, request: DeliveryRequest, deadline: Instant) -> Answered<DeliveryResponse> {
    let account = request.account();
    Ok(match request {
        DeliveryRequest::Page { customer, query } => {
            let page = move |view: &dyn View, running: &Running| query::page(view, customer, &query, running);
            DeliveryResponse::Page(read(owner, account, deadline, page).await?)
        }
        DeliveryRequest::Find { customer, id } => {
            let find = move |view: &dyn View, running: &Running| query::detail(view, customer, id, running);
            DeliveryResponse::Found(read(owner, account, deadline, find).await?.map(Box::new))
        }
        DeliveryRequest::Figures { customer, endpoint, since } => {
            let count =
                move |view: &dyn View, running: &Running| query::figures(view, customer, endpoint, since, running);
            DeliveryResponse::Figures(read(owner, account, deadline, count).await?)
        }
        DeliveryRequest::Waiting => {
            DeliveryResponse::Waiting(read(owner, account, deadline, |view, _| waiting::in_shard(view)).await?)
        }
        DeliveryRequest::Redeliver { customer, id, again } => {
            let row = read(owner, account, deadline, move |view, _| query::find(view, customer, id)).await?;
            DeliveryResponse::Redelivered(redeliver(owner, row, again).await?)
        }
        DeliveryRequest::Report(report) => {
            let members = owner.node.directory.read(|state| state.nodes.len());
            DeliveryResponse::Ruled(owner.webhook_coordinator.lock().rule(&report, members, Timestamp::steady()))
        }
        DeliveryRequest::TakeTest { customer } => {
            let taken = owner.webhook_coordinator.lock().take_test(customer, Timestamp::steady());
            DeliveryResponse::Test(match taken {
                Ok(()) => Tested::Counted,
                Err(retry_after) => Tested::TooMany { retry_after },
            })
        }
        DeliveryRequest::CountBulk(bulk) => DeliveryResponse::Matched(bulk::count(owner, bulk, deadline).await?),
        DeliveryRequest::BeginBulk(bulk) => DeliveryResponse::Matched(bulk::begin(owner, bulk, deadline).await?),
    })
}

/// Makes a delivery due; `again` if an earlier attempt of the same call may have done so.
async fn redeliver(owner: &Arc<Owner>, found: Option<DeliveryRow>, again: bool) -> Result<Redelivered, LeadershipLost> {
    let running = owner.node.deliveries.running();
    let Some(row) = found else { return Ok(Redelivered::NotFound) };
    let (id, now) = (row.id, Timestamp::now());
    let is_due = running.is_in_flight(id) || row.is_due(now);
    if is_due && !again {
        return Ok(Redelivered::DueAlready);
    }
    if !is_due {
        let redeliver = DeliveryCommand::Redeliver { endpoint: row.endpoint, delivery: id, at: now };
        let reply = owner.committer.commit_one(Command::Delivery(redeliver)).await?;
        if reply != Reply::Done && !again {
            return Ok(Redelivered::DueAlready);
        }
    }
    // The row before the attempt begins, which is what the caller asked for.
    let row = owner.reader.get(&keys::delivery(row.endpoint, id)).ok_or(LeadershipLost)?;
    let row: DeliveryRow = decode(&row);
    let record = DeliveryRecord::of(&row, running);
    owner.node.deliveries.changed(owner, row.endpoint);
    Ok(Redelivered::Due(Box::new(record)))
}
