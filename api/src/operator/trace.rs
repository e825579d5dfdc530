//! `GET /v1/admin/messages/{message_id}/trace`: what happened to a message, step by step, in every channel that has it.
//! The content of the message is not shown.

use std::borrow::Cow;

use model::address::Address;
use model::error::{CallError, ErrorCode};
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, Epoch, MessageId, NodeId, ShardId};
use model::page::{Room, json_bytes};
use model::time::Timestamp;
use raft::directory::records::ChannelRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shard::call::ChannelStatus;
use shard::call::request::GetStatus;
use shard::deliveries::view::{AttemptView, DeliveryRecord};
use shard::history::{Direction, HistoryQuery, MessageError, MessageStatus, StoredMessage};

use super::word;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::OperatorCall;
use crate::route::{GET, Route};

/// How many channels are asked for a message at a time.
const AT_ONCE: usize = 5_000;

/// The most rows of a message in one channel. Edits have their own ids, so there is hardly more than one.
const MOST_ROWS: usize = 10;

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/messages/{message_id}/trace", show)
            .doc("trace_message", "Trace a message step by step")
            .about(
                "Covers each channel that has it: both ends of a conversation may be channels here. Lists its \
                 deliveries, the oldest first, as many as fit into a response of 4 MiB.",
            )
            .query(|query| query.id::<ChannelId>("channel_id"))
            .list::<TraceView>()
            .errors(&[ErrorCode::MessageNotFound]),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageTrace")]
pub struct TraceView {
    pub message_id: MessageId,
    pub channel_id: ChannelId,
    /// The channel's name.
    pub channel_name: String,
    pub customer_id: CustomerId,
    pub shard: ShardId,
    /// Node that owns the channel now.
    pub node_id: NodeId,
    /// Term of the owner's leadership, which fences off earlier owners.
    pub epoch: Epoch,
    pub direction: Direction,
    #[serde(rename = "type")]
    pub kind: String,
    pub from: Address,
    pub to: Address,
    pub status: MessageStatus,
    pub error: Option<MessageError>,
    pub client_ref: Option<String>,
    /// Id of the request that sent the message, for the log of the node that received the request.
    pub request_id: Option<String>,
    /// Value of the header `X-Gateway-Correlation-Id`.
    pub correlation_id: String,
    /// What happened to the message, in order of time.
    pub steps: Vec<TraceStep>,
}

/// Something that happened to the message.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TraceStep {
    /// When it happened.
    pub at: Timestamp,
    /// Kind of the step.
    #[schemars(extend("enum" = ["accepted", "received", "status", "event", "attempt", "next_attempt"]))]
    pub step: Cow<'static, str>,
    /// Details, for people.
    pub detail: String,
    /// Webhook delivery that the step is about; `null` if it is about the message itself.
    pub delivery_id: Option<DeliveryId>,
    pub endpoint_id: Option<EndpointId>,
}

impl TraceView {
    fn new(row: StoredMessage, channel: &ChannelRecord, live: &ChannelStatus, steps: Vec<TraceStep>) -> Self {
        view_of!(
            move row => message_id, direction, kind, from, to, status, error, client_ref, request_id, correlation_id;
            channel_id: channel.id, channel_name: channel.name.clone(), customer_id: channel.customer_id,
            shard: live.shard, node_id: live.node, epoch: live.epoch, steps
        )
    }
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let named: Option<ChannelId> = call.asked(|query| query.id("channel_id"))?;
    let message = MessageId(call.parameter("message_id").to_owned());
    let missing = || CallError::message_not_found(message.as_str());
    let channels: Vec<ChannelId> = match named {
        Some(channel) => vec![channel],
        None => call.directory().read(|state| {
            let live = state.channels.values().filter(|channel| channel.deleted_at.is_none());
            live.map(|channel| channel.id).collect()
        }),
    };
    let (mut traces, mut room) = (Vec::new(), Room::of_page());
    for part in channels.chunks(AT_ONCE) {
        let found = call.cluster().message_deliveries(part.to_vec(), message.clone(), None, &call.context()).await?;
        for in_channel in found {
            traces.extend(trace(call, in_channel.channel, &message, in_channel.deliveries, &mut room).await?);
        }
    }
    if traces.is_empty() { Err(missing()) } else { Ok(Reply::ok(&List::whole(traces))) }
}

