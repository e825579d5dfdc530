//! Events that the cluster itself records in the audit log: nodes that come and go, shards that are taken over, checks
//! that change. Together with operators' actions on nodes and shards, they form the cluster's timeline.

use std::collections::BTreeMap;

use model::id::{AuditId, NodeId};
use model::time::Timestamp;
use uuid::Uuid;

use super::records::{AuditActor, AuditEntry, AuditTarget};

/// A node's process has started; `details` contains its `release`.
pub const NODE_STARTED: &str = "node.started";
/// A node is no longer heard.
pub const NODE_LOST: &str = "node.lost";
/// The same process is heard again, after `away_ms`.
pub const NODE_BACK: &str = "node.back";
/// A node owns `shards` that another one owned before.
pub const TAKEN_OVER: &str = "shards.taken_over";
/// A check has changed its level.
pub const CHECK_CHANGED: &str = "check.changed";

const ALL: [&str; 5] = [NODE_STARTED, NODE_LOST, NODE_BACK, TAKEN_OVER, CHECK_CHANGED];

/// Whether the action is an event that the cluster observed, and not an action of a user or operator.
pub fn is_observation(action: &str) -> bool {
    ALL.contains(&action)
}

/// Entry for an event that a node saw. Event and time determine its id, so writing it again changes nothing.
pub fn entry(
    seen_by: NodeId,
    action: &str,
    target: AuditTarget,
    at: Timestamp,
    details: BTreeMap<String, String>,
) -> AuditEntry {
    let name = format!("{action}|{}|{}|{seen_by}|{}", target.kind, target.id, at.0);
    let id = AuditId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()));
    let actor = AuditActor { id: Some(seen_by.to_string()), ..AuditActor::of_kind("system") };
    AuditEntry { details, ..AuditEntry::done(id, action, actor, target, at) }
}

/// A node as the target of an entry.
pub fn node(id: NodeId) -> AuditTarget {
    AuditTarget::new("node", id, format!("node {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_twice_at_one_time_is_one_entry() {
        let seen = |by, of, at| entry(by, NODE_LOST, node(of), Timestamp(at), BTreeMap::new()).id;
        assert_eq!(seen(1, 2, 5), seen(1, 2, 5));
        assert!([seen(1, 2, 6), seen(1, 3, 5), seen(3, 2, 5)].iter().all(|other| *other != seen(1, 2, 5)));
        assert!(is_observation(NODE_LOST) && !is_observation("node.drained"));
    }
}
