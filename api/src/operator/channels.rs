//! Channels of all customers, with their placement in the cluster.

use std::sync::Arc;

use model::error::{CallError, ErrorCode as E};
use model::id::{ChannelId, CustomerId, Epoch, NodeId, ShardId, Slot};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::status::Trigger;
use raft::directory::records::{AuditEntry, ChannelRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shard::call::ChannelStatus;
use shard::call::request::{GetStatus, Lifecycle, Request};

use crate::audit::Target;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::resources::ChannelView;
use crate::route::{GET, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/channels", list)
            .doc("list_all_channels", "List the channels of all customers, the newest first")
            .query(asked)
            .page::<PlacedChannel>(),
        Route::operator(GET, "/v1/admin/channels/{id}", show)
            .doc("get_placed_channel", "Get a channel and its place in the cluster")
            .ok::<PlacedChannel>(),
        Route::operator(POST, "/v1/admin/channels/{id}/disable", disable)
            .doc("disable_any_channel", "Forbid a channel to run")
            .optional_body(crate::resources::parse_disable_reason, json!({ "reason": "abuse" }))
            .accepted::<PlacedChannel>()
            .errors(&[E::NoOp, E::ConcurrentModification]),
        Route::operator(POST, "/v1/admin/channels/{id}/enable", enable)
            .doc("enable_any_channel", "Allow a disabled channel to run")
            .accepted::<PlacedChannel>()
            .errors(&[E::NotDisabled, E::ConcurrentModification]),
    ]
}

/// A channel with its placement.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PlacedChannel {
    #[serde(flatten)]
    pub channel: ChannelView,
    pub shard: Option<ShardId>,
    /// Node that owns the channel; `null` while the channel has never been used.
    pub node_id: Option<NodeId>,
    /// Term of the owner's leadership, which fences off earlier owners; `null` like `node_id`.
    pub epoch: Option<Epoch>,
    /// Nodes that hold a replica of the shard.
    pub replicas: Vec<NodeId>,
}

impl PlacedChannel {
    pub(super) fn new(call: &OperatorCall, record: &ChannelRecord, live: Option<&ChannelStatus>) -> Self {
        let (shard, replicas) = call.directory().read(|state| {
            let shard = live.map(|live| live.shard).or_else(|| state.shard_of(Slot::of_channel(record.id)));
            let place = shard.and_then(|shard| state.placement.get(&shard));
            (shard, place.map(|place| place.replicas.clone()).unwrap_or_default())
        });
        Self {
            channel: ChannelView::new(record, live).with_reason(live),
            shard,
            node_id: live.map(|live| live.node),
            epoch: live.map(|live| live.epoch),
            replicas,
        }
    }
}

model::cursor! {
    /// The last channel of a page; pages go by id, which sorts by time of creation.
    ChannelCursor("admin-channels.1") { id: ChannelId }
}

/// Reads the page size, the customer if only one is asked about, and where the previous page ended.
fn asked(query: &Query<'_>) -> (usize, Option<CustomerId>, Option<ChannelId>) {
    let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
    (limit, query.id("customer_id"), query.cursor::<ChannelCursor>(ListId::only()).map(|cursor| cursor.id))
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let (limit, customer, after) = call.asked(asked)?;
    let mut channels: Vec<Arc<ChannelRecord>> = call.directory().read(|state| {
        let live = state.channels.values().filter(|channel| channel.deleted_at.is_none());
        live.filter(|channel| customer.is_none_or(|customer| channel.customer_id == customer))
            .filter(|channel| after.is_none_or(|after| channel.id < after))
            .cloned()
            .collect()
    });
    channels.sort_by_key(|channel| std::cmp::Reverse(channel.id));
    let page = List::first(channels, limit, |channel| ChannelCursor { id: channel.id }.encode(ListId::only()));
    let ids: Vec<ChannelId> = page.data.iter().map(|channel| channel.id).collect();
    let statuses = call.cluster().channel_statuses(&ids, &call.context()).await?;
    Ok(Reply::ok(&page.map(|channel| PlacedChannel::new(call, &channel, statuses.get(&channel.id)))))
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let channel = find(call)?;
    let live = ask(call, &channel, GetStatus).await?;
    Ok(Reply::ok(&PlacedChannel::new(call, &channel, Some(&live))))
}

async fn disable(call: &mut OperatorCall) -> Outcome {
    let reason = crate::resources::parse_disable_reason(&call.optional_object().await?)?;
    let channel = find(call)?;
    let live = lifecycle(call, &channel, Trigger::Disable).await?;
    let mut entry = audited(call, &channel, "channel.disabled");
    entry.details.extend(reason.map(|reason| ("reason".to_owned(), reason)));
    call.record(entry).await;
    Ok(Reply::accepted(&PlacedChannel::new(call, &channel, Some(&live))))
}

async fn enable(call: &mut OperatorCall) -> Outcome {
    let channel = find(call)?;
    let live = lifecycle(call, &channel, Trigger::Enable).await?;
    call.record(audited(call, &channel, "channel.enabled")).await;
    Ok(Reply::accepted(&PlacedChannel::new(call, &channel, Some(&live))))
}

async fn lifecycle(call: &OperatorCall, channel: &ChannelRecord, trigger: Trigger) -> Result<ChannelStatus, CallError> {
    ask(call, channel, Lifecycle { trigger, by_operator: true }).await
}

/// Sends a request to the channel's owner without charging a bucket.
pub(super) async fn ask<R: Request>(
    call: &OperatorCall,
    channel: &ChannelRecord,
    request: R,
) -> Result<R::Reply, CallError> {
    call.cluster().channel(channel.customer_id, channel.id, None, request, &call.context()).await.1
}

pub(super) fn audited(call: &OperatorCall, channel: &ChannelRecord, action: &str) -> AuditEntry {
    call.audited(channel.customer_id, action, Target::new("channel", channel.id, channel.name.as_str()))
}

pub(super) fn find(call: &OperatorCall) -> Result<Arc<ChannelRecord>, CallError> {
    call.known("id", |state, id: ChannelId| state.channel(id).cloned()).ok_or_else(CallError::channel_not_found)
}
