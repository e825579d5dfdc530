//! I10: after faults end, the cluster heals by itself within a bound.

use super::verdict::{Finding, figure};
use crate::history::Collected;

pub fn judge(run: &Collected, finding: &mut Finding) {
    let Some(liveness) = &run.evidence.liveness else {
        finding.note("nobody waited for the cluster to heal");
        return;
    };
    let deadline = liveness.since.plus(liveness.bound);
    let late = |at: &Option<crate::history::At>| at.is_none_or(|at| at > deadline);
    for (channel, at) in liveness.channels.iter().filter(|(_, at)| late(at)) {
        let seen = at.map_or_else(|| "never seen connected".to_owned(), |at| format!("connected at {at}"));
        finding.violated(
            format!("a channel was not connected within {:?} after the last fault", liveness.bound),
            [format!("{channel}: {seen}; the last fault ended at {}", liveness.since)],
        );
    }
    for (node, at) in liveness.nodes.iter().filter(|(_, at)| late(at)) {
        let seen = at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        finding.violated(
            format!("no send was taken through a node within {:?} after the last fault", liveness.bound),
            [format!("node {node}: {seen}; the last fault ended at {}", liveness.since)],
        );
    }
    let last = liveness.channels.values().chain(liveness.nodes.values()).flatten().max();
    let took = last.map(|last| format!(" after {:.1} s", last.since(liveness.since).as_secs_f64())).unwrap_or_default();
    finding.count(format!(
        "{} channels and {} nodes healed{took}",
        figure(liveness.channels.values().flatten().count()),
        figure(liveness.nodes.values().flatten().count())
    ));
}
