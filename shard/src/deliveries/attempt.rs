//! One attempt of a stored delivery, from the record to the committed outcome.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use model::event::EventName;
use model::id::{DeliveryId, EndpointId};
use model::time::Timestamp;
use model::webhook::delivery::Verdict;
use model::webhook::{DeliveryState, Outcome, RetrySchedule};
use raft::directory::records::DisabledReason;
use raft::failpoint::{self, Point};
use raft::machine::View;
use raft::room::Level;
use tokio::sync::mpsc;
use tokio::task;

use super::Job;
use super::ToEngine;
use super::command::{DeliveryCommand, Next};
use super::health::switch_off;
use super::running::Running;
use crate::command::{Command, Reply};
use crate::figures;
use crate::keys;
use crate::owner::Owner;
use crate::records::{AttemptRow, AttemptTrigger, BegunAttempt, DeliveryRow, EventRow, Manual, decode};
use crate::shares::{Share, Shares};
use crate::trace::{self, Kind, Place};
use crate::webhook::attempt::{AttemptOutcome, AttemptRequest, Attempter, Failure};
use crate::webhook::material::Material;

/// How long deliveries wait for a disabled endpoint.
const PAUSE: Duration = Duration::from_secs(72 * 3600);

/// When the beginning of an attempt is recorded, so that the next owner can tell that it was cut off. Most answers come
/// sooner and cost no record.
const NOTED_AFTER: Duration = Duration::from_secs(1);

/// An event with more bytes counts as large.
const LARGE_EVENT: usize = 16 << 10;

/// How many attempts with large events an account has on a node at once: each holds its event in memory until the
/// receiver has answered, up to 512 KiB for up to 20 s.
pub(super) const LARGE_EVENTS_OF_ONE: usize = 32;

/// A finished attempt, its outcome committed.
#[derive(Default)]
pub(super) struct Finished {
    /// When the delivery is due again, if it is.
    pub next_due: Option<Timestamp>,
    /// The delivery waits for its endpoint to be enabled.
    pub paused: bool,
    /// The delivery was purged or made due again meanwhile: the queue has to be read again.
    pub overtaken: bool,
}

/// What attempts need besides their delivery.
#[derive(Clone)]
pub(super) struct Means {
    pub attempter: Arc<Attempter>,
    pub schedule: Arc<RetrySchedule>,
    pub running: Running,
    pub large_events: Arc<Shares>,
}

/// Makes the attempt; `None` if the ownership ends, or the delivery is gone. Without an outcome in the log the next
/// owner makes the attempt again, under the same event id.
pub(super) async fn run(
    means: Means,
    owner: Arc<Owner>,
    job: Job,
    engine: mpsc::UnboundedSender<ToEngine>,
) -> Option<Finished> {
    let Job { endpoint, delivery: id, due, .. } = job;
    let lost = owner.lost.clone();
    let taking = take(&means.large_events, &owner.reader, endpoint, id);
    let Taken { delivery, event, _place } = lost.run_until_cancelled(taking).await??;
    // The job was read from disk while its outcome was being committed; it is not due at this time any more.
    if delivery.next_attempt_at != Some(due) {
        return Some(Finished { overtaken: delivery.next_attempt_at.is_some(), ..Finished::default() });
    }
    let _in_flight = means.running.begin(id);
    let confirmed_and_made = async {
        directory_is_fresh(&owner).await;
        made(&means, &owner, &delivery, event).await
    };
    let (attempt, next, noted) = lost.run_until_cancelled(confirmed_and_made).await?;
    failpoint::reach(Point::WebhookAnswered);
    let _ = engine.send(ToEngine::Answered(task::id(), attempt.as_ref().and_then(tells_of_the_endpoint)));
    let room = match owner.over_message_bytes(delivery.customer) {
        Some(_) => Level::Low,
        None => owner.node.rooms.own().stores(),
    };
    let attempt = attempt.map(|attempt| kept(attempt, room));
    let resume_at = delivery.manual.and_then(|manual| manual.resume_at);
    let next_due = match next {
        Next::Retry(due) | Next::Paused(due) => Some(due),
        Next::AsBefore if delivery.delivered_at.is_none() => resume_at,
        Next::Delivered | Next::Exhausted | Next::AsBefore => None,
    };
    let paused = matches!(next, Next::Paused(_));
    let attempted = DeliveryCommand::Attempted { endpoint, delivery: id, due, attempt, next, noted };
    let committing = owner.committer.commit_deferred(vec![Command::Delivery(attempted)]).await.ok()?;
    let committed = committing.await;
    failpoint::reach(Point::WebhookRecorded);
    if committed.ok()? == [Reply::LostRace] {
        return Some(Finished { overtaken: true, ..Finished::default() });
    }
    Some(Finished { next_due, paused, overtaken: false })
}

