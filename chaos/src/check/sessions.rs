//! I3: at most one live session per channel, and an owner of an older epoch never comes after one of a newer.

use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::{Collected, FaultKind, Login};

pub fn judge(run: &Collected, finding: &mut Finding) {
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
            // Who stands still, or does not reach the network, cannot cut its sessions before another may own them.
            if old.end.as_deref() == Some("fenced") && !unseen_break(run, old.node, new) {
                finding.violated("a session outlived its owner's time", rows());
            }
            if old.end.as_deref() == Some("replaced") {
                replaced += 1;
                // Where the network did not see the old connection break, the owner meets its own session.
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
    finding.count(format!("{} logins of {} numbers", figure(logins), figure(run.evidence.logins.len())));
    finding.count(format!("{conflicts} conflicts, {} sessions fenced", figure(run.evidence.stats.fenced as usize)));
    if own > 0 {
        finding.note(format!("{own} owners met a session of their own whose break the network had not seen"));
    }
}

/// Whether a node, or its way to the network, was hurt shortly before a login.
fn unseen_break(run: &Collected, node: u64, login: &Login) -> bool {
    const SHORTLY: Duration = Duration::from_secs(60);
    let at = run.meta.at(login.at);
    run.faults().any(|fault| {
        matches!(fault.kind, FaultKind::Cut | FaultKind::Pause)
            && (fault.nodes.is_empty() || fault.nodes.contains(&node))
            && fault.touches(at, at, SHORTLY)
    })
}

fn told(login: &Login) -> String {
    let ended = login.ended_at.map_or_else(|| "lives".to_owned(), |at| at.to_string());
    let end = login.end.as_deref().unwrap_or("");
    format!("login {} by node {}, epoch {}, {} to {ended} {end}", login.login_seq, login.node, login.epoch, login.at)
}
