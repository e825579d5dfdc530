//! How an owner answers a call.

mod usage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::limit::{BucketLevel, LimitScope};
use model::time::Timestamp;
use raft::directory::state::DirectoryState;
use tracing::Instrument;

use crate::call::{Answer, Call, OwnerRequest, OwnerResponse, account_of};
use crate::deliveries;
use crate::history;
use crate::owner::Owner;
use crate::owner::committer::{self, LeadershipLost};
use crate::owner::streams::{relay, serve};
use crate::trace::{self, Kind, Place};

/// Answers a call at the owner of its shard, unless another owner may exist: an owner that is cut off does not know its
/// successor, and reads a stale state.
pub async fn to(owner: &Arc<Owner>, call: Call) -> Answer {
    let answer = traced(owner, call).await;
    match answer {
        // The fence is checked after the read: the process may have been suspended in between.
        Ok((channel_level, result)) if owner.fence.is_live() => Answer::Result { channel_level, result },
        Ok(_) | Err(LeadershipLost) => Answer::NotLeader,
    }
}

/// The level of the channel's bucket, when it was charged, and the result.
type Answered = (Option<BucketLevel>, Result<OwnerResponse, CallError>);

/// Answers in a tracing span with the request's id, if the request is traced.
async fn traced(owner: &Arc<Owner>, call: Call) -> Result<Answered, LeadershipLost> {
    let traced = matches!(call.request, OwnerRequest::Channel { .. })
        .then(|| trace::begin(&call.request_id.0, Place::Within, Kind::Server, || "owner".to_owned()));
    let Some(traced) = traced.flatten() else { return answer(owner, call).await };
    let span = tracing::info_span!("call", request_id = %call.request_id, trace_id = traced.trace());
    let traced = traced
        .with("gateway.node_id", i64::try_from(owner.node.node).unwrap_or(i64::MAX))
        .with("gateway.shard", i64::from(owner.shard))
        .with("gateway.epoch", i64::try_from(owner.epoch).unwrap_or(i64::MAX));
    let answer = Box::pin(answer(owner, call).instrument(span.clone())).await;
    let failure = match &answer {
        Err(LeadershipLost) => Some("no longer the owner".to_owned()),
        Ok((_, result)) => result.as_ref().err().map(|error| error.code.as_str().to_owned()),
    };
    span.in_scope(|| tracing::debug!(failure, "answered as the owner"));
    traced.failed(failure).end();
    answer
}

