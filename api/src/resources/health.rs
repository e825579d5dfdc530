//! Liveness, readiness and status of the whole gateway. Public routes, without tenants' data.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use model::id::NodeId;
use raft::directory::members::NodeState;
use salvo::http::StatusCode;
use salvo::http::header::RETRY_AFTER;
use schemars::JsonSchema;
use serde::Serialize;
use shard::assessment::named;

use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;
use crate::route::{GET, Route};
use crate::status_summary::{StatusSummary, summarise};

/// The `Retry-After` of a node that is not ready, in seconds. Starting and draining take some seconds.
const NOT_READY_SECONDS: u32 = 1;

/// How long a summary is cached.
const SUMMARY_MILLIS: i64 = 5_000;

pub fn routes() -> Vec<Route> {
    let mut routes = probes();
    routes.push(
        Route::public(GET, "/v1/status/summary", summary)
            .doc("get_status_summary", "Get the state of the whole gateway")
            .ok::<StatusSummary>(),
    );
    routes
}

/// The probes of supervisors, on both ports.
pub fn probes() -> Vec<Route> {
    vec![
        Route::public(GET, "/healthz", healthz).doc("get_health", "Check whether the node is alive").ok::<Health>(),
        Route::public(GET, "/readyz", readyz)
            .doc("get_readiness", "Check whether the node accepts requests")
            .ok::<Readiness>()
            .json::<Readiness>(StatusCode::SERVICE_UNAVAILABLE),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Health {
    status: &'static str,
    /// The release of the node that answers.
    version: String,
    /// The node that answers.
    node: u64,
}

/// Liveness only: a store outage must not make a supervisor restart the process.
async fn healthz(ctx: &mut RequestContext) -> Outcome {
    let version = ctx.app.config.version.clone();
    Ok(Reply::ok(&Health { status: "ok", version, node: ctx.cluster().node() }))
}

#[derive(Serialize, JsonSchema)]
struct Readiness {
    #[schemars(extend("enum" = ["ready", "not_ready"]))]
    status: &'static str,
    /// Condition of each part: `ok` or `failing`; of `drain`, `yes` or `no`.
    checks: BTreeMap<&'static str, Cow<'static, str>>,
}

async fn readyz(ctx: &mut RequestContext) -> Outcome {
    let readiness = ctx.cluster().readiness();
    let ready = readiness.is_ready();
    let check = |ok: bool| Cow::from(if ok { "ok" } else { "failing" });
    let mut body = Readiness {
        status: if ready { "ready" } else { "not_ready" },
        checks: BTreeMap::from([
            ("store", check(readiness.store)),
            ("cluster", check(readiness.cluster)),
            ("leases", check(readiness.leases)),
            ("drain", (if readiness.draining { "yes" } else { "no" }).into()),
        ]),
    };
    // Added only when commits fail, since the names of the affected groups are then needed.
    if !readiness.commits {
        let groups = ctx.cluster().stalled();
        body.checks.insert("commits", format!("failing: {}", named(&groups)).into());
    }
    if ready {
        return Ok(Reply::ok(&body));
    }
    Ok(Reply::json(StatusCode::SERVICE_UNAVAILABLE, &body).with(RETRY_AFTER, NOT_READY_SECONDS.into()))
}

async fn summary(ctx: &mut RequestContext) -> Outcome {
    let last = ctx.app.status_summary.lock().clone();
    if let Some(summary) = last.as_ref().filter(|summary| ctx.now.0 - summary.updated_at.0 < SUMMARY_MILLIS) {
        return Ok(Reply::ok(summary));
    }
    // A node that was admitted but has never started does not count as missing.
    let members: BTreeSet<NodeId> = ctx.directory().read(|state| {
        state.nodes.values().filter(|node| node.state != NodeState::Joining).map(|node| node.id).collect()
    });
    let statuses = ctx.cluster().node_statuses().await;
    let ready = statuses.iter().filter(|(node, statuses)| members.contains(node) && statuses.is_ready()).count();
    let total = members.len();
    let made = summarise(&ctx.cluster().readiness(), ready, total, ctx.now, last.as_ref());
    *ctx.app.status_summary.lock() = Some(made.clone());
    Ok(Reply::ok(&made))
}
