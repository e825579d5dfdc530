//! Decides whether the load of the nodes has been so uneven for so long that leaderships should move automatically.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::id::NodeId;
use model::time::Timestamp;
use raft::directory::members::NodeState;
use raft::directory::state::DirectoryState;

use super::load::{Loads, QUIET};
use crate::report::NodeStatus;

/// When leaderships move automatically. The default times are for production; tests have their own.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether leaderships are moved at all. Loads are measured in any case, as repairs use them.
    pub enabled: bool,
    pub look_every: Duration,
    /// How often in a row a node has to be overloaded: a load that passes within minutes is not worth new logins.
    pub looks: u32,
    /// The pause between the end of any change of the layout and the next automatic one: by then the loads, which are
    /// means over a minute, show its effect, and sessions have settled.
    pub rest: Duration,
    /// The load that a node may have, in percent of its share by weight.
    pub most_of_share: u64,
    /// The least traffic beyond a node's share that counts, in thousandths of an idle shard: an idle cluster is left
    /// alone, and so is one that is uneven only in the number of leaderships.
    pub least_traffic: u64,
    /// The most leaderships that one change moves.
    pub most_moves: usize,
}

impl Rules {
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled,
            look_every: Duration::from_secs(30),
            looks: 6,
            rest: Duration::from_secs(300),
            most_of_share: 140,
            least_traffic: 2 * QUIET,
            most_moves: 4,
        }
    }
}

/// The loads as known to the directory's leader. A new leader starts without any.
#[derive(Debug)]
pub struct LoadBalancer {
    pub(super) rules: Rules,
    pub(super) loads: Loads,
    looked_at: Option<Instant>,
    uneven: u32,
}

impl LoadBalancer {
    pub fn new(rules: Rules) -> Self {
        Self { rules, loads: Loads::default(), looked_at: None, uneven: 0 }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.looked_at.is_none_or(|last| now.saturating_duration_since(last) >= self.rules.look_every)
    }

    /// Updates the loads from the nodes that answer now.
    pub fn look(
        &mut self,
        state: &DirectoryState,
        statuses: &BTreeMap<NodeId, NodeStatus>,
        now: Instant,
        date: Timestamp,
    ) {
        self.looked_at = Some(now);
        self.loads = Loads::told(statuses);
        let is_uneven = self.is_settled(state, date) && all_is_in_place(state, statuses) && self.is_uneven(state);
        self.uneven = if is_uneven { self.uneven.saturating_add(1) } else { 0 };
    }

    /// Whether leaderships should move now.
    pub fn wants_moves(&self, state: &DirectoryState, date: Timestamp) -> bool {
        self.rules.enabled && self.uneven >= self.rules.looks && self.is_settled(state, date)
    }

    /// Whether the layout does not change, and has not changed for a while.
    fn is_settled(&self, state: &DirectoryState, date: Timestamp) -> bool {
        let has_rested =
            state.layout.as_ref().is_none_or(|last| last.ended_at.is_some_and(|end| end.plus(self.rules.rest) <= date));
        has_rested && state.placement.values().all(|place| place.formed && place.settled)
    }

    fn is_uneven(&self, state: &DirectoryState) -> bool {
        let bears = self.loads.by_node(state.placement.values().map(|place| (place.shard, place.leader)));
        // A new node that holds no replicas yet has no share yet.
        let holds = |id: &NodeId| state.placement.values().any(|place| place.replicas.contains(id));
        let nodes = state.nodes.values().filter(|node| holds(&node.id));
        let weights: BTreeMap<NodeId, u64> = nodes.map(|node| (node.id, u64::from(node.weight.max(1)))).collect();
        let all = weights.values().sum::<u64>().max(1);
        let load: u64 = bears.values().map(|bears| bears.load).sum();
        let traffic: u64 = bears.values().map(|bears| bears.traffic).sum();
        bears.iter().any(|(node, bears)| {
            let weight = weights.get(node).copied().unwrap_or(1);
            let is_far_above = bears.load * all * 100 > load * weight * self.rules.most_of_share;
            is_far_above && bears.traffic >= traffic * weight / all + self.rules.least_traffic
        })
    }
}