// Rare or long-waiting branches are boxed, so that the future of a send stays small.
async fn answer(owner: &Arc<Owner>, call: Call) -> Result<Answered, LeadershipLost> {
    let deadline = Instant::now() + call.budget;
    // Buckets refill by elapsed time; setting the wall clock must neither fill nor starve them.
    let (now, steady) = (Timestamp::now(), Timestamp::steady());
    let told = |level: BucketLevel| level.by_the_wall(now, steady);
    let bucket = |(level, taken, lent)| Ok(OwnerResponse::Bucket { level: told(level), taken, lent });
    let buckets = || owner.buckets.lock();
    let result = match call.request {
        OwnerRequest::TakeCustomer { customer, rule, lend } => {
            bucket(buckets().customers.take(customer, rule, lend, steady))
        }
        OwnerRequest::PeekCustomer { customer, rule } => bucket(buckets().customers.peek(customer, rule, steady)),
        OwnerRequest::PeekChannel { customer, channel, rule } => {
            bucket(buckets().channels.peek((customer, channel), rule, steady))
        }
        OwnerRequest::TakeChannel { customer, channel, rule } => {
            bucket(buckets().channels.take((customer, channel), rule, 0, steady))
        }
        OwnerRequest::RefundCustomer { customer } => {
            buckets().refund_customer(customer, call.call_id);
            Ok(OwnerResponse::Nothing)
        }
        OwnerRequest::Attempt { subject, rule } => {
            Ok(OwnerResponse::Attempt { retry_after: buckets().attempt(subject, rule, steady).err() })
        }
        OwnerRequest::ReturnAttempt { subject, rule } => {
            buckets().return_attempt(subject, rule, call.call_id);
            Ok(OwnerResponse::Nothing)
        }
        OwnerRequest::Channel { work, .. } if owner.is_left_to_the_next(&work) => return Err(LeadershipLost),
        OwnerRequest::Channel { customer, channel, charge, work } => {
            let charged = charge.map(|rule| (rule, buckets().channels.take((customer, channel), rule, 0, steady)));
            if let Some((rule, (level, false, _))) = charged {
                let refused = CallError::rate_limited(LimitScope::Channel, rule.burst, level.retry_after);
                return Ok((Some(told(level)), Err(refused)));
            }
            let channel_level = charged.map(|(_, (level, ..))| told(level));
            let worked = owner.work(customer, channel, work, call.call_id, call.request_id, deadline).await;
            return Ok((channel_level, committer::told(worked)?));
        }
        OwnerRequest::ChannelStatuses { channels } if channels.len() <= FEW_STATUSES => {
            let statuses = channels.into_iter().map(|(customer, id)| (id, owner.stored_status(id, customer)));
            Ok(OwnerResponse::ChannelStatuses(statuses.collect()))
        }
        OwnerRequest::ChannelStatuses { channels } => {
            let customer = account_of(&channels);
            let reading = owner.clone();
            let statuses = owner.node.reads.read(customer, deadline, move |patience| {
                let in_time = channels.into_iter().take_while(|_| !patience.is_over());
                in_time.map(|(customer, id)| (id, reading.stored_status(id, customer))).collect::<Vec<_>>()
            });
            Box::pin(statuses).await.map(OwnerResponse::ChannelStatuses)
        }
        OwnerRequest::Deliveries(request) => {
            let answered = Box::pin(deliveries::serve::answer(owner, request, deadline)).await;
            committer::told(answered)?.map(OwnerResponse::Deliveries)
        }
        OwnerRequest::Usage(request) => {
            Box::pin(usage::answer(owner, request, deadline)).await.map(OwnerResponse::Usage)
        }
        OwnerRequest::MessageBytes { of } => owner.message_bytes_here(of).map(OwnerResponse::MessageBytes),
        OwnerRequest::MessageDeliveries { channels, message, after } => {
            let (reader, retention) = (owner.reader.clone(), owner.node.retention.clone());
            let running = owner.node.deliveries.running().clone();
            let whose = |state: &DirectoryState| Some(state.channels.get(channels.first()?)?.customer_id);
            let customer = owner.node.directory.read(whose);
            let found = owner.node.reads.read(customer, deadline, move |patience| {
                let (view, is_given_up) = (patience.over(reader), || patience.is_over());
                let oldest = |channel| retention.oldest_shown(&view, channel, now);
                history::deliveries::of_message(&view, &channels, &message, after, oldest, &running, &is_given_up)
            });
            in_time(Box::pin(found).await).map(OwnerResponse::MessageDeliveries)
        }
        OwnerRequest::History { customer, query } => {
            let shown = owner.shown();
            let retention = owner.node.retention.clone();
            let until = page_ends(deadline);
            let page = owner.node.reads.read(Some(customer), deadline, move |patience| {
                let (view, is_given_up) = (patience.over(shown), || patience.is_over());
                let oldest = |channel| retention.oldest_shown(&view, channel, now);
                let is_over = || is_given_up() || Instant::now() >= until;
                let budget = history::Budget { rows: PAGE_ROWS, is_over: &is_over, is_given_up: &is_given_up };
                history::page(&view, &query, oldest, budget)
            });
            in_time(Box::pin(page).await).map(OwnerResponse::History)
        }
        OwnerRequest::Stream { customer, request } => {
            Ok(OwnerResponse::Stream(Box::pin(serve::answer(owner, customer, request)).await?))
        }
        OwnerRequest::Relay { home, after, wait } => {
            Ok(OwnerResponse::Relayed(Box::pin(relay::pull(owner, home, after, wait)).await?))
        }
    };
    Ok((None, result))
}

/// The result of a read that may have ended early because its caller gave up.
fn in_time<T>(read: Result<Option<T>, CallError>) -> Result<T, CallError> {
    read.and_then(|made| made.ok_or_else(CallError::worker_at_capacity))
}

/// The most statuses that are read directly, beside other calls.
const FEW_STATUSES: usize = 500;

/// The most rows that one page of history examines in a shard: well below a second of reading.
const PAGE_ROWS: usize = 25_000;

/// When the read of a page has to end, if its call has to be answered by `deadline`.
fn page_ends(deadline: Instant) -> Instant {
    let now = Instant::now();
    now + (deadline.saturating_duration_since(now) / 2).min(Duration::from_secs(1))
}