/// A delivery that is due, and its stored event.
struct Taken {
    delivery: DeliveryRow,
    event: Option<Vec<u8>>,
    /// Held if the event is large.
    _place: Option<Share>,
}

/// Reads a delivery and its event. If the event is large, waits for a place without holding it in memory, and then
/// reads both again, since they may have changed.
async fn take(large_events: &Shares, view: &(impl View + Sync), endpoint: EndpointId, id: DeliveryId) -> Option<Taken> {
    let (delivery, event) = read(view, endpoint, id)?;
    if event.as_ref().is_none_or(|event| event.len() <= LARGE_EVENT) {
        return Some(Taken { delivery, event, _place: None });
    }
    let account = delivery.customer;
    drop((delivery, event));
    let place = large_events.take(account).await;
    let (delivery, event) = read(view, endpoint, id)?;
    Some(Taken { delivery, event, _place: Some(place) })
}

fn read(view: &impl View, endpoint: EndpointId, id: DeliveryId) -> Option<(DeliveryRow, Option<Vec<u8>>)> {
    let delivery: DeliveryRow = decode(&view.get(&keys::delivery(endpoint, id))?);
    let event = view.get(&keys::event(delivery.event_id.as_str()));
    Some((delivery, event))
}

/// Waits until this node's copy of the directory is fresh: a node that does not hear the directory would go on calling
/// a disabled endpoint. Waits for as long as the ownership lasts, since no other node may call it either.
async fn directory_is_fresh(owner: &Owner) {
    /// Poll interval; the node itself asks for confirmation of the copy.
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    while !owner.node.directory.is_fresh() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Makes the attempt, and records its beginning if it takes long. An attempt that panics counts as failed: it must
/// neither keep its place nor be repeated forever.
async fn made(
    means: &Means,
    owner: &Owner,
    delivery: &DeliveryRow,
    event: Option<Vec<u8>>,
) -> (Option<AttemptRow>, Next, bool) {
    let started_at = Timestamp::now();
    let mut attempt = pin!(AssertUnwindSafe(outcome_of(means, owner, delivery, event)).catch_unwind());
    let mut noted = false;
    let outcome = match tokio::time::timeout(NOTED_AFTER, &mut attempt).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let begun = BegunAttempt {
                due: delivery.next_attempt_at.unwrap_or(started_at),
                trigger: trigger(delivery),
                started_at,
            };
            let note = DeliveryCommand::Begun { endpoint: delivery.endpoint, delivery: delivery.id, attempt: begun };
            noted = owner.committer.commit_deferred(vec![Command::Delivery(note)]).await.is_ok();
            attempt.await
        }
    };
    let (attempt, next) = outcome.unwrap_or_else(|_| {
        tracing::error!(delivery = %delivery.id, "an attempt at a delivery panicked");
        let attempt = unmade(delivery, started_at, Outcome::Interrupted, "the gateway failed at the attempt");
        (Some(attempt), retry(&means.schedule, delivery, None))
    });
    (attempt, next, noted)
}

/// Whether the endpoint accepted an attempt; `None` if the attempt says nothing about the endpoint.
fn tells_of_the_endpoint(attempt: &AttemptRow) -> Option<bool> {
    match attempt.outcome {
        Outcome::Success => Some(true),
        Outcome::EndpointDeleted | Outcome::Interrupted => None,
        _ => Some(false),
    }
}

/// What is stored of an attempt: nothing of its answer while there is little room on the disk or in the account's
/// quota. One event of an account may bring fifty answers of 8 KiB each.
fn kept(attempt: AttemptRow, room: Level) -> AttemptRow {
    match room {
        Level::Enough => attempt,
        Level::Low | Level::Full => AttemptRow { response_headers: Vec::new(), response_body: None, ..attempt },
    }
}

fn trigger(delivery: &DeliveryRow) -> AttemptTrigger {
    if delivery.manual.is_some() { AttemptTrigger::Manual } else { AttemptTrigger::Scheduled }
}

