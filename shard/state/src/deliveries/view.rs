//! Deliveries as the interface shows them.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::View;
use model::event::{EventId, EventName};
use model::id::{ChannelId, DeliveryId, EndpointId, MessageId};
use model::time::Timestamp;
use model::webhook::{DeliveryState, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::running::Running;
use crate::keys;
use crate::records::{ATTEMPTS_KEPT, AttemptRow, AttemptTrigger, DeliveryRow, EventRow, decode};

/// Webhook delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WebhookDelivery")]
pub struct DeliveryRecord {
    pub id: DeliveryId,
    pub endpoint_id: EndpointId,
    pub channel_id: ChannelId,
    pub event: EventName,
    pub event_id: EventId,
    /// Id of the message in the network; `null` if the event is not about a message.
    pub message_id: Option<MessageId>,
    /// URL of the endpoint when the delivery was created.
    pub url: String,
    pub state: DeliveryState,
    /// Number of attempts so far.
    pub attempt_count: u32,
    /// Number of attempts after which the delivery is given up.
    pub max_attempts: u32,
    /// HTTP status of the last attempt; `null` if there was no response.
    pub last_http_status: Option<u16>,
    /// Outcome of the last attempt; `null` if there was none.
    pub last_outcome: Option<Outcome>,
    /// Start of the last attempt; `null` if there was none.
    pub last_attempt_at: Option<Timestamp>,
    /// Time of the next attempt; `null` unless `state` is `pending` or `retrying`.
    pub next_attempt_at: Option<Timestamp>,
    /// Time of the delivery; `null` if it was not delivered.
    pub delivered_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl DeliveryRecord {
    /// The stored row, combined with the state that only the owner knows.
    pub fn of(row: &DeliveryRow, running: &Running) -> Self {
        let state = running.state_of(row);
        // The due time of a delivery in flight has passed, and a paused one is given up at its time, not attempted.
        let waits = matches!(state, DeliveryState::Pending | DeliveryState::Retrying);
        Self {
            id: row.id,
            endpoint_id: row.endpoint,
            channel_id: row.channel,
            event: row.event,
            event_id: row.event_id.clone(),
            message_id: row.message_id.clone(),
            url: row.url.clone(),
            state,
            attempt_count: row.attempt_count,
            max_attempts: running.max_attempts(),
            last_http_status: row.last.and_then(|last| last.http_status),
            last_outcome: row.last.map(|last| last.outcome),
            last_attempt_at: row.last.map(|last| last.started_at),
            next_attempt_at: row.next_attempt_at.filter(|_| waits),
            delivered_at: row.delivered_at,
            created_at: row.created_at,
        }
    }
}

/// A delivery with its request and its attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveryDetail {
    pub record: DeliveryRecord,
    pub correlation_id: Option<String>,
    /// The stored envelope, byte for byte; `None` once it has expired.
    pub body: Option<Bytes>,
    pub attempts: Vec<AttemptView>,
}

/// Attempt of a webhook delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeliveryAttempt")]
pub struct AttemptView {
    pub number: u32,
    /// `scheduled` if the attempt was due, `manual` if it was requested.
    pub trigger: AttemptTrigger,
    /// Start of the attempt.
    pub started_at: Timestamp,
    /// Time from the request to the first byte of the response, in milliseconds; `0` if there was no response.
    pub latency_ms: u64,
    /// Time of the whole attempt, with DNS, TLS and body, in milliseconds.
    pub elapsed_ms: u64,
    pub outcome: Outcome,
    /// HTTP status of the receiver; `null` if there was no response.
    pub http_status: Option<u16>,
    /// Headers of the response, at most 20.
    pub response_headers: BTreeMap<String, String>,
    /// First 4,096 characters of the response body; `null` if it is empty or was not stored.
    pub response_body: Option<String>,
    /// IP address that was called; `null` if none was.
    pub remote_ip: Option<String>,
    /// Why the attempt failed; `null` if it succeeded.
    pub error: Option<String>,
}

impl From<AttemptRow> for AttemptView {
    fn from(row: AttemptRow) -> Self {
        Self {
            number: row.number,
            trigger: row.trigger,
            started_at: row.started_at,
            latency_ms: row.latency_ms,
            elapsed_ms: row.elapsed_ms,
            outcome: row.outcome,
            http_status: row.http_status,
            response_headers: row.response_headers.into_iter().collect(),
            response_body: row.response_body,
            remote_ip: row.remote_ip,
            error: row.error,
        }
    }
}

impl DeliveryDetail {
    /// Reads the event and the attempts of a delivery.
    pub fn read(view: &dyn View, row: &DeliveryRow, running: &Running) -> Self {
        let attempts = view.scan_range(keys::attempts_of(row.endpoint, row.id), ATTEMPTS_KEPT as usize);
        let event = view.get(&keys::event(row.event_id.as_str()));
        Self {
            record: DeliveryRecord::of(row, running),
            correlation_id: row.correlation_id.clone(),
            body: event.map(|event| decode::<EventRow>(&event).body),
            attempts: attempts.iter().map(|(_, row)| decode::<AttemptRow>(row).into()).collect(),
        }
    }
}

/// Webhook delivery that carried a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageDelivery")]
pub struct DeliveryView {
    pub id: DeliveryId,
    pub endpoint_id: EndpointId,
    pub event: EventName,
    pub event_id: EventId,
    pub state: DeliveryState,
    /// Number of attempts so far.
    pub attempt_count: u32,
    /// HTTP status of the last attempt; `null` if there was no response.
    pub last_http_status: Option<u16>,
    /// Start of the last attempt; `null` if there was none.
    pub last_attempt_at: Option<Timestamp>,
    /// Time of the delivery; `null` if it was not delivered.
    pub delivered_at: Option<Timestamp>,
    /// Time of the next attempt; `null` if none is scheduled.
    pub next_attempt_at: Option<Timestamp>,
}

impl DeliveryView {
    pub fn of(row: &DeliveryRow) -> Self {
        Self {
            id: row.id,
            endpoint_id: row.endpoint,
            event: row.event,
            event_id: row.event_id.clone(),
            state: row.state,
            attempt_count: row.attempt_count,
            last_http_status: row.last.and_then(|attempt| attempt.http_status),
            last_attempt_at: row.last.map(|attempt| attempt.started_at),
            delivered_at: row.delivered_at,
            // A paused delivery is given up at its time, not attempted.
            next_attempt_at: row.next_attempt_at.filter(|_| row.state != DeliveryState::Paused),
        }
    }
}
