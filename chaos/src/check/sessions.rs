//! I3: a channel has at most one live session, and an owner of an older epoch never follows one of a newer: neither in
//! logins, nor in what the network accepts.

use std::collections::HashMap;
use std::time::Duration;

use super::number_of;
use super::verdict::{Finding, figure};
use crate::history::{Collected, FaultKind, LedgerRow, Login};

pub fn judge(run: &Collected, finding: &mut Finding) {
    logins(run, finding);
    ledger(run, finding);
    late_writes(run, finding);
}

fn logins(run: &Collected, finding: &mut Finding) {
    let (mut logins, mut replaced, mut own) = (0, 0, 0);
    for (number, rows) in &run.evidence.logins {
        logins += rows.len();
        for pair in rows.windows(2) {
            let (old, new) = (&pair[0], &pair[1]);
            let rows = || [format!("{number}: {}", told(old)), format!("then {}", told(new))];
            if new.epoch < old.epoch {
                finding.violated("an owner of an older epoch logged in after one of a newer", rows());
            }
            if new.epoch == old.epoch && new.node != old.node {
                finding.violated("two nodes logged in with one epoch", rows());
            }
            if old.ended_at.is_none_or(|ended| ended > new.at) {
                finding.violated("two sessions of one channel were live", rows());
            }
            // An owner that is paused, or cannot reach the network, cannot end its sessions in time.
            if old.end.as_deref() == Some("fenced") && !unseen_break(run, old.node, new) {
                finding.violated("a session outlived its owner's time", rows());
            }
            if old.end.as_deref() == Some("replaced") {
                replaced += 1;
                // Where the network has not seen the old connection break, an owner meets its own session.
                if old.node == new.node && old.epoch == new.epoch && unseen_break(run, new.node, new) {
                    own += 1;
                } else {
                    finding.violated("a login met a live session that it had no right to end", rows());
                }
            }
        }
    }
    let conflicts = run.evidence.stats.conflicts;
    if conflicts > replaced {
        finding.violated(
            format!("the network counted {conflicts} conflicts, {replaced} of them at the run's channels"),
            [],
        );
    }
    finding.judged(logins);
    finding.count(format!("{} logins of {} numbers", figure(logins), figure(run.evidence.logins.len())));
    finding.count(format!("{conflicts} conflicts, {} sessions fenced", figure(run.evidence.stats.fenced as usize)));
    if own > 0 {
        finding.note(format!("{own} owners met a session of their own whose break the network had not seen"));
    }
}

/// Checks that the network accepted messages of a number from owners of rising epochs, each of which had logged in. The
/// network handles the sends of one device in their order of arrival, including those of sessions that have ended, so a
/// row of an older epoch behind one of a newer is a late write that took effect.
fn ledger(run: &Collected, finding: &mut Finding) {
    let mut rows: Vec<&LedgerRow> = run.evidence.ledger.iter().collect();
    rows.sort_by_key(|row| row.seq);
    let mut newest: HashMap<&str, &LedgerRow> = HashMap::new();
    let mut judged = 0;
    for row in rows {
        let number = number_of(&row.from);
        let Some(logins) = run.evidence.logins.get(number) else { continue };
        judged += 1;
        let is_own = |login: &Login| login.node == row.node && login.epoch == row.epoch && login.at <= row.at;
        if !logins.iter().any(is_own) {
            finding.violated("a send was accepted of an owner that had not logged in", [accepted(number, row)]);
        }
        let before = *newest.entry(number).or_insert(row);
        if row.epoch < before.epoch {
            let rows = [accepted(number, before), format!("then {}", accepted(number, row))];
            finding.violated("a send of an older epoch was accepted after one of a newer", rows);
            continue;
        }
        if row.epoch == before.epoch && row.node != before.node {
            let rows = [accepted(number, before), format!("then {}", accepted(number, row))];
            finding.violated("sends of two nodes were accepted with one epoch", rows);
        }
        newest.insert(number, row);
    }
    finding.count(format!("{} sends accepted of owners in their order", figure(judged)));
}

/// Checks late writes, which arrive from an ended session, and are dropped and counted. They have no effect and violate
/// nothing by themselves, but an owner writes nothing after it has ended the session itself.
fn late_writes(run: &Collected, finding: &mut Finding) {
    let late = run.evidence.stats.late_writes;
    let displaced = |login: &Login| matches!(login.end.as_deref(), Some("fenced" | "replaced"));
    let ended = run.evidence.logins.values().flatten().filter(|login| displaced(login)).count();
    let cut =
        run.faults().any(|fault| matches!(fault.kind, FaultKind::NetworkCut | FaultKind::Pause | FaultKind::Slow));
    if late > 0 && ended == 0 && !cut {
        let told = format!("{late} late writes were dropped");
        finding.violated("an owner wrote to a session that nobody but itself had ended", [told]);
    }
    finding.count(format!("{late} late writes dropped"));
}

fn accepted(number: &str, row: &LedgerRow) -> String {
    let LedgerRow { seq, id, node, epoch, at, .. } = row;
    format!("{number}: {id} accepted as {seq} of node {node}, epoch {epoch}, at {at}")
}

/// Whether a node died or stood still, or its connection to the network was affected, shortly before a login. A node
/// that merely cannot reach its peers can end its sessions in time.
fn unseen_break(run: &Collected, node: u64, login: &Login) -> bool {
    let at = run.meta.at(login.at);
    run.faults().any(|fault| {
        let shortly = match fault.kind {
            FaultKind::Pause => Duration::from_secs(10),
            // The kernel closes a process's sockets once its last thread is gone, which may be in the middle of a sync.
            FaultKind::Crash => Duration::from_secs(2),
            // The network checks its connections every 20 s.
            FaultKind::NetworkCut => Duration::from_secs(30),
            _ => return false,
        };
        (fault.nodes.is_empty() || fault.nodes.contains(&node)) && fault.touches(at, at, shortly)
    })
}

fn told(login: &Login) -> String {
    let ended = login.ended_at.map_or_else(|| "lives".to_owned(), |at| at.to_string());
    let end = login.end.as_deref().unwrap_or("");
    format!("login {} by node {}, epoch {}, {} to {ended} {end}", login.login_seq, login.node, login.epoch, login.at)
}