/// Whether every node is up and every shard is led by its intended leader: while a node is away, others carry its load.
fn all_is_in_place(state: &DirectoryState, statuses: &BTreeMap<NodeId, NodeStatus>) -> bool {
    let passes = |node: NodeState| matches!(node, NodeState::Active | NodeState::Joining);
    let is_owned = |leader: &NodeId, shard| {
        statuses.get(leader).is_some_and(|statuses| !statuses.draining && statuses.owns.contains(shard))
    };
    state.nodes.values().all(|node| passes(node.state))
        && state.placement.values().all(|place| is_owned(&place.leader, &place.shard))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::Arc;

    use model::id::ShardId;
    use raft::directory::layout::{LayoutRecord, MoveRecord, MoveState};

    use super::super::driver::tests::{state, three};
    use super::super::place;
    use super::super::plan;
    use super::*;
    use crate::report::tests::node_status;

    const RULES: Rules = Rules {
        enabled: true,
        look_every: Duration::from_secs(1),
        looks: 3,
        rest: Duration::from_secs(10),
        most_of_share: 140,
        least_traffic: 2 * QUIET,
        most_moves: 2,
    };

    /// A cluster of three nodes, with a manual clock.
    struct Scene {
        state: DirectoryState,
        load_balancer: LoadBalancer,
        start: Instant,
        at: Duration,
        /// The work of each shard per second.
        work: BTreeMap<ShardId, u64>,
    }

    impl Scene {
        fn new(work: impl Fn(ShardId, NodeId) -> u64) -> Self {
            let state = state(&three(), place(16, &three()));
            let work = state.placement.values().map(|place| (place.shard, work(place.shard, place.leader))).collect();
            Self { state, load_balancer: LoadBalancer::new(RULES), start: Instant::now(), at: Duration::ZERO, work }
        }

        fn date(&self) -> Timestamp {
            Timestamp(0).plus(self.at)
        }

        fn statuses(&self) -> BTreeMap<NodeId, NodeStatus> {
            let said = (1..=3).map(|node| {
                let owned = self.state.placement.values().filter(|place| place.leader == node);
                let owns = owned.map(|place| place.shard).collect();
                (node, NodeStatus { owns, work: self.work.clone(), ..node_status() })
            });
            said.collect()
        }

        /// Looks `count` times, each time with all loads varied; returns how many of the looks wanted moves.
        fn looks(&mut self, count: u64) -> usize {
            let (mut wanted, steady) = (0, self.work.clone());
            for look in 0..count {
                self.at += RULES.look_every;
                for (shard, work) in &mut self.work {
                    *work = steady[shard] * (92 + (look * 7 + u64::from(*shard) * 5) % 17) / 100;
                }
                let statuses = self.statuses();
                self.load_balancer.look(&self.state, &statuses, self.start + self.at, self.date());
                wanted += usize::from(self.load_balancer.wants_moves(&self.state, self.date()));
            }
            self.work = steady;
            wanted
        }

        /// Executes at once what the driver would do.
        fn move_leaders(&mut self) -> Vec<MoveRecord> {
            let present: Vec<_> = self.state.placement.values().map(|place| &**place).collect();
            let moves = plan::even_out(&present, &three(), &self.load_balancer.loads, RULES.most_moves);
            for each in &moves {
                let place = self.state.placement[&each.shard].clone();
                let led = raft::directory::records::PlacementRecord { leader: each.leader, ..(*place).clone() };
                self.state.placement.insert(each.shard, Arc::new(led));
            }
            let done = moves.iter().cloned().map(|each| MoveRecord { state: MoveState::Done, ..each }).collect();
            let number = self.state.layout.as_ref().map_or(1, |last| last.number + 1);
            let (at_once, began_at) = (1, self.date());
            let ended_at = Some(began_at);
            self.state.layout = Some(Arc::new(LayoutRecord {
                number,
                moves: done,
                at_once,
                automatic: true,
                began_at,
                ended_at,
                cancelled_at: None,
            }));
            moves
        }

        fn traffic(&self) -> Vec<u64> {
            let leaders = self.state.placement.values().map(|place| (place.shard, place.leader));
            self.load_balancer.loads.by_node(leaders).values().map(|bears| bears.traffic / QUIET).collect()
        }
    }

    #[test]
    fn a_node_that_bears_too_much_for_long_gives_a_few_leaderships_away_and_then_all_is_left_alone() {
        // All shards that node 1 leads are busy, and the others a little.
        let mut scene = Scene::new(|_, leader| if leader == 1 { 1_000 } else { 100 });
        assert_eq!(scene.looks(2), 0, "it may pass");
        assert_eq!(scene.looks(1), 1);
        let before = scene.traffic();
        let moves = scene.move_leaders();
        assert_eq!(moves.len(), 2);
        assert!(moves.iter().all(|each| !each.changes_replicas() && each.leader != 1), "{moves:?}");
        assert!(scene.traffic().iter().max() < before.iter().max(), "{:?} after {before:?}", scene.traffic());

        assert!(!scene.load_balancer.wants_moves(&scene.state, scene.date()), "it rests");
        let mut changes = 1;
        for _ in 0..20 {
            if scene.looks(RULES.rest.as_secs() + u64::from(RULES.looks)) > 0 {
                scene.move_leaders();
                changes += 1;
            }
        }
        assert!(changes <= 3, "leads that sway by a little flap: {changes} changes");
        assert!(scene.looks(50) == 0, "{:?}", scene.traffic());
    }

    #[test]
    fn what_is_quiet_even_passing_or_away_is_no_reason_to_move_leaderships() {
        let mut quiet = Scene::new(|_, leader| if leader == 1 { 20 } else { 0 });
        assert_eq!(quiet.looks(20), 0);
        let mut even = Scene::new(|_, _| 500);
        assert_eq!(even.looks(20), 0);

        let mut passing = Scene::new(|_, leader| if leader == 1 { 1_000 } else { 100 });
        assert_eq!(passing.looks(2), 0);
        let busy = std::mem::replace(&mut passing.work, even.work.clone());
        assert_eq!(passing.looks(1), 0);
        passing.work = busy;
        assert_eq!(passing.looks(2), 0, "it is counted anew");

        let mut away = passing;
        let drained =
            Arc::new(raft::directory::records::NodeRecord { state: NodeState::Draining, ..three()[2].clone() });
        away.state.nodes.insert(3, drained);
        assert_eq!(away.looks(20), 0);
        away.state.nodes.insert(3, Arc::new(three()[2].clone()));
        assert!(away.looks(20) > 0);
        away.load_balancer.rules.enabled = false;
        assert_eq!(away.looks(20), 0, "the operator does not want it");
    }

    #[test]
    fn a_heavier_node_may_bear_more() {
        let mut scene = Scene::new(|_, leader| if leader == 1 { 1_000 } else { 300 });
        let heavy = raft::directory::records::NodeRecord { weight: 4, ..three()[0].clone() };
        scene.state.nodes.insert(1, Arc::new(heavy));
        assert_eq!(scene.looks(20), 0);
    }
}
