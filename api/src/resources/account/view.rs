//! The account as the interface shows it (supplement 25).

use model::error::ApiError;
use model::id::{ChannelId, CustomerId};
use model::status::Status;
use model::time::Timestamp;
use raft::directory::records::CustomerRecord;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exchange::Exchange;

/// Supplement 25.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Account")]
pub struct AccountView {
    id: CustomerId,
    name: String,
    email: Option<String>,
    timezone: String,
    plan: PlanView,
    channels: ChannelCounts,
    created_at: Timestamp,
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
    pub async fn of(exchange: &Exchange, customer: &CustomerRecord) -> Result<Self, ApiError> {
        let directory = exchange.cluster().directory();
        let channels = directory.read(|state| state.channels_of(customer.id, None, usize::MAX));
        let ids: Vec<ChannelId> = channels.iter().map(|channel| channel.id).collect();
        let lives = exchange.cluster().lives(&ids, &exchange.context()).await?;
        let connected = lives.values().filter(|live| live.status == Status::Connected).count();
        let plan = &customer.plan;
        Ok(Self {
            id: customer.id,
            name: customer.name.clone(),
            email: customer.email.clone(),
            timezone: customer.timezone.clone(),
            plan: PlanView {
                name: plan.name.clone(),
                status: if customer.deleted_at.is_some() { "cancelled" } else { plan.status(exchange.now) },
                channel_limit: plan.channel_limit,
                trial_ends_at: plan.trial_ends_at,
                overdue_since: plan.overdue_since,
            },
            channels: ChannelCounts { total: ids.len(), connected },
            created_at: customer.created_at,
        })
    }
}
