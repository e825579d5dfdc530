//! `GET /v1/account/audit-log`, and pages of audit logs for operators.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::id::{AuditId, CustomerId};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use raft::directory::observed::is_observation;
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget};
use raft::directory::{AuditPage, AuditQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::AccountCall;

/// The most entries that are examined for a page, over all logs together.
const LOOKED_AT: usize = 20_000;

/// Timeout for reading a page.
const PATIENCE: Duration = Duration::from_secs(5);

/// An audit log entry.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub struct AuditView {
    pub id: AuditId,
    /// What was done, such as `key.issued`.
    pub action: String,
    pub actor: AuditActor,
    /// What was acted upon; `null` if nothing was.
    pub target: Option<AuditTarget>,
    /// IP address of the client; `null` if there is none, or if the entry covers several.
    pub ip: Option<String>,
    /// `User-Agent` of the client; `null` if unknown.
    pub user_agent: Option<String>,
    pub request_id: Option<String>,
    #[schemars(extend("enum" = ["success", "failure"]))]
    pub outcome: Cow<'static, str>,
    pub created_at: Timestamp,
    /// Further facts about the action; absent if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl From<AuditEntry> for AuditView {
    fn from(entry: AuditEntry) -> Self {
        let outcome = if entry.success { "success" } else { "failure" }.into();
        view_of!(move entry => id, action, actor, target, ip, user_agent, request_id, created_at, details; outcome)
    }
}

model::cursor! {
    /// The last entry of a page.
    AuditCursor("audit-log.1") { created_at: Timestamp, id: AuditId }
}

/// The parameters of a request.
pub struct AuditParameters {
    limit: usize,
    action: Option<String>,
    actor: Option<String>,
    since: Timestamp,
    until: Timestamp,
    before: Option<AuditCursor>,
    /// Selects the actions that the list shows.
    about: About,
}

type About = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl AuditParameters {
    /// Reads the parameters. Observations of the cluster, which are in its timeline, are shown only if `action` names
    /// them.
    pub fn of(query: &Query<'_>, list: ListId) -> Self {
        let action = query.text("action").map(str::to_owned);
        let actor = query.text("actor").map(str::to_owned);
        let is_named = action.is_some();
        let about = move |action: &str| is_named || !is_observation(action);
        Self { action, actor, ..Self::about(query, list, about) }
    }

    /// Reads the parameters of a list of other actions.
    pub fn about(query: &Query<'_>, list: ListId, about: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            limit: query.limit().unwrap_or(DEFAULT_LIMIT),
            action: None,
            actor: None,
            about: Box::new(about),
            since: query.time("since").unwrap_or(Timestamp(0)),
            until: query.time("until").unwrap_or(Timestamp(i64::MAX)),
            before: query.cursor(list),
        }
    }
}

/// Lists the log of the caller's account, newest first.
pub async fn list(call: &mut AccountCall) -> Outcome {
    let of = call.list(None, false);
    let asked = call.asked(|query| AuditParameters::of(query, of))?;
    let (entries, next) = page(&call.app, vec![Some(call.customer_id())], asked, of).await?;
    Ok(Reply::ok(&List::page(entries.into_iter().map(AuditView::from).collect(), next)))
}

/// A page of these customers' logs merged into one, newest first, and where the next page begins. `None` is the log of
/// entries without a customer. A page may be short or even empty and still have a next page, when the bound of examined
/// entries was reached.
///
/// # Errors
/// `worker_at_capacity` when the logs cannot be read in time.
pub async fn page(
    app: &Arc<App>,
    customers: Vec<Option<CustomerId>>,
    asked: AuditParameters,
    list: ListId,
) -> Result<(Vec<AuditEntry>, Option<String>), CallError> {
    let AuditParameters { limit, action, actor, since, until, before, about } = asked;
    let wanted = move |entry: &AuditEntry| {
        about(&entry.action)
            && action.as_ref().is_none_or(|action| *action == entry.action)
            && actor.as_ref().is_none_or(|actor| is_actor(&entry.actor, actor))
    };
    let reader = app.clone();
    let account = if let [one] = customers[..] { one } else { None };
    let before = before.map(|cursor| (cursor.created_at, cursor.id));
    let looked_at = LOOKED_AT / customers.len().max(1);
    // The log is on disk, and its reads must not delay other requests.
    let reading = app.cluster.reads().read(account, Instant::now() + PATIENCE, move |patience| {
        let of_one = |customer| {
            let range = AuditQuery { customer, since, until };
            reader.cluster.directory().audit_log(&range, before, limit + 1, looked_at, &wanted)
        };
        let customers = customers.into_iter().take_while(|_| !patience.is_over());
        AuditPage::merge(customers.map(of_one), limit)
    });
    let AuditPage { entries, stopped_at } = reading.await?;
    let next = stopped_at.map(|(created_at, id)| AuditCursor { created_at, id }.encode(list));
    Ok((entries, next))
}

/// Whether `text` is the actor's kind, id, key prefix or e-mail address.
fn is_actor(actor: &AuditActor, text: &str) -> bool {
    let is = |part: &Option<String>| part.as_deref() == Some(text);
    actor.kind == text || is(&actor.id) || is(&actor.prefix) || is(&actor.email)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use salvo::Request;

    #[test]
    fn each_wrong_part_of_a_query_is_named_once() {
        let mut request = Request::new();
        let query = "limit=0&since=yesterday&cursor=none";
        request.set_uri(format!("http://gateway.example/v1/account/audit-log?{query}").parse().unwrap());
        let query = Query::of(&request);
        let asked = AuditParameters::of(&query, ListId::only());
        let refused = query.finish(asked).err().unwrap();
        let issues = refused.details.unwrap();
        let paths: Vec<&str> =
            issues.as_array().unwrap().iter().map(|issue| issue["path"][0].as_str().unwrap()).collect();
        assert_eq!(paths, ["limit", "since", "cursor"]);
    }
}
