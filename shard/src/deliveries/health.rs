//! Collects how endpoints answer, reports it to the directory now and then, and disables endpoints that fail for long.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{AuditId, EndpointId};
use model::time::Timestamp;
use raft::directory::Directory;
use raft::directory::command::Command;
use raft::directory::health::{DisableRule, HealthNote};
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget, DisabledReason, EndpointRecord};

/// Maximum endpoints in one entry of the directory's log.
const MOST_NOTES: usize = 200;

/// How many times an endpoint that turns, from failing to succeeding or back, is reported early.
const MOST_TURNS: u8 = 4;

/// Timeout of a report, and of disabling an endpoint.
const PATIENCE: Duration = Duration::from_secs(5);

/// What this node has seen since its last reports.
pub struct Health {
    unnoted: HashMap<EndpointId, HealthNote>,
    noted: HashMap<EndpointId, Noted>,
    /// An endpoint is reported once in this time, and once more for each of a few turns: the directory must not be
    /// written with every delivery.
    note_every: Duration,
}

struct Noted {
    at: Instant,
    /// How many turns were reported since then.
    turns: u8,
}

impl Health {
    pub fn new(note_every: Duration) -> Self {
        Self { unnoted: HashMap::new(), noted: HashMap::new(), note_every }
    }

    /// Counts an endpoint's answer, or its failure to answer.
    pub fn heard(&mut self, endpoint: EndpointId, success: bool, now: Timestamp) {
        let nothing =
            HealthNote { endpoint, last_success_at: None, failures: 0, first_failure_at: None, last_failure_at: None };
        let note = self.unnoted.entry(endpoint).or_insert(nothing);
        if success {
            *note = HealthNote { last_success_at: Some(now), ..nothing };
        } else {
            note.failures += 1;
            note.first_failure_at = note.first_failure_at.or(Some(now));
            note.last_failure_at = Some(now);
        }
    }

    /// Takes the reports that are due. `fails`: whether an endpoint fails according to the directory.
    pub fn take(&mut self, now: Instant, fails: impl Fn(EndpointId) -> bool) -> Vec<HealthNote> {
        let every = self.note_every;
        self.noted.retain(|_, noted| now.saturating_duration_since(noted.at) < every);
        let is_due = |note: &HealthNote| match self.noted.get(&note.endpoint) {
            Some(noted) => noted.turns < MOST_TURNS && fails(note.endpoint) != (note.failures > 0),
            None => true,
        };
        let due: Vec<EndpointId> =
            self.unnoted.values().filter(|note| is_due(note)).map(|note| note.endpoint).take(MOST_NOTES).collect();
        due.into_iter()
            .filter_map(|id| {
                self.noted.entry(id).and_modify(|noted| noted.turns += 1).or_insert(Noted { at: now, turns: 0 });
                self.unnoted.remove(&id)
            })
            .collect()
    }
}

/// Reports to the directory, and disables the endpoints that have failed for long enough. A failed report is dropped:
/// the figures are coarse, and the next deliveries tell the same.
pub async fn note(directory: Arc<Directory>, notes: Vec<HealthNote>, rule: DisableRule) {
    let endpoints: Vec<EndpointId> = notes.iter().map(|note| note.endpoint).collect();
    let deadline = Instant::now() + PATIENCE;
    if let Err(error) = directory.update(Command::NoteHealth(notes), Vec::new(), deadline).await {
        tracing::debug!(%error, "how endpoints answer was not noted");
        return;
    }
    let now = Timestamp::now();
    for id in endpoints {
        let failed = directory.read(|state| {
            let endpoint = state.endpoints.get(&id)?;
            let failed = endpoint.enabled && endpoint.health.has_failed_for_good(endpoint.created_at, now, &rule);
            failed.then(|| endpoint.clone())
        });
        if let Some(endpoint) = failed {
            switch_off(&directory, &endpoint, DisabledReason::Failing).await;
        }
    }
}

/// Disables an endpoint, with an entry in its customer's audit log. Only the first of several tries takes effect, so
/// that ten simultaneous answers 410 make one entry.
pub async fn switch_off(directory: &Directory, endpoint: &EndpointRecord, reason: DisabledReason) {
    let word = match reason {
        DisabledReason::Gone => "gone",
        DisabledReason::Failing => "failing",
    };
    let command = Command::DisableEndpoint { id: endpoint.id, reason };
    let target = AuditTarget::new("webhook_endpoint", endpoint.id, &endpoint.url);
    let (id, actor) = (AuditId::new(), AuditActor::of_kind("system"));
    let entry = AuditEntry {
        customer_id: Some(endpoint.customer_id),
        details: BTreeMap::from([("reason".to_owned(), word.to_owned())]),
        ..AuditEntry::done(id, "webhook.auto_disabled", actor, target, Timestamp::now())
    };
    match directory.update(command, vec![entry], Instant::now() + PATIENCE).await {
        Ok(_) => tracing::info!(endpoint = %endpoint.id, reason = word, "an endpoint was disabled"),
        Err(raft::directory::UpdateError::Rejected(_)) => {}
        Err(error) => tracing::warn!(endpoint = %endpoint.id, %error, "an endpoint was not disabled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_noted_once_in_a_while_and_when_it_turns() {
        let endpoint = EndpointId::random();
        let (mut health, now) = (Health::new(Duration::from_secs(300)), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        health.heard(endpoint, false, Timestamp(1));
        health.heard(endpoint, false, Timestamp(2));
        let notes = health.take(now, |_| false);
        assert_eq!((notes.len(), notes[0].failures), (1, 2));
        assert_eq!((notes[0].first_failure_at, notes[0].last_failure_at), (Some(Timestamp(1)), Some(Timestamp(2))));
        health.heard(endpoint, false, Timestamp(3));
        assert!(health.take(after(290), |_| true).is_empty(), "it fails as before");
        health.heard(endpoint, true, Timestamp(4));
        let notes = health.take(after(295), |_| true);
        assert_eq!((notes[0].failures, notes[0].last_success_at), (0, Some(Timestamp(4))));
        health.heard(endpoint, true, Timestamp(5));
        assert!(health.take(after(299), |_| false).is_empty(), "it succeeds as before");
        let notes = health.take(after(300), |_| false);
        assert_eq!((notes[0].failures, notes[0].last_success_at), (0, Some(Timestamp(5))));
        assert!(health.take(after(900), |_| false).is_empty());
    }

    #[test]
    fn one_that_turns_all_the_time_is_noted_a_few_times() {
        let endpoint = EndpointId::random();
        let (mut health, now) = (Health::new(Duration::from_secs(300)), Instant::now());
        let (mut fails, mut noted) = (false, 0);
        for second in 0..300 {
            health.heard(endpoint, fails, Timestamp(1));
            if !health.take(now + Duration::from_secs(second), |_| fails).is_empty() {
                (fails, noted) = (!fails, noted + 1);
            }
        }
        assert_eq!(noted, 1 + MOST_TURNS);
    }
}
