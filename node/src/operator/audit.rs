//! `gateway audit tail`: who did what, the newest last, and what comes.

use std::collections::HashSet;
use std::time::Duration;

use model::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Verdict;
use super::client::{Operator, as_type, in_path};
use super::show::{UNKNOWN, printable};
use crate::cli::operator::AuditTailArgs;
use crate::console::{is_read, say, warn};
use crate::refusal::Refusal;

/// How often new entries are looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// New entries may be noted up to so much earlier than others that were seen already: nodes write failed attempts in
/// batches, and clocks differ.
const OVERLAP: Duration = Duration::from_secs(120);

/// What of a row of `GET /v1/admin/audit-log` is shown.
#[derive(Deserialize)]
struct Entry {
    id: String,
    action: String,
    actor: Actor,
    target: Option<Target>,
    customer_id: Option<String>,
    ip: Option<String>,
    outcome: String,
    created_at: Timestamp,
}

#[derive(Deserialize)]
struct Actor {
    #[serde(rename = "type")]
    kind: String,
    prefix: Option<String>,
    email: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    #[serde(rename = "type")]
    kind: String,
    label: String,
}

pub async fn tail(args: &AuditTailArgs) -> anyhow::Result<Verdict> {
    let operator = Operator::new(&args.operator)?;
    let mut filters = String::new();
    for (name, value) in [("action", &args.action), ("actor", &args.actor)] {
        if let Some(value) = value {
            filters.push_str(&format!("&{name}={}", in_path(value)));
        }
    }
    if let Some(customer) = args.customer {
        filters.push_str(&format!("&customer_id={customer}"));
    }
    let recent =
        |newest: Timestamp| format!("/v1/admin/audit-log?limit=100&since={}{filters}", newest.minus(OVERLAP).to_iso());
    // What is older than the lines that are asked for is not to come after them.
    let mut shown = HashSet::new();
    if args.follow {
        let rows = operator.all(&recent(Timestamp::now())).await?;
        shown.extend(rows.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned));
    }
    let last = operator.at_most(&format!("/v1/admin/audit-log?limit=100{filters}"), args.lines).await?;
    let mut newest = show(args, &last, &mut HashSet::new())?;
    shown.extend(last.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned));
    if !args.follow {
        return Ok(Verdict::Well);
    }
    while is_read() {
        tokio::time::sleep(LOOK_AGAIN).await;
        match operator.all(&recent(newest)).await {
            Ok(rows) => newest = newest.max(show(args, &rows, &mut shown)?),
            Err(error) if error.is::<Refusal>() => return Err(error),
            // A node restarts, or an election goes on: what is noted meanwhile is shown afterwards.
            Err(error) => warn(format!("gateway: {error:#}; trying again")),
        }
    }
    Ok(Verdict::Well)
}

/// Shows the rows that were not shown yet, the oldest first, and gives the time of the newest.
fn show(args: &AuditTailArgs, rows: &[Value], shown: &mut HashSet<String>) -> anyhow::Result<Timestamp> {
    let mut newest = Timestamp(0);
    for row in rows.iter().rev() {
        let entry: Entry = as_type("/v1/admin/audit-log", row.clone())?;
        newest = newest.max(entry.created_at);
        if shown.insert(entry.id.clone()) {
            say(if args.operator.json { row.to_string() } else { line(&entry) });
        }
    }
    Ok(if newest == Timestamp(0) { Timestamp::now() } else { newest })
}

fn line(entry: &Entry) -> String {
    let actor = entry.actor.prefix.as_ref().or(entry.actor.email.as_ref());
    let actor = actor.map_or_else(|| entry.actor.kind.clone(), |name| format!("{} {name}", entry.actor.kind));
    let target = entry.target.as_ref().map(|target| format!("{} \"{}\"", target.kind, target.label));
    let known = |value: Option<&String>| value.map_or(UNKNOWN, String::as_str).to_owned();
    let line = format!(
        "{}  {:<7}  {:<24}  by {actor}  on {}  customer {}  from {}",
        entry.created_at.to_iso(),
        entry.outcome,
        entry.action,
        known(target.as_ref()),
        known(entry.customer_id.as_ref()),
        known(entry.ip.as_ref()),
    );
    printable(&line)
}