async fn outcome_of(
    means: &Means,
    owner: &Owner,
    delivery: &DeliveryRow,
    event: Option<Vec<u8>>,
) -> (Option<AttemptRow>, Next) {
    let schedule = &*means.schedule;
    let now = Timestamp::now();
    let endpoint = owner.node.directory.read(|state| state.endpoints.get(&delivery.endpoint).cloned());
    let enabled = endpoint.as_ref().map(|endpoint| endpoint.enabled);
    if let Some(next) = untried(delivery.state, delivery.manual, delivery.created_at, enabled, now) {
        return (None, next);
    }
    let Some(endpoint) = endpoint else {
        let attempt = unmade(delivery, now, Outcome::EndpointDeleted, "the endpoint was deleted");
        return (Some(attempt), retry(schedule, delivery, None));
    };
    let event = event.map(|event| decode::<EventRow>(&event));
    let Some(EventRow { body, .. }) = event else { return (None, Next::Exhausted) };
    let Ok(material) = Material::open(&owner.node.directory, &owner.node.secrets, &endpoint, now) else {
        let attempt =
            unmade(delivery, now, Outcome::Blocked, "the endpoint's secrets cannot be opened with the master key");
        return (Some(attempt), retry(schedule, delivery, None));
    };
    let request = AttemptRequest {
        account: delivery.customer,
        url: endpoint.url.clone(),
        body,
        event: delivery.event.as_str().to_owned(),
        event_id: delivery.event_id.clone(),
        delivery_id: Some(delivery.id),
        attempt: delivery.attempt_count + 1,
        correlation_id: delivery.correlation_id.clone(),
        secrets: material.secrets,
        headers: material.headers,
        now,
    };
    let traced = delivery.correlation_id.as_deref().and_then(|origin| {
        trace::begin(origin, Place::Within, Kind::Client, || format!("webhook {}", delivery.event.as_str()))
    });
    let outcome = means.attempter.attempt(request).await;
    if let Some(span) = traced {
        let span = span
            .with("gateway.endpoint_id", delivery.endpoint.to_string())
            .with("gateway.delivery_id", delivery.id.to_string())
            .with("gateway.event_id", delivery.event_id.to_string())
            .with("gateway.attempt", i64::from(delivery.attempt_count) + 1)
            .with("gateway.outcome", outcome.outcome.as_str())
            .failed(outcome.error.clone());
        match outcome.http_status {
            Some(status) => span.with("http.response.status_code", i64::from(status)).end(),
            None => span.end(),
        }
    }
    metrics::counter!("gateway_webhook_attempts_total", "outcome" => outcome.outcome.as_str()).increment(1);
    figures::attempted(outcome.outcome == Outcome::Success);
    if outcome.outcome == Outcome::Success && delivery.event == EventName::MessageReceived {
        let took = Timestamp::now().since(delivery.created_at);
        metrics::histogram!("gateway_inbound_to_webhook_seconds").record(took.as_secs_f64());
    }
    let next = match outcome.http_status.map(Verdict::of_status) {
        Some(Verdict::Delivered) => Next::Delivered,
        Some(Verdict::Gone) => {
            switch_off(&owner.node.directory, &endpoint, DisabledReason::Gone).await;
            gone(delivery.manual)
        }
        Some(Verdict::Retry { heeds_retry_after: true }) => retry(schedule, delivery, outcome.retry_after),
        Some(Verdict::Retry { heeds_retry_after: false }) | None => retry(schedule, delivery, None),
    };
    (Some(record(delivery, now, outcome)), next)
}

/// What follows for a due delivery that is not attempted: its endpoint is disabled, or was until the time to wait for
/// it was over. `enabled` is the endpoint's, if it exists.
fn untried(
    state: DeliveryState,
    manual: Option<Manual>,
    created_at: Timestamp,
    enabled: Option<bool>,
    now: Timestamp,
) -> Option<Next> {
    let until = created_at.plus(PAUSE);
    if state == DeliveryState::Paused && now >= until {
        return Some(Next::Exhausted);
    }
    if enabled != Some(false) {
        return None;
    }
    Some(match manual {
        Some(manual) if !was_paused(manual, created_at) => Next::AsBefore,
        _ if now >= until => Next::Exhausted,
        _ => Next::Paused(until),
    })
}

