//! Recent answers of an endpoint, recorded coarsely: every few minutes, nodes report on many deliveries at once.

use std::time::Duration;

use model::id::EndpointId;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Health of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointHealth {
    /// First failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// Failed attempts since the last success.
    pub failures: u32,
    pub last_success_at: Option<Timestamp>,
}

/// What one node has seen since its previous report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthNote {
    pub endpoint: EndpointId,
    pub last_success_at: Option<Timestamp>,
    /// Failures after that success.
    pub failures: u32,
    pub first_failure_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
}

/// When a failing endpoint is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisableRule {
    /// Minimum time without a success.
    pub after: Duration,
    /// Minimum number of failures ...
    pub failures: u32,
    /// ... and minimum time since the first of them.
    pub span: Duration,
}

impl Default for DisableRule {
    /// Five days without a success, and at least 20 failures, the first at least a day ago.
    fn default() -> Self {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        Self { after: hours(120), failures: 20, span: hours(24) }
    }
}

impl EndpointHealth {
    /// Adds a node's report. Reports of several nodes arrive in any order; the times say which events are later.
    pub fn note(&mut self, note: &HealthNote) {
        if let Some(success) = note.last_success_at {
            self.last_success_at = self.last_success_at.max(Some(success));
            if self.failing_since.is_some_and(|since| since <= success) {
                (self.failing_since, self.failures) = (None, 0);
            }
        }
        let (Some(first), Some(last)) = (note.first_failure_at, note.last_failure_at) else { return };
        if self.last_success_at.is_some_and(|success| success >= last) {
            return;
        }
        let since_success = self.last_success_at.map_or(first, |success| first.max(success));
        self.failing_since = Some(self.failing_since.map_or(since_success, |since| since.min(since_success)));
        self.failures = self.failures.saturating_add(note.failures);
    }

    /// Whether an endpoint created at `created_at` has failed long enough to be disabled.
    pub fn has_failed_for_good(&self, created_at: Timestamp, now: Timestamp, rule: &DisableRule) -> bool {
        let Some(failing_since) = self.failing_since else { return false };
        let last_good = self.last_success_at.unwrap_or(created_at);
        self.failures >= rule.failures && now.since(last_good) >= rule.after && now.since(failing_since) >= rule.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn failed(failures: u32, first: i64, last: i64) -> HealthNote {
        HealthNote {
            endpoint: EndpointId(uuid::Uuid::nil()),
            last_success_at: None,
            failures,
            first_failure_at: Some(Timestamp(first)),
            last_failure_at: Some(Timestamp(last)),
        }
    }

    fn succeeded(at: i64) -> HealthNote {
        let nothing = HealthNote { first_failure_at: None, last_failure_at: None, ..failed(0, 0, 0) };
        HealthNote { last_success_at: Some(Timestamp(at)), ..nothing }
    }

    #[test]
    fn a_success_ends_a_run_of_failures_and_an_older_one_does_not() {
        let mut health = EndpointHealth::default();
        health.note(&failed(3, 10, 30));
        assert_eq!((health.failing_since, health.failures), (Some(Timestamp(10)), 3));
        health.note(&succeeded(5));
        assert_eq!(health.failures, 3);
        health.note(&succeeded(40));
        assert_eq!((health.failing_since, health.failures), (None, 0));
        health.note(&failed(2, 20, 35));
        assert_eq!(health.failing_since, None, "what failed before the success is over");
        health.note(&failed(2, 20, 50));
        assert_eq!(health.failing_since, Some(Timestamp(40)));
        assert_eq!(health.last_success_at, Some(Timestamp(40)));
    }

    #[test]
    fn only_what_fails_long_and_often_is_switched_off() {
        let rule = DisableRule::default();
        let failing = |failures, since: i64, success: Option<i64>| EndpointHealth {
            failing_since: Some(Timestamp(since * HOUR)),
            failures,
            last_success_at: success.map(|at| Timestamp(at * HOUR)),
        };
        let now = Timestamp(200 * HOUR);
        let table = [
            (failing(20, 100, Some(80)), true),
            (failing(19, 100, Some(80)), false),
            (failing(20, 177, Some(80)), false),
            (failing(20, 100, Some(81)), false),
            (failing(20, 100, None), true),
            (EndpointHealth::default(), false),
        ];
        for (health, expected) in table {
            assert_eq!(health.has_failed_for_good(Timestamp(0), now, &rule), expected, "{health:?}");
        }
        assert!(!failing(20, 100, None).has_failed_for_good(Timestamp(90 * HOUR), now, &rule), "made lately");
    }
}
