//! `GET /v1/webhook-deliveries` and `GET /v1/webhook-endpoints/{id}/deliveries`.

use model::error::CallError;
use model::event::EventName;
use model::id::{ChannelId, DeliveryId, EndpointId, MessageId};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::webhook::DeliveryState;
use serde_json::json;
use shard::deliveries::query::{DeliveryQuery, StatusFilter};

use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::AccountCall;
use crate::resources::webhook_endpoints;

model::cursor! {
    /// The last delivery of a page; its id holds the time of its creation.
    DeliveryCursor("webhook-deliveries.1") { id: DeliveryId }
}

pub async fn of_account(call: &mut AccountCall) -> Outcome {
    // A bound key must name its own channel.
    if let Some(bound) = call.bound_channel() {
        let Some(named) = call.query().text("channel_id") else { return Err(CallError::channel_scoped_key(bound)) };
        if let Some(other) = named.parse().ok().filter(|named: &ChannelId| *named != bound) {
            call.own_channel(other)?;
        }
    }
    let (query, list) = parse(call, None)?;
    page(call, query, list).await
}

pub async fn of_endpoint(call: &mut AccountCall) -> Outcome {
    // The query is validated before the resource is looked up.
    let (query, list) = parse(call, call.id("id"))?;
    webhook_endpoints::find(call)?;
    page(call, query, list).await
}

/// Reads the filters. `of` is the endpoint in the path, which takes precedence over the query.
fn parse(call: &AccountCall, of: Option<EndpointId>) -> Result<(DeliveryQuery, ListId), CallError> {
    call.asked(|query| read(query, of, |ascending| call.list(of.map(|endpoint| endpoint.0), ascending)))
}

/// Reads the filters. `list` makes the list's id from its order (whether it is ascending).
pub fn read(query: &Query<'_>, of: Option<EndpointId>, list: impl FnOnce(bool) -> ListId) -> (DeliveryQuery, ListId) {
    let ascending = query.ascending();
    let list = list(ascending);
    let asked = DeliveryQuery {
        endpoint: of.or_else(|| query.id("endpoint_id")),
        channel: query.id("channel_id"),
        events: query.words("event", EventName::WORDS, EventName::parse),
        event_id: query.text("event_id").map(str::to_owned),
        message_id: query.text("message_id").map(|id| MessageId(id.to_owned())),
        states: query.words("state", DeliveryState::WORDS, DeliveryState::parse),
        http_status: query.parsed(
            "http_status",
            || json!({ "type": "string", "maxLength": 4, "pattern": "^([1-5]xx|none|[1-5][0-9]{2})$" }),
            "must be 2xx, 4xx, 5xx, none or a number",
            StatusFilter::parse,
        ),
        since: query.time("since"),
        until: query.time("until"),
        limit: query.limit().unwrap_or(DEFAULT_LIMIT),
        ascending,
        after: query.cursor::<DeliveryCursor>(list).map(|cursor| cursor.id),
    };
    (asked, list)
}

async fn page(call: &AccountCall, mut query: DeliveryQuery, list: ListId) -> Outcome {
    let limit = query.limit;
    // One row more tells whether there is a next page.
    query.limit += 1;
    let page = call.cluster().deliveries(call.customer_id(), query, &call.context()).await?;
    let cursor = |id: DeliveryId| DeliveryCursor { id }.encode(list);
    Ok(Reply::ok(&List::first_of(page.rows, limit, page.stopped_at.map(cursor), |row| cursor(row.id))))
}
