//! `GET /v1/limits`: the levels of the buckets after this call.

use model::error::ErrorCode;
use model::id::ChannelId;
use model::limit::{BucketLevel, LimitScope};
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;
use crate::route::{GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::account(GET, "/v1/limits", show)
            .doc("get_limits", "Get how many calls are left")
            .about("`per_channel` is about the channel in the query, or the one that the key is bound to.")
            .query(|query| query.id::<ChannelId>("channel_id"))
            .ok::<Limits>()
            .errors(&[ErrorCode::ChannelNotFound, ErrorCode::ChannelAccessDenied]),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Limits {
    /// Token bucket of the account.
    per_customer: BucketView,
    /// Token bucket of the channel; `null` if no channel is named.
    per_channel: Option<BucketView>,
    channel_id: Option<ChannelId>,
    /// Always `null`: keys have no bucket of their own.
    #[schemars(with = "()")]
    per_key: Option<BucketView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BucketLevel")]
struct BucketView {
    /// Capacity of the bucket.
    limit: u32,
    /// Tokens left in the bucket.
    remaining: u32,
    /// When the bucket is full again.
    reset_at: Timestamp,
}

impl From<BucketLevel> for BucketView {
    fn from(level: BucketLevel) -> Self {
        Self { limit: level.limit, remaining: level.remaining, reset_at: level.reset_at }
    }
}

async fn show(call: &mut AccountCall) -> Outcome {
    let channel_id = match call.asked(|query| query.id::<ChannelId>("channel_id"))? {
        Some(id) => Some(call.own_channel(id)?.id),
        None => call.bound_channel(),
    };
    let per_channel = match channel_id {
        Some(id) => {
            let rule = call.app.channel_rule(&call.caller.customer);
            let level = call.cluster().peek(call.customer_id(), Some(id), rule, &call.context()).await?;
            Some(BucketView::from(level))
        }
        None => None,
    };
    let per_customer = if call.charged.scope == LimitScope::Customer {
        call.charged.level
    } else {
        let rule = call.app.customer_rule(&call.caller.customer);
        call.cluster().peek(call.customer_id(), None, rule, &call.context()).await?
    };
    let per_customer = BucketView::from(per_customer);
    Ok(Reply::ok(&Limits { per_customer, per_channel, channel_id, per_key: None }).uncached())
}
