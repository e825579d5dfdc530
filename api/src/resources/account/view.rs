//! The view of the account.

use std::borrow::Cow;

use futures::future::join;
use model::customer::{Plan, Quota};
use model::error::CallError;
use model::id::{ChannelId, CustomerId};
use model::status::Status;
use model::time::Timestamp;
use raft::directory::records::CustomerRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reply::view_of;
use crate::request_context::RequestContext;

/// An account with its plan.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Account")]
pub struct AccountView {
    pub id: CustomerId,
    pub name: String,
    pub email: Option<String>,
    pub timezone: String,
    pub plan: PlanView,
    pub channels: ChannelCounts,
    /// Quotas of the plan and their use; only in responses of `/v1/account`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    pub created_at: Timestamp,
}

/// Quotas of the plan and their use.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Storage {
    /// Bytes of stored media.
    pub media_bytes: QuotaView,
    /// Approximate bytes of messages and webhook deliveries on disk.
    pub message_bytes: QuotaView,
    /// API keys that are not revoked.
    pub keys: QuotaView,
    /// Labels per channel.
    pub labels: QuotaView,
    /// Webhook endpoints.
    pub endpoints: QuotaView,
    /// Tickets that are neither solved nor closed.
    pub tickets_open: QuotaView,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Quota")]
pub struct QuotaView {
    /// Maximum that the plan allows.
    pub limit: u64,
    /// Amount in use; `null` if the quota applies to each channel.
    pub used: Option<u64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanView {
    pub name: String,
    #[schemars(extend("enum" = ["self_hosted", "active", "trial", "past_due", "cancelled"]))]
    pub status: Cow<'static, str>,
    pub channel_limit: Option<u32>,
    pub trial_ends_at: Option<Timestamp>,
    pub overdue_since: Option<Timestamp>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ChannelCounts {
    pub total: usize,
    /// Number of connected channels.
    pub connected: usize,
}

impl PlanView {
    fn new(plan: &Plan, status: &'static str) -> Self {
        view_of!(plan => name, channel_limit, trial_ends_at, overdue_since; status: status.into())
    }
}

impl AccountView {
    /// Counts the customer's channels over all shards that hold one.
    ///
    /// # Errors
    /// 503 while one of the shards has no leader.
    pub async fn of(ctx: &RequestContext, customer: &CustomerRecord) -> Result<Self, CallError> {
        let directory = ctx.directory();
        let channels = directory.read(|state| state.channels_of(customer.id, None, usize::MAX));
        let ids: Vec<ChannelId> = channels.iter().map(|channel| channel.id).collect();
        let statuses = ctx.cluster().channel_statuses(&ids, &ctx.context()).await?;
        let connected = statuses.values().filter(|live| live.status == Status::Connected).count();
        let status = if customer.deleted_at.is_some() { "cancelled" } else { customer.plan.status(ctx.now) };
        let plan = PlanView::new(&customer.plan, status);
        let channels = ChannelCounts { total: ids.len(), connected };
        Ok(view_of!(customer => id, name, email, timezone, created_at; plan, channels, storage: None))
    }

    /// Adds the use of the account's quotas.
    pub async fn with_storage(self, ctx: &RequestContext, customer: &CustomerRecord) -> Self {
        let (cluster, id) = (ctx.cluster(), customer.id);
        let directory = cluster.directory();
        let (keys, endpoints) = directory.read(|state| (state.usable_keys(id, ctx.now), state.endpoint_count(id)));
        let quota = |quota: Quota, used| QuotaView { limit: customer.limits.storage.limit(quota), used };
        let context = ctx.context();
        let (media, messages) = join(cluster.media_kept(id, &context), cluster.message_bytes(id, &context)).await;
        let storage = Storage {
            media_bytes: quota(Quota::MediaBytes, Some(media.into_values().sum())),
            message_bytes: quota(Quota::MessageBytes, Some(messages)),
            keys: quota(Quota::Keys, Some(keys)),
            labels: quota(Quota::Labels, None),
            endpoints: quota(Quota::Endpoints, Some(endpoints)),
            tickets_open: quota(Quota::TicketsOpen, Some(u64::from(directory.open_tickets(id)))),
        };
        Self { storage: Some(storage), ..self }
    }
}