/// Whether a delivery that was repeated by hand had been paused.
fn was_paused(manual: Manual, created_at: Timestamp) -> bool {
    manual.resume_at == Some(created_at.plus(PAUSE))
}

/// What follows a failed attempt by hand: the delivery continues as before. One that was paused is due at once: its
/// endpoint is enabled again, and the search for paused deliveries does not find it any more.
fn as_before(manual: Manual, created_at: Timestamp, now: Timestamp) -> Next {
    if was_paused(manual, created_at) { Next::Retry(now) } else { Next::AsBefore }
}

/// What follows when the receiver says that it is gone for good: no attempt is left. A delivery that had ended before
/// it was repeated by hand stays as it was.
fn gone(manual: Option<Manual>) -> Next {
    match manual {
        Some(Manual { resume_at: None }) => Next::AsBefore,
        _ => Next::Exhausted,
    }
}

/// What follows a failed attempt.
fn retry(schedule: &RetrySchedule, delivery: &DeliveryRow, asked: Option<Duration>) -> Next {
    if let Some(manual) = delivery.manual {
        return as_before(manual, delivery.created_at, Timestamp::now());
    }
    match schedule.delay_after(delivery.scheduled + 1, rand::random(), asked) {
        Some(delay) => Next::Retry(Timestamp::now().plus(delay)),
        None => Next::Exhausted,
    }
}

fn record(delivery: &DeliveryRow, started_at: Timestamp, outcome: AttemptOutcome) -> AttemptRow {
    AttemptRow {
        number: delivery.attempt_count + 1,
        trigger: trigger(delivery),
        started_at,
        latency_ms: outcome.latency_ms,
        elapsed_ms: outcome.elapsed_ms,
        outcome: outcome.outcome,
        http_status: outcome.http_status,
        response_headers: outcome.response_headers,
        response_body: outcome.response_body,
        remote_ip: outcome.remote_ip.map(|ip| ip.to_string()),
        error: outcome.error,
    }
}