/// The rows of a message in one channel, with the steps of their deliveries as far as there is room for them.
async fn trace(
    call: &OperatorCall,
    channel: ChannelId,
    message: &MessageId,
    deliveries: Vec<DeliveryRecord>,
    room: &mut Room,
) -> Result<Vec<TraceView>, CallError> {
    let known = call.directory().read(|state| state.channel(channel).cloned());
    let Some(record) = known else { return Ok(Vec::new()) };
    let (_, live) = call.cluster().channel(record.customer_id, channel, None, GetStatus, &call.context()).await;
    let live = live?;
    let query = HistoryQuery {
        channels: vec![channel],
        limit: MOST_ROWS,
        ascending: true,
        message_ids: vec![message.clone()],
        ..HistoryQuery::default()
    };
    let rows = call.cluster().history(record.customer_id, query, &call.context()).await?.rows;
    let mut told = Vec::new();
    for delivery in deliveries {
        let detail = call.cluster().delivery(record.customer_id, delivery.id, &call.context()).await?;
        let attempts = detail.map(|detail| detail.attempts).unwrap_or_default();
        if !room.take(json_bytes(&steps_of_delivery(&delivery, &attempts))) {
            break;
        }
        told.push((delivery, attempts));
    }
    let of_row = |row: StoredMessage| {
        let own = told.iter().filter(|(delivery, _)| row.webhook_deliveries.iter().any(|seen| seen.id == delivery.id));
        let mut steps = steps_of(&row);
        steps.extend(own.flat_map(|(delivery, attempts)| steps_of_delivery(delivery, attempts)));
        steps.sort_by_key(|step| step.at);
        TraceView::new(row, &record, &live, steps)
    };
    Ok(rows.into_iter().map(of_row).collect())
}

fn step(at: Timestamp, step: &'static str, detail: String) -> TraceStep {
    TraceStep { at, step: step.into(), detail, delivery_id: None, endpoint_id: None }
}

fn steps_of(row: &StoredMessage) -> Vec<TraceStep> {
    let first = match row.direction {
        Direction::Outbound => {
            step(row.created_at, "accepted", format!("stored to be sent, from {}", word(&row.source)))
        }
        Direction::Inbound => {
            step(row.created_at, "received", "stored, before it was acknowledged to the network".to_owned())
        }
    };
    let reason = row.error.as_ref().map(|error| format!(": {} ({})", error.message, error.code)).unwrap_or_default();
    let last = step(row.status_at, "status", format!("{}{reason}", row.status.as_str()));
    vec![first, last]
}

fn steps_of_delivery(delivery: &DeliveryRecord, attempts: &[AttemptView]) -> Vec<TraceStep> {
    let of = |at: Timestamp, what: &'static str, detail: String| TraceStep {
        delivery_id: Some(delivery.id),
        endpoint_id: Some(delivery.endpoint_id),
        ..step(at, what, detail)
    };
    let event = format!("{} {} for {}", delivery.event.as_str(), delivery.event_id, delivery.url);
    let mut steps = vec![of(delivery.created_at, "event", event)];
    for attempt in attempts {
        let status = attempt.http_status.map(|status| format!(" {status}")).unwrap_or_default();
        let error = attempt.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let (trigger, outcome) = (word(&attempt.trigger), word(&attempt.outcome));
        let detail = format!(
            "{} ({trigger}) at {}: {outcome}{status} after {} ms{error}",
            attempt.number, delivery.url, attempt.elapsed_ms
        );
        steps.push(of(attempt.started_at, "attempt", detail));
    }
    if let Some(next) = delivery.next_attempt_at {
        let (made, most) = (delivery.attempt_count, delivery.max_attempts);
        let detail = format!("{made} of {most} made at {}, {}", delivery.url, word(&delivery.state));
        steps.push(of(next, "next_attempt", detail));
    }
    steps
}
