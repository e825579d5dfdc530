//! What an owner does with a call.

mod usage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::limit::{BucketLevel, LimitScope};
use model::time::Timestamp;
use raft::directory::state::DirectoryState;
use tracing::Instrument;

use crate::call::{Answer, Ask, Call, Done, account_of};
use crate::deliveries;
use crate::history;
use crate::owner::streams::{relay, serve};
use crate::owner::{NotLeader, Owner};
use crate::trace::{self, Kind, Place};

/// Answers a call at the owner of its shard, if nobody else can own it yet: an owner that is cut off does not hear of its
/// successor, and what it reads is an old state.
pub async fn to(owner: &Arc<Owner>, call: Call) -> Answer {
    let answer = traced(owner, call).await;
    // Asked after the reading: the process may have stood still in between.
    if owner.fence.is_live() { answer } else { Answer::NotLeader }
}

/// What it logs meanwhile bears the request's id, when the request is traced.
async fn traced(owner: &Arc<Owner>, call: Call) -> Answer {
    let traced = matches!(call.ask, Ask::Channel { .. })
        .then(|| trace::begin(&call.request_id.0, Place::Within, Kind::Server, || "owner".to_owned()));
    let Some(traced) = traced.flatten() else { return answer(owner, call).await };
    let span = tracing::info_span!("call", request_id = %call.request_id, trace_id = traced.trace());
    let traced = traced
        .with("gateway.node_id", i64::try_from(owner.node.node).unwrap_or(i64::MAX))
        .with("gateway.shard", i64::from(owner.shard))
        .with("gateway.epoch", i64::try_from(owner.epoch).unwrap_or(i64::MAX));
    let answer = answer(owner, call).instrument(span.clone()).await;
    let failure = match &answer {
        Answer::NotLeader => Some("no longer the owner".to_owned()),
        Answer::Result { result: Err(error), .. } => Some(error.code.as_str().to_owned()),
        Answer::Result { result: Ok(_), .. } => None,
    };
    span.in_scope(|| tracing::debug!(failure, "answered as the owner"));
    traced.failed(failure).end();
    answer
}