/// An attempt that counts although no request was made.
fn unmade(delivery: &DeliveryRow, started_at: Timestamp, outcome: Outcome, why: &str) -> AttemptRow {
    metrics::counter!("gateway_webhook_attempts_total", "outcome" => outcome.as_str()).increment(1);
    figures::attempted(false);
    record(delivery, started_at, Failure::new(outcome, why).into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use model::event::EventId;
    use model::id::{ChannelId, CustomerId};
    use raft::machine::{MemoryState, Pairs, State};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::records::encode;

    /// A delivery of an event of this size.
    fn put(state: &mut MemoryState, customer: CustomerId, event_bytes: usize) -> (EndpointId, DeliveryId) {
        let now = Timestamp(1_000);
        let delivery = DeliveryRow {
            id: DeliveryId::random(),
            endpoint: EndpointId::random(),
            customer,
            channel: ChannelId(uuid::Uuid::nil()),
            event: EventName::MessageReceived,
            event_id: EventId::mint(now, rand::random()),
            message_id: None,
            correlation_id: None,
            chat: None,
            url: "https://receiver.example".to_owned(),
            state: DeliveryState::Pending,
            attempt_count: 0,
            scheduled: 0,
            next_attempt_at: Some(now),
            delivered_at: None,
            created_at: now,
            last: None,
            manual: None,
        };
        state.put(&keys::event(delivery.event_id.as_str()), &vec![b'x'; event_bytes]);
        state.put(&keys::delivery(delivery.endpoint, delivery.id), &encode(&delivery));
        (delivery.endpoint, delivery.id)
    }

    #[test]
    fn large_events_of_one_account_wait_for_each_other_and_nobody_else_does() {
        let mut state = MemoryState::new();
        let [loud, quiet] = [(); 2].map(|()| CustomerId::random());
        let large = put(&mut state, loud, LARGE_EVENT + 1);
        let small = put(&mut state, loud, LARGE_EVENT);
        let of_another = put(&mut state, quiet, LARGE_EVENT + 1);
        let large_events = Shares::new(Semaphore::MAX_PERMITS, 1);
        let begins = |(endpoint, id)| {
            let taken = take(&large_events, &state, endpoint, id).now_or_never()?;
            Some(taken.unwrap()._place)
        };
        let held = begins(large).unwrap();
        assert!(held.is_some() && begins(large).is_none());
        assert!(begins(small).unwrap().is_none(), "it takes no place");
        assert!(begins(of_another).unwrap().is_some());
        drop(held);
        assert!(begins(large).unwrap().is_some());
    }

    /// Counts the reads of single rows.
    struct Counted<'a> {
        state: &'a MemoryState,
        reads: AtomicUsize,
    }

    impl View for Counted<'_> {
        fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.state.get(key)
        }

        fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
            self.state.scan(from, to, limit)
        }

        fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
            self.state.scan_back(from, to, limit)
        }
    }

    #[test]
    fn a_delivery_and_its_event_are_read_once_and_once_more_after_a_wait_for_a_place() {
        let mut state = MemoryState::new();
        let large_events = Shares::new(Semaphore::MAX_PERMITS, 1);
        for (bytes, reads) in [(LARGE_EVENT, 2), (LARGE_EVENT + 1, 4)] {
            let (endpoint, id) = put(&mut state, CustomerId::random(), bytes);
            let view = Counted { state: &state, reads: AtomicUsize::new(0) };
            let taken = take(&large_events, &view, endpoint, id).now_or_never().unwrap().unwrap();
            assert_eq!(taken.event.unwrap().len(), bytes);
            assert_eq!(view.reads.into_inner(), reads, "{bytes}");
        }
    }

    #[test]
    fn nothing_is_kept_of_an_answer_while_there_is_little_room() {
        let attempt = AttemptRow {
            number: 1,
            trigger: AttemptTrigger::Scheduled,
            started_at: MADE,
            latency_ms: 7,
            elapsed_ms: 9,
            outcome: Outcome::Http,
            http_status: Some(500),
            response_headers: vec![("server".to_owned(), "x".to_owned())],
            response_body: Some("y".to_owned()),
            remote_ip: None,
            error: None,
        };
        for (room, is_kept) in [(Level::Enough, true), (Level::Low, false), (Level::Full, false)] {
            let kept = kept(attempt.clone(), room);
            assert_eq!((kept.http_status, kept.latency_ms), (Some(500), 7));
            assert_eq!(
                (kept.response_headers.is_empty(), kept.response_body.is_none()),
                (!is_kept, !is_kept),
                "{room:?}"
            );
        }
    }

    #[test]
    fn a_receiver_that_is_gone_ends_what_was_still_to_be_tried() {
        assert_eq!(gone(None), Next::Exhausted);
        assert_eq!(gone(Some(Manual { resume_at: Some(Timestamp(5_000)) })), Next::Exhausted);
        assert_eq!(gone(Some(Manual { resume_at: None })), Next::AsBefore, "it had ended before");
    }

    const MADE: Timestamp = Timestamp(1_000);

    /// Repeated by hand when the schedule would have continued after this time.
    fn again(after: Duration) -> Manual {
        Manual { resume_at: Some(MADE.plus(after)) }
    }

    #[test]
    fn a_paused_delivery_that_fails_by_hand_goes_on_at_once() {
        let now = Timestamp(9_000);
        assert_eq!(as_before(again(PAUSE), MADE, now), Next::Retry(now));
        for other in [again(Duration::from_secs(60)), Manual { resume_at: None }] {
            assert_eq!(as_before(other, MADE, now), Next::AsBefore);
        }
    }

    #[test]
    fn a_delivery_waits_for_an_endpoint_that_is_switched_off_until_its_time_is_over() {
        use DeliveryState::{Paused, Retrying};
        let (until, early) = (MADE.plus(PAUSE), Timestamp(9_000));
        let paused = Some(Next::Paused(until));
        assert_eq!(untried(Retrying, None, MADE, Some(false), early), paused);
        assert_eq!(untried(Retrying, None, MADE, Some(false), until), Some(Next::Exhausted));
        let by_hand = |manual, now| untried(Retrying, Some(manual), MADE, Some(false), now);
        assert_eq!(by_hand(again(PAUSE), early), paused, "its endpoint went off again before it was tried");
        assert_eq!(by_hand(again(PAUSE), until), Some(Next::Exhausted));
        assert_eq!(by_hand(again(Duration::from_secs(60)), early), Some(Next::AsBefore));
        for enabled in [Some(true), None] {
            assert_eq!(untried(Retrying, None, MADE, enabled, until), None);
            assert_eq!(untried(Paused, None, MADE, enabled, until), Some(Next::Exhausted), "{enabled:?}");
        }
    }
}
