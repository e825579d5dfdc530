//! Tests of deliveries in the state machine: each has one job, in any order of commands.

use model::event::EventName;
use model::webhook::Outcome;

use super::*;
use crate::deliveries::command::{BulkAction, BulkOperation, DeliveryCommand, Next, Progress};
use crate::records::{AttemptRow, AttemptTrigger, BegunAttempt};

pub(super) fn attempt(trigger: AttemptTrigger) -> AttemptRow {
    AttemptRow {
        number: 0,
        trigger,
        started_at: Timestamp(60),
        latency_ms: 1,
        elapsed_ms: 2,
        outcome: Outcome::Http,
        http_status: Some(500),
        response_headers: Vec::new(),
        response_body: None,
        remote_ip: None,
        error: None,
    }
}

impl Rig {
    fn emitted(&mut self) -> DeliveryId {
        let (new, delivery) = event(EventName::ChannelStatus);
        assert_eq!(self.run(Command::Emit(new)), Reply::Done);
        delivery
    }

    fn deliver(&mut self, command: DeliveryCommand) -> Reply {
        self.run(Command::Delivery(command))
    }

    fn attempted(&mut self, delivery: DeliveryId, due: i64, trigger: AttemptTrigger, next: Next) -> Reply {
        let (endpoint, due, attempt) = (ENDPOINT, Timestamp(due), Some(attempt(trigger)));
        self.deliver(DeliveryCommand::Attempted { endpoint, delivery, due, attempt, next, noted: false })
    }

    fn redeliver(&mut self, delivery: DeliveryId, at: i64) -> Reply {
        self.deliver(DeliveryCommand::Redeliver { endpoint: ENDPOINT, delivery, at: Timestamp(at) })
    }

    fn jobs(&self) -> Vec<i64> {
        let jobs = self.state.scan_range(keys::jobs(), usize::MAX);
        jobs.iter().map(|(key, _)| keys::parse_job(key).unwrap().1.0).collect()
    }
}

#[test]
fn a_delivery_is_due_exactly_once_until_it_ends() {
    let mut rig = Rig::connected();
    let delivery = rig.emitted();
    rig.attempted(delivery, 50, AttemptTrigger::Scheduled, Next::Retry(Timestamp(5_000)));
    assert_eq!(rig.jobs(), [5_000]);
    rig.attempted(delivery, 5_000, AttemptTrigger::Scheduled, Next::Paused(Timestamp(9_000)));
    assert_eq!(rig.delivery(delivery).state, DeliveryState::Paused);
    let unpause = DeliveryCommand::Unpause { endpoint: ENDPOINT, deliveries: vec![delivery], at: Timestamp(6_000) };
    assert_eq!(rig.deliver(unpause.clone()), Reply::Done);
    assert_eq!(rig.deliver(unpause), Reply::Unchanged);
    assert_eq!(rig.delivery(delivery).state, DeliveryState::Retrying);
    let due = rig.jobs();
    assert_eq!(due.len(), 1);
    rig.attempted(delivery, due[0], AttemptTrigger::Scheduled, Next::Delivered);
    assert!(rig.jobs().is_empty());
    let done = rig.delivery(delivery);
    assert_eq!((done.state, done.attempt_count, done.scheduled), (DeliveryState::Delivered, 3, 3));
    assert_eq!(done.delivered_at, Some(Timestamp(62)));
    assert_eq!(rig.count(keys::attempts_of(ENDPOINT, delivery)), 3);
    assert_eq!(rig.count(keys::endpoints_of(CUSTOMER)), 1);
}

