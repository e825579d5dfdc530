//! The account as the interface shows it.

use model::customer::Quota;
use model::error::CallError;
use model::id::{ChannelId, CustomerId};
use model::status::Status;
use model::time::Timestamp;
use raft::directory::records::CustomerRecord;
use schemars::JsonSchema;
use serde::Serialize;

use crate::request_context::RequestContext;

/// The account, with its plan and what it may use.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Account")]
pub struct AccountView {
    id: CustomerId,
    name: String,
    email: Option<String>,
    timezone: String,
    plan: PlanView,
    channels: ChannelCounts,
    /// What of the plan's quotas is in use; shown to the account itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<StorageView>,
    created_at: Timestamp,
}

/// The quotas of the plan.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Storage")]
struct StorageView {
    /// Bytes of media that are kept.
    media_bytes: QuotaView,
    /// API keys that are not revoked.
    keys: QuotaView,
    /// Labels of each channel.
    labels: QuotaView,
    /// Webhook endpoints.
    endpoints: QuotaView,
    /// Tickets that are neither solved nor closed.
    tickets_open: QuotaView,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Quota")]
struct QuotaView {
    /// The most that the plan allows.
    limit: u64,
    /// How much is in use; null where it is counted by channel.
    used: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
struct PlanView {
    name: String,
    #[schemars(extend("enum" = ["self_hosted", "active", "trial", "past_due", "cancelled"]))]
    status: &'static str,
    channel_limit: Option<u32>,
    trial_ends_at: Option<Timestamp>,
    overdue_since: Option<Timestamp>,
}

#[derive(Serialize, JsonSchema)]
struct ChannelCounts {
    total: usize,
    connected: usize,
}

impl AccountView {
    /// Counts the customer's channels over all shards that hold one.
    ///
    /// # Errors
    /// 503 while one of the shards has no leader.
    pub async fn of(ctx: &RequestContext, customer: &CustomerRecord) -> Result<Self, CallError> {
        let directory = ctx.cluster().directory();
        let channels = directory.read(|state| state.channels_of(customer.id, None, usize::MAX));
        let ids: Vec<ChannelId> = channels.iter().map(|channel| channel.id).collect();
        let lives = ctx.cluster().lives(&ids, &ctx.context()).await?;
        let connected = lives.values().filter(|live| live.status == Status::Connected).count();
        let plan = &customer.plan;
        Ok(Self {
            id: customer.id,
            name: customer.name.clone(),
            email: customer.email.clone(),
            timezone: customer.timezone.clone(),
            plan: PlanView {
                name: plan.name.clone(),
                status: if customer.deleted_at.is_some() { "cancelled" } else { plan.status(ctx.now) },
                channel_limit: plan.channel_limit,
                trial_ends_at: plan.trial_ends_at,
                overdue_since: plan.overdue_since,
            },
            channels: ChannelCounts { total: ids.len(), connected },
            storage: None,
            created_at: customer.created_at,
        })
    }

    /// With what of its quotas is in use.
    pub async fn with_storage(self, ctx: &RequestContext, customer: &CustomerRecord) -> Self {
        let (cluster, id) = (ctx.cluster(), customer.id);
        let directory = cluster.directory();
        let (keys, endpoints) = directory.read(|state| (state.live_keys(id), state.endpoint_count(id)));
        let quota = |quota: Quota, used| QuotaView { limit: customer.limits.storage.limit(quota), used };
        let storage = StorageView {
            media_bytes: quota(
                Quota::MediaBytes,
                Some(cluster.media_kept(id, &ctx.context()).await.into_values().sum()),
            ),
            keys: quota(Quota::Keys, Some(keys)),
            labels: quota(Quota::Labels, None),
            endpoints: quota(Quota::Endpoints, Some(endpoints)),
            tickets_open: quota(Quota::TicketsOpen, Some(u64::from(directory.open_tickets(id)))),
        };
        Self { storage: Some(storage), ..self }
    }
}
