//! The body of a call that recovers deliveries.

use std::time::Duration;

use super::DeliveryState;
use crate::error::CallError;
use crate::event::EventName;
use crate::field::{Body, rule};
use crate::issue::{IssueCode, Violation};
use crate::time::Timestamp;

/// Longest period of one recovery: the retention of deliveries.
const LONGEST_WINDOW: Duration = Duration::from_secs(30 * 86_400);

/// The states that recovery applies to: nothing would happen to such deliveries otherwise, or not soon.
const STATES: [DeliveryState; 3] = [DeliveryState::Exhausted, DeliveryState::Delivered, DeliveryState::Retrying];

/// A request to make deliveries due again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    pub since: Timestamp,
    pub until: Timestamp,
    pub states: Vec<DeliveryState>,
    /// An empty list means all events.
    pub events: Vec<EventName>,
    /// Only count the deliveries.
    pub dry_run: bool,
}

impl Recovery {
    pub fn parse(body: &Body, now: Timestamp) -> Result<Self, CallError> {
        body.read(|fields| {
            let since = fields.required("since", rule::time);
            let until = fields.nullable("until", rule::time).flatten().unwrap_or(now).min(now);
            let words = STATES.map(DeliveryState::as_str);
            let known = |word: &str| DeliveryState::parse(word).filter(|state| STATES.contains(state));
            let states = fields.list("states", STATES.len(), rule::one_of(&words, known));
            let dry_run = fields.optional("dry_run", rule::boolean);
            let events = fields.list("events", EventName::ALL.len(), rule::one_of(EventName::WORDS, EventName::parse));
            if let Some(since) = since {
                if until.since(since) > LONGEST_WINDOW {
                    fields.refuse(
                        "since",
                        Violation::new(IssueCode::TooBig, "at most 30 days lie between since and until"),
                    );
                } else if until < since {
                    fields.refuse("until", Violation::new(IssueCode::Conflict, "must not lie before since"));
                }
            }
            Some(Self {
                since: since?,
                until,
                states: states.unwrap_or_else(|| vec![DeliveryState::Exhausted]),
                events: events.unwrap_or_default(),
                dry_run: dry_run.unwrap_or(false),
            })
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    fn parse(body: Value) -> Result<Recovery, CallError> {
        Recovery::parse(&Body::try_from(body).unwrap(), NOW)
    }

    #[test]
    fn what_is_left_out_is_the_exhausted_until_now() {
        let recovery = parse(json!({ "since": "2025-12-31T00:00:00Z" })).unwrap();
        assert_eq!((recovery.until, recovery.states), (NOW, vec![DeliveryState::Exhausted]));
        assert!(recovery.events.is_empty() && !recovery.dry_run);
        let later = parse(json!({ "since": "2025-12-31T00:00:00Z", "until": "2030-01-01T00:00:00Z" })).unwrap();
        assert_eq!(later.until, NOW, "what is yet to come cannot be recovered");
    }

    #[test]
    fn every_rule_has_its_issue() {
        let table = [
            (json!({}), json!(["since"]), "required"),
            (json!({ "since": "yesterday" }), json!(["since"]), "format"),
            (json!({ "since": "2025-11-01T00:00:00Z" }), json!(["since"]), "too_big"),
            (json!({ "since": "2025-12-31T00:00:00Z", "until": "2025-12-30T00:00:00Z" }), json!(["until"]), "conflict"),
            (json!({ "since": "2025-12-31T00:00:00Z", "states": ["lost"] }), json!(["states", 0]), "enum"),
            (json!({ "since": "2025-12-31T00:00:00Z", "states": ["pending"] }), json!(["states", 0]), "enum"),
            (json!({ "since": "2025-12-31T00:00:00Z", "states": [] }), json!(["states"]), "empty"),
            (json!({ "since": "2025-12-31T00:00:00Z", "events": ["x"] }), json!(["events", 0]), "enum"),
            (json!({ "since": "2025-12-31T00:00:00Z", "dry_run": "yes" }), json!(["dry_run"]), "type"),
        ];
        for (body, path, code) in table {
            let details = parse(body.clone()).unwrap_err().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&path, &json!(code)), "{body}");
        }
    }
}
