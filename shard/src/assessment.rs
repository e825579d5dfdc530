//! The state of the cluster's Raft groups, judged by the reports of all nodes: their leaders, replicas that lag behind,
//! and nodes that a group can do without.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{NodeId, ShardId};
use raft::host::report::GroupReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Survey;

/// The directory's group; the other groups are shards, with their numbers as ids.
pub const DIRECTORY: ShardId = 0;

/// A voter that lacks more entries than this would delay a quorum that needs it.
const BEHIND: u64 = 1_000;

/// Where the placement wants a group to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub leader: Option<NodeId>,
    pub replicas: Vec<NodeId>,
}

/// State of a Raft group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// The group has a leader, and all of its voters keep up.
    Ok,
    /// The group has a leader, but not all of its voters keep up.
    Degraded,
    NoLeader,
}

/// State of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaState {
    Ok,
    /// The replica runs, but lacks more than 1,000 entries.
    Behind,
    /// The node reports that the replica does not run.
    Stopped,
    /// The node did not answer.
    Silent,
}

/// One replica of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    pub node: NodeId,
    /// A learner counts for no quorum.
    pub voter: bool,
    pub state: ReplicaState,
    /// The index of the last entry that the node has applied.
    pub applied: Option<u64>,
    /// The number of entries that it has yet to apply.
    pub lag: Option<u64>,
    /// While a snapshot is being sent to it: the bytes sent so far.
    pub sent: Option<u64>,
}

/// One group, as reported by its leader and by each member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    pub id: ShardId,
    pub leader: Option<NodeId>,
    pub wanted_leader: Option<NodeId>,
    pub term: u64,
    /// Its leader reports that it commits nothing of what it has proposed.
    pub stalled: bool,
    /// In the order of nodes.
    pub replicas: Vec<Replica>,
}

impl GroupView {
    pub fn state(&self) -> GroupState {
        if self.leader.is_none() {
            GroupState::NoLeader
        } else if self.voters().all(|replica| replica.state == ReplicaState::Ok) {
            GroupState::Ok
        } else {
            GroupState::Degraded
        }
    }

    /// How many of the voters that keep up can be lost.
    pub fn can_lose(&self) -> usize {
        self.healthy().count().saturating_sub(self.majority())
    }

    /// Whether a majority of the voters keeps up without this node.
    pub fn survives_without(&self, node: NodeId) -> bool {
        self.healthy().filter(|healthy| *healthy != node).count() >= self.majority()
    }

    /// Whether another node leads than the placement wants.
    pub fn is_led_elsewhere(&self) -> bool {
        matches!((self.leader, self.wanted_leader), (Some(leader), Some(wanted)) if leader != wanted)
    }

    fn voters(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.iter().filter(|replica| replica.voter)
    }

    fn healthy(&self) -> impl Iterator<Item = NodeId> {
        self.voters().filter(|replica| replica.state == ReplicaState::Ok).map(|replica| replica.node)
    }

    fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }
}

/// Combines the reports of all nodes into a view of each group.
pub fn groups(survey: &Survey, wanted: &BTreeMap<ShardId, Wanted>) -> Vec<GroupView> {
    wanted.iter().map(|(id, wanted)| group(*id, survey, wanted)).collect()
}

fn group(id: ShardId, survey: &Survey, wanted: &Wanted) -> GroupView {
    let said: BTreeMap<NodeId, &GroupReport> = survey
        .iter()
        .filter_map(|(node, heard)| {
            let heard = heard.as_ref().ok()?;
            heard.report.host.groups.iter().find(|group| group.id == id).map(|group| (*node, group))
        })
        .collect();
    // A former leader that has not noticed its successor still reports to lead, in an older term.
    let leads = said.iter().filter(|(node, group)| group.leader == Some(**node) && !group.dead);
    let leader = leads.max_by_key(|(_, group)| group.term).map(|(node, group)| (*node, *group));
    let newest = leader.map(|(_, group)| group).or_else(|| said.values().copied().max_by_key(|group| group.term));

    let (voters, learners) = match newest {
        Some(group) if !group.voters.is_empty() => (group.voters.clone(), group.learners.clone()),
        _ => (wanted.replicas.iter().copied().collect(), BTreeSet::new()),
    };
    let end = leader
        .and_then(|(_, group)| group.last_index)
        .or_else(|| said.values().map(|group| group.applied).max())
        .unwrap_or(0);
    let replica = |node: NodeId, voter: bool| {
        let group = said.get(&node).copied();
        let lag = group.map(|group| end.saturating_sub(group.applied));
        let state = match (survey.get(&node), group) {
            (Some(Ok(_)), None) => ReplicaState::Stopped,
            (_, None) => ReplicaState::Silent,
            (_, Some(group)) if group.dead => ReplicaState::Stopped,
            _ if lag.is_some_and(|lag| lag > BEHIND) => ReplicaState::Behind,
            _ => ReplicaState::Ok,
        };
        let sent = leader.and_then(|(_, group)| group.sent.get(&node).copied());
        Replica { node, voter, state, applied: group.map(|group| group.applied), lag, sent }
    };
    let mut replicas: Vec<Replica> = voters.iter().map(|node| replica(*node, true)).collect();
    replicas.extend(learners.iter().map(|node| replica(*node, false)));
    replicas.sort_by_key(|replica| replica.node);
    GroupView {
        id,
        leader: leader.map(|(node, _)| node),
        wanted_leader: wanted.leader,
        term: newest.map_or(0, |group| group.term),
        stalled: leader.is_some_and(|(_, group)| group.stalled),
        replicas,
    }
}

