//! Webhook deliveries: what was sent to endpoints, and what will be sent again.
//!
//! - `list`: pages of the account's or of one endpoint's deliveries. `detail`: one delivery with its attempts.
//! - `again`: redelivering one delivery, recovering and purging many. `stats`: statistics of an endpoint's deliveries.

mod again;
mod detail;
mod list;
mod stats;

use model::error::{CallError, ErrorCode as E};
use model::id::{DeliveryId, EndpointId};
use model::page::ListId;
use model::time::Timestamp;
use model::webhook::Recovery;
use serde_json::json;
use shard::deliveries::view::{DeliveryDetail, DeliveryRecord};

use crate::request_context::AccountCall;
use crate::route::{DELETE, GET, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::account(GET, "/v1/webhook-deliveries", list::of_account)
            .doc("list_webhook_deliveries", "List deliveries, the newest first")
            .query(|query| list::read(query, None, |_| ListId::only()))
            .page::<DeliveryRecord>()
            .errors(&[E::ChannelNotFound, E::ChannelAccessDenied, E::ChannelScopedKey]),
        Route::account(DELETE, "/v1/webhook-deliveries", again::purge)
            .doc("purge_webhook_deliveries", "Give up the deliveries that wait for an endpoint")
            .query(again::asked_to_purge)
            .accepted::<again::Purge>()
            .errors(&[E::WebhookEndpointNotFound]),
        Route::account(GET, "/v1/webhook-deliveries/{delivery_id}", detail::show)
            .doc("get_webhook_delivery", "Get a delivery with its attempts")
            .ok::<detail::WebhookDeliveryDetail>(),
        Route::account(POST, "/v1/webhook-deliveries/{delivery_id}/redeliver", again::redeliver)
            .doc("redeliver", "Make a delivery again")
            .accepted::<DeliveryRecord>()
            .errors(&[E::WebhookEndpointNotFound, E::BadRequest, E::NoOp]),
        Route::account(GET, "/v1/webhook-endpoints/{id}/deliveries", list::of_endpoint)
            .doc("list_endpoint_deliveries", "List an endpoint's deliveries, the newest first")
            .query(|query| list::read(query, Some(EndpointId::new()), |_| ListId::only()))
            .page::<DeliveryRecord>(),
        Route::account(POST, "/v1/webhook-endpoints/{id}/recover", again::recover)
            .doc("recover_deliveries", "Make many deliveries of an endpoint again")
            .about("With `dry_run`, it only counts them.")
            .body(
                |body| Recovery::parse(body, Timestamp(0)),
                json!({ "since": "2026-01-01T00:00:00.000Z", "states": ["exhausted"] }),
            )
            .accepted::<again::RecoverView>()
            .ok::<again::RecoveryCount>(),
        Route::account(GET, "/v1/webhook-endpoints/{id}/stats", stats::show)
            .doc("get_endpoint_stats", "Get statistics of an endpoint's deliveries")
            .query(|query| query.time("since"))
            .ok::<stats::EndpointStats>(),
    ]
}

/// The delivery that the path names, if the key may see it.
async fn find(call: &AccountCall) -> Result<DeliveryDetail, CallError> {
    let missing = || CallError::not_found("webhook_delivery", call.parameter("delivery_id"));
    let id: DeliveryId = call.id("delivery_id").ok_or_else(missing)?;
    let found = call.cluster().delivery(call.customer_id(), id, &call.context()).await?;
    found.filter(|detail| call.reaches(Some(detail.record.channel_id))).ok_or_else(missing)
}
