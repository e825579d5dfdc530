//! Webhook deliveries: what was sent to endpoints, and what is to be sent again (supplement 20.8 and 20.9).
//!
//! - `list`: pages of the account's or of one endpoint's deliveries. `detail`: one with its attempts.
//! - `again`: redelivering one, recovering and purging many. `stats`: how an endpoint's deliveries stand.

mod again;
mod detail;
mod list;
mod stats;

use model::error::ApiError;
use model::id::DeliveryId;
use shard::deliveries::view::DeliveryDetail;

use crate::exchange::AccountCall;
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/webhook-deliveries").account(list::of_account),
        Route::delete("/v1/webhook-deliveries").account(again::purge),
        Route::get("/v1/webhook-deliveries/{delivery_id}").account(detail::show),
        Route::post("/v1/webhook-deliveries/{delivery_id}/redeliver").account(again::redeliver),
        Route::get("/v1/webhook-endpoints/{id}/deliveries").account(list::of_endpoint),
        Route::post("/v1/webhook-endpoints/{id}/recover").account(again::recover),
        Route::get("/v1/webhook-endpoints/{id}/stats").account(stats::show),
    ]
}

/// The delivery of the path, as far as the key may see it.
async fn find(call: &AccountCall) -> Result<DeliveryDetail, ApiError> {
    let missing = || ApiError::not_found("webhook_delivery", call.parameter("delivery_id"));
    let id: DeliveryId = call.id("delivery_id").ok_or_else(missing)?;
    let found = call.cluster().delivery(call.customer_id(), id, &call.context()).await?;
    found.filter(|detail| call.reaches(Some(detail.record.channel_id))).ok_or_else(missing)
}
