//! Applies commands about deliveries: attempts, pauses, redeliveries, and bulk operations.

use std::time::Duration;

use model::id::{DeliveryId, EndpointId};
use model::time::Timestamp;
use model::webhook::{DeliveryState, Outcome};

use super::Apply;
use crate::command::Reply;
use crate::deliveries::command::{BulkAction, BulkOperation, DeliveryCommand, Next, Progress};
use crate::keys;
use crate::records::{
    ATTEMPTS_KEPT, AttemptRow, AttemptTrigger, BegunAttempt, DeliveryRow, LastAttempt, Manual, encode,
};

/// The period over which the deliveries of an endpoint that was enabled again are spread.
const UNPAUSE_SPREAD_MS: u64 = 60_000;

impl Apply<'_> {
    pub(super) fn delivery(&mut self, command: DeliveryCommand) -> Reply {
        match command {
            DeliveryCommand::Begun { endpoint, delivery, attempt } => self.begun(endpoint, delivery, attempt),
            DeliveryCommand::Attempted { endpoint, delivery, due, attempt, next, noted } => {
                if noted {
                    self.state.delete(&keys::begun_attempt(endpoint, delivery));
                }
                self.attempted(endpoint, delivery, due, attempt, next)
            }
            DeliveryCommand::Interrupted { deliveries, at } => {
                any(deliveries.into_iter().map(|(endpoint, id)| self.interrupted(endpoint, id, at)))
            }
            DeliveryCommand::Unpause { endpoint, deliveries, at } => {
                any(deliveries.into_iter().map(|id| self.unpause(endpoint, id, at)))
            }
            DeliveryCommand::Redeliver { endpoint, delivery, at } => any([self.redeliver(endpoint, delivery, at)]),
            DeliveryCommand::BeginBulk(bulk) => {
                let key = keys::bulk_operation(bulk.id);
                if self.state.get(&key).is_some() {
                    return Reply::Unchanged;
                }
                self.state.put(&key, &encode(&bulk));
                Reply::Done
            }
            DeliveryCommand::BulkStep { id, deliveries, at, progress } => {
                let key = keys::bulk_operation(id);
                let Some(bulk) = self.read::<BulkOperation>(&key) else { return Reply::Unchanged };
                let changed = any(deliveries.into_iter().map(|delivery| match bulk.work {
                    BulkAction::Recover { .. } => self.redeliver(bulk.endpoint, delivery, at),
                    BulkAction::Purge => self.purge(bulk.endpoint, delivery, at),
                }));
                match progress {
                    Progress::Reached(reached) => {
                        self.state.put(&key, &encode(&BulkOperation { reached: Some(reached), ..bulk }));
                    }
                    Progress::Finished => self.state.delete(&key),
                }
                changed
            }
        }
    }

    /// Writes a new delivery, due at `due`.
    pub(super) fn create_delivery(&mut self, row: &DeliveryRow, due: Timestamp) {
        let of_customer = keys::customer_endpoint(row.customer, row.endpoint);
        if self.state.get(&of_customer).is_none() {
            self.state.put(&of_customer, &[]);
        }
        self.state.put(&keys::job(row.endpoint, due, row.id), keys::JOB_DUE);
        self.put_delivery(row);
    }

    fn put_delivery(&mut self, row: &DeliveryRow) {
        self.state.put(&keys::delivery(row.endpoint, row.id), &encode(row));
    }

    fn find_delivery(&self, endpoint: EndpointId, id: DeliveryId) -> Option<DeliveryRow> {
        self.read(&keys::delivery(endpoint, id))
    }

    /// Changes the state and the due time of a delivery, and moves its job. The caller writes the row.
    fn plan(&mut self, row: &mut DeliveryRow, state: DeliveryState, due: Option<Timestamp>) {
        self.count_waiting(row, state);
        if let Some(due) = row.next_attempt_at {
            self.state.delete(&keys::job(row.endpoint, due, row.id));
        }
        if let Some(due) = due {
            let mark = if state == DeliveryState::Paused { keys::JOB_PAUSED } else { keys::JOB_DUE };
            self.state.put(&keys::job(row.endpoint, due, row.id), mark);
        }
        (row.state, row.next_attempt_at) = (state, due);
    }

    fn begun(&mut self, endpoint: EndpointId, id: DeliveryId, attempt: BegunAttempt) -> Reply {
        if self.find_delivery(endpoint, id).is_none_or(|row| row.next_attempt_at != Some(attempt.due)) {
            return Reply::Unchanged;
        }
        self.state.put(&keys::begun_attempt(endpoint, id), &encode(&attempt));
        Reply::Done
    }

    fn attempted(
        &mut self,
        endpoint: EndpointId,
        id: DeliveryId,
        due: Timestamp,
        attempt: Option<AttemptRow>,
        next: Next,
    ) -> Reply {
        let Some(mut row) = self.find_delivery(endpoint, id) else { return Reply::Unchanged };
        let finished_at =
            attempt.as_ref().map(|attempt| attempt.started_at.plus(Duration::from_millis(attempt.elapsed_ms)));
        let recorded = attempt.is_some();
        let latency_ms = attempt.as_ref().map(|attempt| attempt.latency_ms);
        if let Some(attempt) = attempt {
            row.scheduled += u32::from(attempt.trigger == AttemptTrigger::Scheduled);
            self.record(&mut row, attempt);
        }
        let overtaken = row.next_attempt_at != Some(due);
        if overtaken && !recorded {
            return Reply::Unchanged;
        }
        let at = finished_at.unwrap_or(due);
        let (state, due) = match next {
            Next::Delivered => {
                if row.delivered_at.is_none() {
                    self.count_delivered(&row, latency_ms, at);
                }
                row.delivered_at = finished_at;
                (DeliveryState::Delivered, None)
            }
            Next::Exhausted => {
                if !overtaken {
                    self.count_exhausted(&row, at);
                }
                (DeliveryState::Exhausted, None)
            }
            Next::Retry(due) => (DeliveryState::Retrying, Some(due)),
            Next::Paused(until) => (DeliveryState::Paused, Some(until)),
            Next::AsBefore => match (row.delivered_at, row.manual.and_then(|manual| manual.resume_at)) {
                (Some(_), _) => (DeliveryState::Delivered, None),
                (None, Some(resume_at)) => (DeliveryState::Retrying, Some(resume_at)),
                (None, None) => (DeliveryState::Exhausted, None),
            },
        };
        if !overtaken {
            row.manual = None;
            self.plan(&mut row, state, due);
        } else if state == DeliveryState::Delivered && row.next_attempt_at.is_none() {
            // The delivery was purged while the successful attempt ran.
            row.state = DeliveryState::Delivered;
        }
        self.put_delivery(&row);
        if overtaken { Reply::LostRace } else { Reply::Done }
    }

    /// Writes an attempt's row. Only the last [`ATTEMPTS_KEPT`] are kept.
    fn record(&mut self, row: &mut DeliveryRow, mut attempt: AttemptRow) {
        row.attempt_count += 1;
        attempt.number = row.attempt_count;
        row.last = Some(LastAttempt {
            started_at: attempt.started_at,
            outcome: attempt.outcome,
            http_status: attempt.http_status,
            latency_ms: attempt.latency_ms,
        });
        self.state.put(&keys::attempt(row.endpoint, row.id, attempt.number), &encode(&attempt));
        if let Some(oldest) = attempt.number.checked_sub(ATTEMPTS_KEPT).filter(|oldest| *oldest > 0) {
            self.state.delete(&keys::attempt(row.endpoint, row.id, oldest));
        }
    }

    /// Records an attempt that was cut off. It may have reached its receiver; the schedule does not count it.
    fn interrupted(&mut self, endpoint: EndpointId, id: DeliveryId, at: Timestamp) -> bool {
        let key = keys::begun_attempt(endpoint, id);
        let Some(begun) = self.read::<BegunAttempt>(&key) else { return false };
        self.state.delete(&key);
        let Some(mut row) = self.find_delivery(endpoint, id) else { return false };
        let attempt = AttemptRow {
            number: 0,
            trigger: begun.trigger,
            started_at: begun.started_at,
            latency_ms: 0,
            elapsed_ms: u64::try_from(at.since(begun.started_at).as_millis()).unwrap_or(u64::MAX),
            outcome: Outcome::Interrupted,
            http_status: None,
            response_headers: Vec::new(),
            response_body: None,
            remote_ip: None,
            error: Some("the node that made the attempt was lost".to_owned()),
        };
        self.record(&mut row, attempt);
        if row.next_attempt_at == Some(begun.due) {
            self.plan(&mut row, DeliveryState::Retrying, Some(at));
        }
        self.put_delivery(&row);
        true
    }

    fn unpause(&mut self, endpoint: EndpointId, id: DeliveryId, at: Timestamp) -> bool {
        let Some(mut row) = self.find_delivery(endpoint, id).filter(|row| row.state == DeliveryState::Paused) else {
            return false;
        };
        let spread = u64::from(id.as_bytes()[15]) * UNPAUSE_SPREAD_MS / 256;
        self.plan(&mut row, DeliveryState::Retrying, Some(at.plus(Duration::from_millis(spread))));
        self.put_delivery(&row);
        true
    }

    /// Makes a delivery due by manual request, unless it is due already.
    fn redeliver(&mut self, endpoint: EndpointId, id: DeliveryId, at: Timestamp) -> bool {
        let Some(mut row) = self.find_delivery(endpoint, id).filter(|row| !row.is_due(at)) else { return false };
        let resume_at = row.manual.map_or(row.next_attempt_at, |manual| manual.resume_at);
        row.manual = Some(Manual { resume_at });
        self.plan(&mut row, DeliveryState::Retrying, Some(at));
        self.put_delivery(&row);
        true
    }

    /// Ends a waiting delivery. An attempt that is running is still recorded.
    fn purge(&mut self, endpoint: EndpointId, id: DeliveryId, at: Timestamp) -> bool {
        let Some(mut row) = self.find_delivery(endpoint, id).filter(|row| !row.state.is_final()) else { return false };
        // A delivery that had ended, and was only waiting for a manual attempt, is not counted as ended again.
        if row.manual.take().is_none_or(|manual| manual.resume_at.is_some()) {
            self.count_exhausted(&row, at);
        }
        self.plan(&mut row, DeliveryState::Exhausted, None);
        self.put_delivery(&row);
        true
    }
}

fn any(changed: impl IntoIterator<Item = bool>) -> Reply {
    // Iterates over all items, also after the first change.
    let count = changed.into_iter().filter(|changed| *changed).count();
    if count > 0 { Reply::Done } else { Reply::Unchanged }
}
