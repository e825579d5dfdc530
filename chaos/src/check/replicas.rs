//! I9: replicas at the same applied index have the same state hash.

use std::collections::BTreeMap;

use super::verdict::{Finding, figure};
use crate::history::{Collected, Replica};

pub fn judge(run: &Collected, finding: &mut Finding) {
    let mut groups: BTreeMap<(u16, u64), Vec<&Replica>> = BTreeMap::new();
    for replica in &run.evidence.replicas {
        groups.entry((replica.group, replica.applied)).or_default().push(replica);
    }
    let mut compared = 0;
    for ((group, applied), replicas) in &groups {
        compared += if replicas.len() > 1 { replicas.len() } else { 0 };
        if replicas.iter().any(|replica| replica.hash != replicas[0].hash) {
            let rows = replicas.iter().map(|replica| format!("node {}: {}", replica.node, replica.hash));
            finding.violated(format!("replicas of group {group} differ at position {applied}"), rows);
        }
    }
    finding.count(format!(
        "{} states, {} of them with another of the same position",
        figure(run.evidence.replicas.len()),
        figure(compared)
    ));
    if compared == 0 {
        finding.note("no two replicas could be compared");
    }
}
