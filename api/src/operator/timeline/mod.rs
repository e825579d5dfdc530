//! `GET /v1/admin/timeline`: what happened to the cluster, both actions of operators and observations of the cluster
//! itself. It is the part of the audit log about the cluster, with the same retention.

mod watch;

use std::collections::BTreeMap;

use model::id::AuditId;
use model::page::ListId;
use model::time::Timestamp;
use raft::directory::observed::{CHECK_CHANGED, NODE_BACK, NODE_LOST, NODE_STARTED, TAKEN_OVER};
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget, BACKUP_TAKEN};
use schemars::JsonSchema;
use serde::Serialize;

pub use self::watch::keep;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::OperatorCall;
use crate::resources::audit_log::{AuditParameters, page};
use crate::route::{GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/timeline", list)
            .doc("list_timeline", "List the history of the cluster, the newest first")
            .about(
                "Contains nodes that came and went, shards that were taken over, changes of the layout, checks that \
                 changed, backups, releases and keys. A node or a check that changes again and again is listed six \
                 times an hour, and then every ten minutes.",
            )
            .query(asked)
            .page::<TimelineEntry>(),
    ]
}

const KINDS: [&str; 7] = ["node", "lead", "layout", "check", "backup", "release", "secrets"];

/// The timeline's kind of an audit action; `None` for actions that are not about the cluster.
fn kind(action: &str) -> Option<&'static str> {
    Some(match action {
        TAKEN_OVER | "shard.moved" => "lead",
        CHECK_CHANGED => "check",
        "format.raised" => "release",
        _ => {
            let area = action.split_once('.')?.0;
            ["node", "layout", "backup", "secrets"].into_iter().find(|kind| *kind == area)?
        }
    })
}

/// Something that happened to the cluster.
#[derive(Serialize, JsonSchema)]
struct TimelineEntry {
    id: AuditId,
    /// When it happened.
    at: Timestamp,
    #[schemars(extend("enum" = KINDS))]
    kind: &'static str,
    /// Action, as in the audit log.
    action: String,
    /// Summary, for people.
    summary: String,
    /// Node that the entry is about; `null` if it is about something else.
    node_id: Option<u64>,
    /// Who acted; with type `system`, the cluster itself observed it, and `id` is the number of the observing node.
    actor: AuditActor,
    /// What was acted upon.
    target: Option<AuditTarget>,
    /// Of shards taken over: `node`, `from`, `shards`, `channels`, `away_ms`, and `reason`, which is `lost` or
    /// `handed_over`. Of checks: `check`, `level`, `was`, `message`. Of nodes: `release`, `was`, `away_ms`.
    details: BTreeMap<String, String>,
}

impl TimelineEntry {
    fn of(entry: AuditEntry) -> Option<Self> {
        let kind = kind(&entry.action)?;
        let of_node = entry.target.as_ref().filter(|target| target.kind == "node");
        let node_id = of_node.and_then(|target| target.id.parse().ok());
        let (summary, at) = (summary(&entry), entry.created_at);
        Some(view_of!(move entry => id, action, actor, target, details; at, kind, summary, node_id))
    }
}

/// Formats milliseconds as seconds.
fn seconds(millis: &str) -> String {
    millis.parse::<f64>().map_or_else(|_| millis.to_owned(), |millis| format!("{:.2} s", millis / 1000.0))
}

fn summary(entry: &AuditEntry) -> String {
    let said = |name: &str| entry.details.get(name).map_or("", String::as_str);
    let label = entry.target.as_ref().map_or("the cluster", |target| target.label.as_str());
    let again = match said("changes") {
        "" => String::new(),
        changes => format!("; {changes} changes since the last entry about it"),
    };
    match entry.action.as_str() {
        NODE_STARTED => match said("was") {
            "" => format!("{label} started, release {}{again}", said("release")),
            was => format!("{label} started with release {}, after {was}{again}", said("release")),
        },
        NODE_LOST => format!("{label} stopped answering{again}"),
        NODE_BACK => format!("{label} answers again, after {}{again}", seconds(said("away_ms"))),
        TAKEN_OVER => {
            let (shards, node, away) = (said("shards"), said("node"), seconds(said("away_ms")));
            let several = if shards.contains(',') { "shards" } else { "shard" };
            let how = if said("reason") == "lost" { "took over" } else { "was given" };
            let channels = match said("channels") {
                "1" => "1 channel logs in again".to_owned(),
                channels => format!("{channels} channels log in again"),
            };
            format!("node {node} {how} {several} {shards} of {label} after {away}; {channels}")
        }
        CHECK_CHANGED => format!("{}: {}, after {}: {}", said("check"), said("level"), said("was"), said("message")),
        BACKUP_TAKEN => "a backup was taken".to_owned(),
        action => {
            let what = action.split_once('.').map_or(action, |(_, what)| what).replace('_', " ");
            format!("{label}: {what}")
        }
    }
}

fn asked(query: &Query<'_>) -> AuditParameters {
    let wanted = query.word("kind", &KINDS, |word| KINDS.into_iter().find(|kind| *kind == word));
    let about = move |action: &str| kind(action).is_some_and(|kind| wanted.is_none_or(|wanted| wanted == kind));
    AuditParameters::about(query, ListId::only(), about)
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let asked = call.asked(asked)?;
    let (entries, next) = page(&call.app, vec![None], asked, ListId::only()).await?;
    Ok(Reply::ok(&List::page(entries.into_iter().filter_map(TimelineEntry::of).collect(), next)))
}
