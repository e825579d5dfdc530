//! Gathers how endpoints answer, and notes it in the directory now and then; switches off what has failed for long.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{AuditId, EndpointId};
use model::time::Timestamp;
use raft::directory::Directory;
use raft::directory::command::Command;
use raft::directory::health::{DisableRule, HealthNote};
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget, DisabledReason, EndpointRecord};

/// How many endpoints one entry of the directory's log tells of.
const MOST_NOTES: usize = 200;

/// How long noting, or switching an endpoint off, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What this node has seen since it last told.
pub struct Health {
    unnoted: HashMap<EndpointId, HealthNote>,
    noted_at: HashMap<EndpointId, Instant>,
    /// At most one note of an endpoint in this time: the directory must not be written with every delivery.
    note_every: Duration,
}

impl Health {
    pub fn new(note_every: Duration) -> Self {
        Self { unnoted: HashMap::new(), noted_at: HashMap::new(), note_every }
    }

    /// An endpoint answered, or failed to.
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

    /// Takes what may be noted now.
    pub fn take(&mut self, now: Instant) -> Vec<HealthNote> {
        let every = self.note_every;
        self.noted_at.retain(|_, at| now.saturating_duration_since(*at) < every);
        let due: Vec<EndpointId> =
            self.unnoted.keys().filter(|id| !self.noted_at.contains_key(id)).take(MOST_NOTES).copied().collect();
        due.into_iter()
            .filter_map(|id| {
                self.noted_at.insert(id, now);
                self.unnoted.remove(&id)
            })
            .collect()
    }
}

/// Notes in the directory what was seen, and switches off the endpoints that have failed for long enough. What cannot
/// be noted is lost: the figures are coarse, and the next deliveries tell the same.
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

/// Disables an endpoint, with an entry in its customer's audit log. Only the first of several tries does it, so that
/// ten answers 410 at the same time are one entry.
pub async fn switch_off(directory: &Directory, endpoint: &EndpointRecord, reason: DisabledReason) {
    let word = match reason {
        DisabledReason::Gone => "gone",
        DisabledReason::Failing => "failing",
    };
    let command = Command::DisableEndpoint { id: endpoint.id, reason };
    let entry = AuditEntry {
        id: AuditId::new(),
        customer_id: Some(endpoint.customer_id),
        action: "webhook.auto_disabled".to_owned(),
        actor: AuditActor { kind: "system".to_owned(), id: None, prefix: None, email: None },
        target: Some(AuditTarget {
            kind: "webhook_endpoint".to_owned(),
            id: endpoint.id.to_string(),
            label: endpoint.url.clone(),
        }),
        ip: None,
        user_agent: None,
        request_id: None,
        success: true,
        created_at: Timestamp::now(),
        details: BTreeMap::from([("reason".to_owned(), word.to_owned())]),
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
    fn an_endpoint_is_noted_once_in_a_while() {
        let endpoint = EndpointId::random();
        let (mut health, now) = (Health::new(Duration::from_secs(300)), Instant::now());
        health.heard(endpoint, false, Timestamp(1));
        health.heard(endpoint, false, Timestamp(2));
        let notes = health.take(now);
        assert_eq!((notes.len(), notes[0].failures), (1, 2));
        assert_eq!((notes[0].first_failure_at, notes[0].last_failure_at), (Some(Timestamp(1)), Some(Timestamp(2))));
        health.heard(endpoint, false, Timestamp(3));
        health.heard(endpoint, true, Timestamp(4));
        assert!(health.take(now + Duration::from_secs(299)).is_empty());
        let notes = health.take(now + Duration::from_secs(300));
        assert_eq!((notes[0].failures, notes[0].last_success_at), (0, Some(Timestamp(4))));
        assert!(health.take(now + Duration::from_secs(900)).is_empty());
    }
}