async fn answer(owner: &Arc<Owner>, call: Call) -> Answer {
    let deadline = Instant::now() + call.budget;
    // Buckets count what time has passed; a clock that is set must neither fill nor starve them.
    let (now, steady) = (Timestamp::now(), Timestamp::steady());
    let told = |level: BucketLevel| level.by_the_wall(now, steady);
    match call.ask {
        Ask::TakeCustomer { customer, rule, lend } => {
            let (level, taken, lent) = owner.buckets.lock().take_customer(customer, rule, lend, steady);
            done(Done::Bucket { level: told(level), taken, lent })
        }
        Ask::RefundCustomer { customer } => {
            owner.buckets.lock().refund_customer(customer, call.call_id);
            done(Done::Nothing)
        }
        Ask::Attempt { subject, rule } => {
            let tried = owner.buckets.lock().attempt(subject, rule, steady);
            done(Done::Attempt { retry_after: tried.err() })
        }
        Ask::ReturnAttempt { subject, rule } => {
            owner.buckets.lock().return_attempt(subject, rule, call.call_id);
            done(Done::Nothing)
        }
        Ask::PeekCustomer { customer, rule } => {
            let level = owner.buckets.lock().customer(customer, rule, steady);
            done(Done::Bucket { level: told(level), taken: false, lent: 0 })
        }
        Ask::PeekChannel { customer, channel, rule } => {
            let level = owner.buckets.lock().channel(customer, channel, rule, steady);
            done(Done::Bucket { level: told(level), taken: false, lent: 0 })
        }
        Ask::TakeChannel { customer, channel, rule } => {
            let (level, taken) = owner.buckets.lock().take_channel(customer, channel, rule, steady);
            done(Done::Bucket { level: told(level), taken, lent: 0 })
        }
        Ask::Channel { customer, channel, charge, work } => {
            let charged = charge.map(|rule| (rule, owner.buckets.lock().take_channel(customer, channel, rule, steady)));
            if let Some((rule, (level, false))) = charged {
                let refused = CallError::rate_limited(LimitScope::Channel, rule.burst, level.retry_after);
                return Answer::Result { channel_level: Some(told(level)), result: Err(refused) };
            }
            let channel_level = charged.map(|(_, (level, _))| told(level));
            match owner.work(customer, channel, work, call.call_id, call.request_id, deadline).await {
                Ok(result) => Answer::Result { channel_level, result },
                Err(_) => Answer::NotLeader,
            }
        }
        Ask::Lives { channels } if channels.len() <= FEW_LIVES => {
            let lives = channels.into_iter().map(|(customer, id)| (id, owner.stored_live(id, customer)));
            done(Done::Lives(lives.collect()))
        }
        Ask::Lives { channels } => {
            let customer = account_of(&channels);
            let reading = owner.clone();
            let lives = owner.node.reads.read(customer, deadline, move |patience| {
                let in_time = channels.into_iter().take_while(|_| !patience.is_over());
                in_time.map(|(customer, id)| (id, reading.stored_live(id, customer))).collect::<Vec<_>>()
            });
            Answer::Result { channel_level: None, result: lives.await.map(Done::Lives) }
        }
        Ask::Deliveries(ask) => match deliveries::serve::answer(owner, ask, deadline).await {
            Ok(result) => Answer::Result { channel_level: None, result: result.map(Done::Deliveries) },
            Err(NotLeader) => Answer::NotLeader,
        },
        Ask::Usage(ask) => {
            Answer::Result { channel_level: None, result: usage::answer(owner, ask, deadline).await.map(Done::Usage) }
        }
        Ask::MessageBytes { of } => done(Done::MessageBytes(owner.message_bytes_here(of))),
        Ask::MessageDeliveries { channels, message, after } => {
            let (reader, retention) = (owner.reader.clone(), owner.node.retention.clone());
            let running = owner.node.deliveries.running().clone();
            let whose = |state: &DirectoryState| Some(state.channels.get(channels.first()?)?.customer_id);
            let customer = owner.node.directory.read(whose);
            let found = owner.node.reads.read(customer, deadline, move |patience| {
                let (view, is_given_up) = (patience.over(reader), || patience.is_over());
                let oldest = |channel| retention.oldest_shown(&view, channel, now);
                history::deliveries::of_message(&view, &channels, &message, after, oldest, &running, &is_given_up)
            });
            Answer::Result { channel_level: None, result: in_time(found.await).map(Done::MessageDeliveries) }
        }
        Ask::History { customer, query } => {
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
            Answer::Result { channel_level: None, result: in_time(page.await).map(Done::History) }
        }
        Ask::Stream { customer, ask } => still_owned(serve::answer(owner, customer, ask).await.map(Done::Stream)),
        Ask::Relay { home, after, wait } => still_owned(relay::pull(owner, home, after, wait).await.map(Done::Relayed)),
    }
}

fn done(done: Done) -> Answer {
    Answer::Result { channel_level: None, result: Ok(done) }
}

fn still_owned(result: Result<Done, NotLeader>) -> Answer {
    result.map_or(Answer::NotLeader, done)
}

/// What a reading has made that ends by itself once its caller has given up.
fn in_time<T>(read: Result<Option<T>, CallError>) -> Result<T, CallError> {
    read.and_then(|made| made.ok_or_else(CallError::worker_at_capacity))
}

/// As many live parts as are read at once, beside other calls.
const FEW_LIVES: usize = 500;

/// Rows that one page of history looks at in a shard: well below a second of reading.
const PAGE_ROWS: usize = 25_000;

/// When the reading of a page ends whose call is to be answered by `deadline`.
fn page_ends(deadline: Instant) -> Instant {
    let now = Instant::now();
    now + (deadline.saturating_duration_since(now) / 2).min(Duration::from_secs(1))
}