/// Names groups in a message: `the directory, shard 3` or `shards 1, 2, 3`.
pub fn named(groups: &[ShardId]) -> String {
    let shards: Vec<String> = groups.iter().filter(|group| **group != DIRECTORY).map(ToString::to_string).collect();
    let directory = groups.contains(&DIRECTORY).then(|| "the directory".to_owned());
    let shards = match shards.len() {
        0 => None,
        1 => Some(format!("shard {}", shards[0])),
        _ => Some(format!("shards {}", shards.join(", "))),
    };
    directory.into_iter().chain(shards).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::report::tests::heard_with;

    fn report(leader: u64, term: u64, applied: u64) -> GroupReport {
        GroupReport {
            id: 1,
            term,
            leader: Some(leader),
            applied,
            last_index: Some(applied),
            voters: [1, 2, 3].into(),
            learners: BTreeSet::new(),
            dead: false,
            stalled: false,
            replicated: BTreeMap::new(),
            copies: BTreeMap::new(),
            sent: BTreeMap::new(),
            differing: BTreeSet::new(),
        }
    }

    fn view(nodes: [Option<GroupReport>; 3]) -> GroupView {
        let said = nodes.into_iter().zip(1..);
        let survey: Survey = said
            .map(|(group, node)| (node, group.map(|group| heard_with(vec![group])).ok_or_else(|| "away".to_owned())))
            .collect();
        let wanted = Wanted { leader: Some(1), replicas: vec![1, 2, 3] };
        groups(&survey, &[(1, wanted)].into()).remove(0)
    }

    #[test]
    fn a_whole_group_can_lose_any_one_node() {
        let group = view([Some(report(1, 5, 100)), Some(report(1, 5, 99)), Some(report(1, 5, 100))]);
        assert_eq!((group.state(), group.can_lose(), group.leader, group.term), (GroupState::Ok, 1, Some(1), 5));
        assert!((1..=3).all(|node| group.survives_without(node)));
        assert!(!group.is_led_elsewhere());
    }

    #[test]
    fn a_group_without_one_of_three_can_lose_none() {
        let group = view([None, Some(report(2, 6, 100)), Some(report(2, 6, 100))]);
        assert_eq!((group.state(), group.can_lose()), (GroupState::Degraded, 0));
        assert!(group.survives_without(1) && !group.survives_without(2) && !group.survives_without(3));
        assert!(group.is_led_elsewhere());
        assert_eq!(group.replicas[0].state, ReplicaState::Silent);
    }

    #[test]
    fn a_replica_that_lags_behind_does_not_count() {
        let group = view([Some(report(1, 5, 5000)), Some(report(1, 5, 10)), Some(report(1, 5, 5000))]);
        assert_eq!((group.state(), group.replicas[1].lag), (GroupState::Degraded, Some(4990)));
        assert!(!group.survives_without(3) && group.survives_without(2));
    }

    #[test]
    fn a_leader_says_that_it_commits_nothing_and_to_whom_it_sends_a_snapshot() {
        let leads = GroupReport { stalled: true, sent: [(3, 700)].into(), ..report(1, 5, 100) };
        let former = GroupReport { sent: [(1, 9)].into(), ..report(2, 4, 100) };
        let group = view([Some(leads.clone()), Some(former.clone()), None]);
        assert!(group.stalled);
        assert_eq!(group.replicas.iter().map(|replica| replica.sent).collect::<Vec<_>>(), [None, None, Some(700)]);
        let group =
            view([Some(GroupReport { stalled: false, ..leads }), Some(GroupReport { stalled: true, ..former }), None]);
        assert!(!group.stalled, "what a former leader says is of the past");
    }

    #[test]
    fn of_two_that_say_they_lead_the_later_term_does() {
        let group = view([Some(report(1, 5, 100)), Some(report(2, 6, 100)), Some(report(2, 6, 100))]);
        assert_eq!(group.leader, Some(2));
        let group = view([None, None, Some(report(2, 6, 100))]);
        assert_eq!((group.leader, group.state(), group.can_lose()), (None, GroupState::NoLeader, 0));
    }
}
