//! I10: after faults end, the cluster heals by itself within a bound, and the harness has observed it.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::verdict::{Finding, figure};
use crate::history::{At, Collected, Liveness};

pub fn judge(run: &Collected, finding: &mut Finding) {
    for untold in &run.evidence.untold {
        finding.violated("what the cluster knows was not told at the end", [untold.clone()]);
    }
    // Runs without faults observe the end as well, so this is never missing.
    let Some(liveness) = &run.evidence.liveness else {
        finding.violated("nobody looked whether the cluster healed", []);
        return;
    };
    let channels = run.evidence.stage.channels.iter().map(|channel| &channel.id);
    let unseen: Vec<String> = channels.filter(|id| !liveness.channels.contains_key(*id)).cloned().collect();
    if !unseen.is_empty() {
        finding.violated("nobody looked whether these channels came back", unseen);
    }
    if liveness.nodes.is_empty() {
        finding.violated("nobody looked whether any node takes sends again", []);
    }
    in_time("a channel was not connected", "", &liveness.channels, liveness, finding);
    in_time("no send was taken through a node", "node ", &liveness.nodes, liveness, finding);
    in_time("no send of a channel was taken", "", &liveness.sending, liveness, finding);
    in_time("a node was not ready", "node ", &liveness.ready, liveness, finding);
    finding.judged(liveness.channels.len() + liveness.nodes.len());
    let last = liveness.channels.values().chain(liveness.nodes.values()).flatten().max();
    let took = last.map(|last| format!(" after {:.1} s", last.since(liveness.since).as_secs_f64())).unwrap_or_default();
    finding.count(format!(
        "{} channels and {} nodes healed{took}",
        figure(liveness.channels.values().flatten().count()),
        figure(liveness.nodes.values().flatten().count())
    ));
}

/// Checks that each was seen within the bound.
fn in_time<T: Display>(
    what: &str,
    kind: &str,
    seen: &BTreeMap<T, Option<At>>,
    liveness: &Liveness,
    finding: &mut Finding,
) {
    let deadline = liveness.since.plus(liveness.bound);
    for (who, at) in seen.iter().filter(|(_, at)| at.is_none_or(|at| at > deadline)) {
        let seen = at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        finding.violated(
            format!("{what} within {:?} after the last fault", liveness.bound),
            [format!("{kind}{who}: {seen}; the last fault ended at {}", liveness.since)],
        );
    }
}
