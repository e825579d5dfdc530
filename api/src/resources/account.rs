//! The account itself, and its audit log (supplement 25 and 21.6). Only unrestricted keys get here.

use model::error::ApiError;
use model::id::{AuditId, ChannelId, CustomerId};
use model::page::{Cursor, DEFAULT_LIMIT};
use model::status::Status;
use model::time::Timestamp;
use raft::directory::AuditQuery;
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget, CustomerRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::exchange::{AccountCall, Exchange};
use crate::reply::{List, Outcome, Reply};
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/account").multi_channel().account(show),
        Route::get("/v1/account/audit-log").multi_channel().account(audit_log),
    ]
}

/// Supplement 25.
#[derive(Serialize)]
pub struct AccountView {
    id: CustomerId,
    name: String,
    email: Option<String>,
    timezone: String,
    plan: PlanView,
    channels: ChannelCounts,
    created_at: Timestamp,
}

#[derive(Serialize)]
struct PlanView {
    name: String,
    status: &'static str,
    channel_limit: Option<u32>,
    trial_ends_at: Option<Timestamp>,
    overdue_since: Option<Timestamp>,
}

#[derive(Serialize)]
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

async fn show(call: &mut AccountCall) -> Outcome {
    Ok(Reply::ok(&AccountView::of(call, &call.caller.customer).await?))
}

/// An entry as the interface shows it.
#[derive(Serialize)]
struct AuditView {
    id: AuditId,
    action: String,
    actor: AuditActor,
    target: Option<AuditTarget>,
    ip: Option<String>,
    user_agent: Option<String>,
    request_id: Option<String>,
    outcome: &'static str,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    details: BTreeMap<String, String>,
}

impl From<AuditEntry> for AuditView {
    fn from(entry: AuditEntry) -> Self {
        Self {
            id: entry.id,
            action: entry.action,
            actor: entry.actor,
            target: entry.target,
            ip: entry.ip,
            user_agent: entry.user_agent,
            request_id: entry.request_id,
            outcome: if entry.success { "success" } else { "failure" },
            created_at: entry.created_at,
            details: entry.details,
        }
    }
}

/// The last entry of a page.
#[derive(Serialize, Deserialize)]
struct AuditCursor {
    created_at: Timestamp,
    id: AuditId,
}

impl Cursor for AuditCursor {
    const KIND: &'static str = "audit-log.1";
}

impl AuditCursor {
    /// An entry at the cursor's place in the log, as the directory wants to be told of it.
    fn entry(self) -> AuditEntry {
        AuditEntry {
            id: self.id,
            customer_id: None,
            action: String::new(),
            actor: AuditActor { kind: String::new(), id: None, prefix: None, email: None },
            target: None,
            ip: None,
            user_agent: None,
            request_id: None,
            success: true,
            created_at: self.created_at,
            details: BTreeMap::new(),
        }
    }
}

async fn audit_log(call: &mut AccountCall) -> Outcome {
    let query = call.query();
    let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
    let action = query.text("action").map(str::to_owned);
    let actor = query.text("actor").map(str::to_owned);
    let range = AuditQuery {
        customer: Some(call.customer_id()),
        since: query.time("since").unwrap_or(Timestamp(0)),
        until: query.time("until").unwrap_or(Timestamp(i64::MAX)),
    };
    let before = query.cursor::<AuditCursor>();
    let (range, before) = query.finish((range, before))?;

    let wanted = move |entry: &AuditEntry| {
        action.as_ref().is_none_or(|action| *action == entry.action)
            && actor.as_ref().is_none_or(|actor| is_actor(&entry.actor, actor))
    };
    let app = call.app.clone();
    // The log lies on disk; other requests must not wait for it.
    let reading = tokio::task::spawn_blocking(move || {
        let before = before.map(AuditCursor::entry);
        app.cluster.directory().audit_log(&range, before.as_ref(), limit + 1, wanted)
    });
    let mut entries =
        reading.await.map_err(|error| crate::failure::internal("the audit log could not be read", &error))?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let last = entries.last().filter(|_| more);
    let next = last.map(|entry| AuditCursor { created_at: entry.created_at, id: entry.id }.encode());
    Ok(Reply::ok(&List::page(entries.into_iter().map(AuditView::from).collect(), next)))
}

/// `actor` names a kind, an id or a key's prefix.
fn is_actor(actor: &AuditActor, text: &str) -> bool {
    actor.kind == text || actor.id.as_deref() == Some(text) || actor.prefix.as_deref() == Some(text)
}
