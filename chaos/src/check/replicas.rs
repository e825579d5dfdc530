//! I9: replicas at the same applied index have the same state hash, and none stays behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::{Collected, Look};

/// A replica that does not reach within this time what others of its group had applied before will never reach it: all
/// is at rest, and a snapshot of a run's data takes less.
const BEHIND: Duration = Duration::from_secs(5);

pub fn judge(run: &Collected, finding: &mut Finding) {
    // Several looks at the same node count as one replica.
    let mut groups: BTreeMap<(u16, u64), BTreeSet<(u64, &str)>> = BTreeMap::new();
    let looked = run.evidence.looks.iter().flat_map(|look| &look.replicas);
    for replica in run.evidence.replicas.iter().chain(looked) {
        groups.entry((replica.group, replica.applied)).or_default().insert((replica.node, &replica.hash));
    }
    let mut compared: BTreeMap<u16, usize> = groups.keys().map(|(group, _)| (*group, 0)).collect();
    for ((group, applied), states) in &groups {
        let nodes: BTreeSet<u64> = states.iter().map(|(node, _)| *node).collect();
        if nodes.len() > 1 {
            *compared.entry(*group).or_default() += nodes.len();
        }
        let hashes: BTreeSet<&str> = states.iter().map(|(_, hash)| *hash).collect();
        if hashes.len() > 1 {
            let rows = states.iter().map(|(node, hash)| format!("node {node}: {hash}"));
            finding.violated(format!("replicas of group {group} differ at position {applied}"), rows);
        }
    }
    stay_behind(&run.evidence.looks, finding);
    finding.judged(compared.values().sum());
    finding.count(format!(
        "{} states, {} of them with another of the same position",
        figure(groups.values().map(BTreeSet::len).sum()),
        figure(compared.values().sum())
    ));
    if compared.values().any(|compared| *compared > 0) {
        for group in compared.iter().filter(|(_, compared)| **compared == 0).map(|(group, _)| *group) {
            let own = groups.iter().filter(|((of, _), _)| *of == group);
            let rows: Vec<String> = own
                .flat_map(|((_, applied), states)| {
                    states.iter().map(move |(node, _)| format!("node {node} at {applied}"))
                })
                .collect();
            finding.note(format!("no two replicas of group {group} could be compared: {}", rows.join(", ")));
        }
    } else if nodes(run).len() > 1 {
        // Without a comparison there is no difference either, so this must not pass.
        let told = format!("{} states were read, of nodes {:?}", run.evidence.replicas.len(), nodes(run));
        finding.violated("no two replicas could be compared", [told]);
    } else {
        finding.note("there is one node alone");
    }
}

/// All nodes that are known; node 0 is the messaging network.
fn nodes(run: &Collected) -> BTreeSet<u64> {
    let healed = run.evidence.liveness.iter().flat_map(|liveness| liveness.nodes.keys().copied());
    let asked = run.calls().map(|call| call.node).filter(|node| *node != 0);
    run.evidence.replicas.iter().map(|replica| replica.node).chain(healed).chain(asked).collect()
}

/// Checks that every replica reaches, by the last look, what two replicas had applied at the first one. Group and
/// replica may go on meanwhile.
fn stay_behind(looks: &[Look], finding: &mut Finding) {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return };
    if last.at.since(first.at) < BEHIND {
        return;
    }
    let mut reached: BTreeMap<(u16, u64), BTreeSet<u64>> = BTreeMap::new();
    for replica in &first.replicas {
        reached.entry((replica.group, replica.applied)).or_default().insert(replica.node);
    }
    // The highest position comes last, and so remains for each group.
    let agreed = reached.into_iter().filter(|(_, nodes)| nodes.len() > 1).map(|(position, _)| position);
    for (group, position) in agreed.collect::<BTreeMap<u16, u64>>() {
        let behind = |look: &Look| -> BTreeMap<u64, u64> {
            let rows = look.replicas.iter().filter(|replica| replica.group == group && replica.applied < position);
            rows.map(|replica| (replica.node, replica.applied)).collect()
        };
        // Only replicas that are behind in all looks; one that is missing in a look was not seen to stand still.
        let always = looks.iter().map(behind).reduce(|mut always, now| {
            always.retain(|node, _| now.contains_key(node));
            always
        });
        for (node, applied) in always.unwrap_or_default() {
            finding.violated(
                format!("a replica of group {group} stays behind"),
                [format!("node {node}: at {applied} at {}, not yet at {position} at {}", first.at, last.at)],
            );
        }
    }
}