#[test]
fn a_redelivery_that_fails_leaves_the_schedule_where_it_was() {
    let mut rig = Rig::connected();
    let delivery = rig.emitted();
    assert_eq!(rig.redeliver(delivery, 55), Reply::Unchanged, "it is due anyway");
    rig.attempted(delivery, 50, AttemptTrigger::Scheduled, Next::Retry(Timestamp(5_000)));
    assert_eq!(rig.redeliver(delivery, 100), Reply::Done);
    assert_eq!(rig.redeliver(delivery, 100), Reply::Unchanged);
    assert_eq!(rig.jobs(), [100]);
    rig.attempted(delivery, 100, AttemptTrigger::Manual, Next::AsBefore);
    let row = rig.delivery(delivery);
    assert_eq!((row.state, row.scheduled, row.attempt_count), (DeliveryState::Retrying, 1, 2));
    assert_eq!(rig.jobs(), [5_000]);

    rig.attempted(delivery, 5_000, AttemptTrigger::Scheduled, Next::Exhausted);
    assert_eq!(rig.redeliver(delivery, 6_000), Reply::Done);
    rig.attempted(delivery, 6_000, AttemptTrigger::Manual, Next::AsBefore);
    assert_eq!(rig.delivery(delivery).state, DeliveryState::Exhausted);
    assert_eq!(rig.redeliver(delivery, 7_000), Reply::Done);
    rig.attempted(delivery, 7_000, AttemptTrigger::Manual, Next::Delivered);
    assert_eq!(rig.redeliver(delivery, 8_000), Reply::Done);
    rig.attempted(delivery, 8_000, AttemptTrigger::Manual, Next::AsBefore);
    let row = rig.delivery(delivery);
    assert_eq!((row.state, row.scheduled, row.attempt_count), (DeliveryState::Delivered, 2, 6));
    assert!(rig.jobs().is_empty());
}

#[test]
fn what_overtakes_an_attempt_stands_and_the_attempt_is_recorded() {
    let mut rig = Rig::connected();
    let (failing, succeeding) = (rig.emitted(), rig.emitted());
    let bulk = BulkOperation {
        id: uuid::Uuid::from_u128(9),
        customer: CUSTOMER,
        endpoint: ENDPOINT,
        work: BulkAction::Purge,
        states: vec![DeliveryState::Pending],
        until: Timestamp(1_000),
        reached: None,
    };
    assert_eq!(rig.deliver(DeliveryCommand::BeginBulk(bulk.clone())), Reply::Done);
    assert_eq!(rig.deliver(DeliveryCommand::BeginBulk(bulk.clone())), Reply::Unchanged);
    let step = DeliveryCommand::BulkStep {
        id: bulk.id,
        deliveries: vec![failing, succeeding],
        at: Timestamp(70),
        progress: Progress::Finished,
    };
    assert_eq!(rig.deliver(step.clone()), Reply::Done);
    assert_eq!(rig.deliver(step), Reply::Unchanged, "a bulk operation that is over does nothing");
    assert!(rig.jobs().is_empty());

    rig.attempted(failing, 50, AttemptTrigger::Scheduled, Next::Retry(Timestamp(5_000)));
    rig.attempted(succeeding, 50, AttemptTrigger::Scheduled, Next::Delivered);
    assert!(rig.jobs().is_empty(), "what was purged is not tried again");
    assert_eq!(rig.delivery(failing).state, DeliveryState::Exhausted);
    assert_eq!(rig.delivery(succeeding).state, DeliveryState::Delivered);
    assert_eq!(rig.delivery(failing).attempt_count, 1);
}

#[test]
fn an_attempt_that_was_cut_off_is_on_record_once_and_uses_up_nothing() {
    let mut rig = Rig::connected();
    let delivery = rig.emitted();
    let begun = BegunAttempt { due: Timestamp(50), trigger: AttemptTrigger::Scheduled, started_at: Timestamp(60) };
    let begin = DeliveryCommand::Begun { endpoint: ENDPOINT, delivery, attempt: begun };
    assert_eq!(rig.deliver(begin.clone()), Reply::Done);
    let cut = DeliveryCommand::Interrupted { deliveries: vec![(ENDPOINT, delivery)], at: Timestamp(80) };
    assert_eq!(rig.deliver(cut.clone()), Reply::Done);
    assert_eq!(rig.deliver(cut), Reply::Unchanged);
    let row = rig.delivery(delivery);
    assert_eq!((row.state, row.attempt_count, row.scheduled), (DeliveryState::Retrying, 1, 0));
    assert_eq!(row.last.unwrap().outcome, Outcome::Interrupted);
    assert_eq!(rig.jobs(), [80]);
    assert_eq!(rig.deliver(begin), Reply::Unchanged, "it has gone on since");
    assert_eq!(rig.count(keys::begun_attempts()), 0);
}

#[test]
fn only_the_last_attempts_are_kept() {
    let mut rig = Rig::connected();
    let delivery = rig.emitted();
    let mut due = 50;
    for n in 0..30 {
        let next = 100 + n;
        rig.attempted(delivery, due, AttemptTrigger::Scheduled, Next::Retry(Timestamp(next)));
        due = next;
    }
    assert_eq!(rig.delivery(delivery).attempt_count, 30);
    assert_eq!(rig.count(keys::attempts_of(ENDPOINT, delivery)), 20);
}
