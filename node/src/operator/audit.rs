//! `gateway audit tail`: the audit log, newest entries last, and optionally new ones as they are written.

use std::collections::HashSet;
use std::time::Duration;

use api::operator::audit::OwnedEntry;
use model::time::Timestamp;
use raft::directory::records::{AuditActor, AuditTarget};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::Verdict;
use super::client::{Operator, as_type, in_path};
use super::show::{UNKNOWN, columns, wrap};
use crate::cli::operator::AuditTailArgs;
use crate::console::{is_coloured, is_read, printable, say, say_json, terminal_columns, warn};
use crate::refusal::Refusal;

/// Interval of polling for new entries.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// New entries may carry times up to this much before entries already seen: nodes write failed attempts in batches, and
/// clocks differ.
const OVERLAP: Duration = Duration::from_secs(120);

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
    // Entries older than the requested lines must not be printed after them.
    let mut shown = HashSet::new();
    if args.follow {
        let rows = operator.all(&recent(Timestamp::now())).await?;
        shown.extend(rows.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned));
    }
    let last = operator.at_most(&format!("/v1/admin/audit-log?limit=100{filters}"), args.lines).await?;
    let mut newest = show(args, &last, &mut HashSet::new())?;
    if last.is_empty() && args.lines > 0 && !args.operator.json {
        warn("gateway: the audit log has no matching entries yet");
    }
    shown.extend(last.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned));
    if !args.follow {
        return Ok(Verdict::Well);
    }
    while is_read() {
        tokio::time::sleep(LOOK_AGAIN).await;
        match operator.all(&recent(newest)).await {
            Ok(rows) => newest = newest.max(show(args, &rows, &mut shown)?),
            Err(error) if error.is::<Refusal>() => return Err(error),
            // A node may be restarting, or an election running; entries written meanwhile are printed later.
            Err(error) => warn(format!("gateway: {error:#}; trying again")),
        }
    }
    Ok(Verdict::Well)
}

/// Prints the rows not printed yet, oldest first, and returns the time of the newest.
fn show(args: &AuditTailArgs, rows: &[Value], shown: &mut HashSet<String>) -> anyhow::Result<Timestamp> {
    let mut newest = Timestamp(0);
    for row in rows.iter().rev() {
        let said: OwnedEntry = as_type("/v1/admin/audit-log", row.clone())?;
        newest = newest.max(said.entry.created_at);
        if shown.insert(said.entry.id.to_string()) {
            match (args.operator.json, terminal_columns()) {
                (true, _) => say_json(&row.to_string()),
                (false, None) => say(line(&said)),
                (false, Some(_)) => say(lines(&said, columns(), is_coloured())),
            }
        }
    }
    Ok(if newest == Timestamp(0) { Timestamp::now() } else { newest })
}

fn by(AuditActor { kind, prefix, email, .. }: &AuditActor) -> String {
    prefix.as_ref().or(email.as_ref()).map_or_else(|| kind.clone(), |name| format!("{kind} {name}"))
}

fn on(AuditTarget { kind, label, .. }: &AuditTarget) -> String {
    format!("{kind} \"{label}\"")
}

/// An entry on one line, for programs such as grep.
fn line(OwnedEntry { entry, customer_id }: &OwnedEntry) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    let line = format!(
        "{}  {:<7}  {:<24}  by {}  on {}  customer {}  from {}",
        entry.created_at.to_iso(),
        entry.outcome,
        entry.action,
        by(&entry.actor),
        known(entry.target.as_ref().map(on)),
        known(customer_id.map(|customer| customer.to_string())),
        known(entry.ip.clone()),
    );
    printable(&line)
}

/// An entry for people: action and actor, then target and origin on indented lines.
fn lines(OwnedEntry { entry, customer_id }: &OwnedEntry, width: usize, coloured: bool) -> String {
    const INDENT: &str = "    ";
    let outcome = match (&*entry.outcome, coloured) {
        ("success", _) => String::new(),
        (other, true) => format!(" \u{1b}[31m({})\u{1b}[0m", printable(other)),
        (other, false) => format!(" ({})", printable(other)),
    };
    let mut lines =
        vec![format!("{}  {}{outcome}  by {}", entry.created_at.to_iso(), entry.action, printable(&by(&entry.actor)))];
    let on = entry.target.as_ref().map(|target| format!("on {}", on(target)));
    let from = entry.ip.as_ref().map(|ip| format!("from {ip}"));
    let customer = customer_id.map(|customer| format!("customer {customer}"));
    for part in [on, from, customer].into_iter().flatten().map(|part| printable(&part)) {
        match lines.last_mut().filter(|last| last.starts_with(INDENT) && last.width() + 2 + part.width() <= width) {
            Some(last) => *last = format!("{last}  {part}"),
            None => {
                let wrapped = wrap(&part, width - INDENT.len());
                lines.extend(wrapped.into_iter().map(|line| format!("{INDENT}{line}")));
            }
        }
    }
    lines.join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::AuditId;
    use serde_json::json;

    use super::*;

    fn entry(change: &Value) -> OwnedEntry {
        let mut entry = json!({
            "id": AuditId::random(), "action": "member.invited", "outcome": "success", "ip": "127.0.0.1",
            "actor": { "type": "session", "email": "ann@example.com" },
            "target": { "type": "member", "id": "1", "label": "ben@example.com" },
            "customer_id": "01a21564-ff8a-7619-be62-6280ebfdd65d", "created_at": "2026-11-26T01:08:07.031Z",
        });
        for (key, value) in change.as_object().unwrap() {
            entry[key] = value.clone();
        }
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn an_entry_fits_a_terminal_and_says_the_same_as_its_line() {
        let usual = lines(&entry(&json!({})), 80, false);
        assert_eq!(
            usual,
            "2026-11-26T01:08:07.031Z  member.invited  by session ann@example.com\n    \
             on member \"ben@example.com\"  from 127.0.0.1\n    customer 01a21564-ff8a-7619-be62-6280ebfdd65d"
        );
        let long = json!({ "type": "webhook_endpoint", "id": "1", "label": format!("https://example.com/{}", "x".repeat(200)) });
        for change in [json!({}), json!({ "target": long }), json!({ "target": null, "customer_id": null, "ip": null })]
        {
            let entry = entry(&change);
            let shown = lines(&entry, 80, false);
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
            assert_eq!(line(&entry).matches('x').count(), shown.matches('x').count());
        }
    }

    #[test]
    fn a_failure_stands_out_and_a_name_does_not_take_the_terminal_over() {
        let failed = entry(&json!({ "action": "auth.failed", "outcome": "failure", "ip": null }));
        assert!(lines(&failed, 80, true).contains("auth.failed \u{1b}[31m(failure)\u{1b}[0m  by"));
        assert!(!lines(&entry(&json!({})), 80, true).contains('\u{1b}'));
        let hostile = entry(&json!({ "target": { "type": "channel", "id": "1", "label": "\u{1b}[2J" } }));
        assert!(!lines(&hostile, 80, false).contains('\u{1b}'));
    }
}
