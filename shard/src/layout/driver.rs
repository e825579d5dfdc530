//! Executes changes of the placement step by step while this node leads the directory. Its whole state is in the
//! directory, so that the next leader continues where this one stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{NodeId, ShardId};
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::layout::{LayoutCommand, LayoutRecord, MoveRecord, MoveState};
use raft::directory::members::{MemberCommand, NodeState};
use raft::directory::records::{NodeRecord, PlacementRecord};
use raft::directory::state::DirectoryState;
use raft::directory::{Directory, UpdateError};
use raft::supervise;
use tokio_util::sync::CancellationToken;

use super::failure_detector::{Away, FailureDetector};
use super::load_balancer::{LoadBalancer, Rules};
use super::plan;
use crate::router::Router;

/// How often the leader looks for work.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Timeout of one update; failed updates are retried at a later look.
const UPDATE_PATIENCE: Duration = Duration::from_secs(10);

/// The default number of concurrent moves: each copies a shard's state, and sends must not be slowed down.
pub const AT_ONCE: u16 = 2;

/// The number of concurrent moves of leaderships that nobody requested: these shards are busy ones.
const LEADS_AT_ONCE: u16 = 1;

/// The next step.
#[derive(Debug, PartialEq)]
enum Step {
    Start(u64, Vec<u16>),
    Retarget(LayoutCommand),
    Repair(LayoutRecord),
    EvenOut(LayoutRecord),
    Remove(NodeId),
}

/// Executes changes of the placement until cancelled.
pub async fn run(directory: Arc<Directory>, router: Arc<Router>, rules: Rules, stop: CancellationToken) {
    let mut failure_detector = FailureDetector::default();
    let mut load_balancer = LoadBalancer::new(rules);
    let mut ticks = supervise::ticks(LOOK_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if directory.group().leadership().borrow().ready_epoch.is_none() {
            // Another node leads now and makes its own observations: the ones of this node are out of date.
            failure_detector = FailureDetector::default();
            load_balancer = LoadBalancer::new(rules);
            continue;
        }
        failure_detector.look(directory.read(awaited), &router).await;
        if load_balancer.is_due(Instant::now()) {
            let statuses = router.node_statuses().await;
            directory.read(|state| load_balancer.look(state, &statuses, Instant::now(), Timestamp::now()));
        }
        let away = failure_detector.away(Instant::now());
        let voters = directory.group().members().voters;
        let look = |state: &DirectoryState| {
            next(state, |node| voters.contains(&node), &away, &load_balancer, Timestamp::now())
        };
        let Some(step) = directory.read(look) else { continue };
        if let Err(error) = take(&directory, step).await {
            tracing::warn!(%error, "the layout could not be changed yet");
        }
    }
}

async fn take(directory: &Directory, step: Step) -> Result<(), UpdateError> {
    let update =
        async |command| directory.update(command, Vec::new(), Instant::now() + UPDATE_PATIENCE).await.map(drop);
    match step {
        Step::Start(number, shards) => {
            for shard in shards {
                tracing::info!(shard, layout = number, "a shard begins to move");
                update(Command::Layout(LayoutCommand::Start { number, shard })).await?;
            }
            Ok(())
        }
        Step::Retarget(command) => {
            tracing::info!(?command, "a move goes to another node: the former target leaves, is down, or has no space");
            update(Command::Layout(command)).await
        }
        Step::Repair(layout) => {
            tracing::info!(moves = layout.moves.len(), "shards get the replicas that they lack");
            update(Command::Layout(LayoutCommand::Begin(layout))).await
        }
        Step::EvenOut(layout) => {
            let leads: Vec<_> = layout.moves.iter().map(|each| (each.shard, each.leader)).collect();
            tracing::info!(?leads, "a node has had much more load than its share for a while: leaderships move");
            update(Command::Layout(LayoutCommand::Begin(layout))).await
        }
        Step::Remove(node) => {
            tracing::info!(node, "nothing is placed on a leaving node any more: it is removed");
            update(Command::Members(MemberCommand::Remove(node))).await
        }
    }
}

/// The nodes that get a replica by running or waiting moves, and, where replicas are missing, all that could get one.
fn awaited(state: &DirectoryState) -> BTreeSet<NodeId> {
    let holders = holders(state);
    if state.layout.as_ref().is_none_or(|layout| !layout.is_running())
        && state.placement.values().any(|place| !plan::is_whole(place, &holders))
    {
        return holders.into_iter().map(|node| node.id).collect();
    }
    let open = |each: &&MoveRecord| matches!(each.state, MoveState::Running | MoveState::Waiting);
    let moves = state.layout.iter().filter(|layout| layout.is_running()).flat_map(|layout| layout.moves.iter());
    moves.filter(open).flat_map(|each| each.to.iter().filter(|node| !each.from.contains(node)).copied()).collect()
}

fn next(
    state: &DirectoryState,
    votes: impl Fn(NodeId) -> bool,
    away: &Away,
    load_balancer: &LoadBalancer,
    now: Timestamp,
) -> Option<Step> {
    state.cluster.as_ref()?;
    if let Some(layout) = state.layout.as_ref().filter(|layout| layout.is_running()) {
        if let Some(command) = retarget(state, layout, away) {
            return Some(Step::Retarget(command));
        }
        let shards = due(layout, &holders(state), away);
        return (!shards.is_empty()).then_some(Step::Start(layout.number, shards));
    }
    let present: Vec<&PlacementRecord> = state.placement.values().map(|place| &**place).collect();
    if present.iter().any(|place| !place.formed || !place.settled) {
        return None;
    }
    let away = &away.silent | &away.full;
    let mut moves = plan::repair(&present, &holders(state), &away, &load_balancer.loads);
    // Either all moves of a shard start or none: each begins where the previous one ends.
    let waits = |each: &&MoveRecord| goes_to(each, &away);
    let waiting: BTreeSet<ShardId> = moves.iter().filter(waits).map(|each| each.shard).collect();
    moves.retain(|each| !waiting.contains(&each.shard));
    if !moves.is_empty() {
        return Some(Step::Repair(begin(state, moves, AT_ONCE, true, now)));
    }
    let leaving = state.nodes.values().filter(|node| node.state == NodeState::Leaving);
    let empty = leaving
        .map(|node| node.id)
        .find(|id| !votes(*id) && present.iter().all(|place| place.settled && !place.replicas.contains(id)));
    if let Some(empty) = empty {
        return Some(Step::Remove(empty));
    }
    if !load_balancer.wants_moves(state, now) {
        return None;
    }
    let moves = plan::even_out(&present, &holders(state), &load_balancer.loads, load_balancer.rules.most_moves);
    (!moves.is_empty()).then(|| Step::EvenOut(begin(state, moves, LEADS_AT_ONCE, true, now)))
}

/// A new target for the first running move that goes to a node that leaves or is dead. A dead node that had its replica
/// before the move is waited for: it returns with the shard, or is removed. If there is no such move, a new target for
/// the first move that goes to a node that has been full for long.
fn retarget(state: &DirectoryState, layout: &LayoutRecord, away: &Away) -> Option<LayoutCommand> {
    let nodes = holders(state);
    let running = || layout.moves.iter().filter(|each| each.state == MoveState::Running);
    let stays =
        |each: &MoveRecord, id: &NodeId| nodes.iter().any(|node| node.id == *id && may_have(each, node, &away.dead));
    let lost = running().find(|each| !each.to.iter().all(|id| stays(each, id)));
    let (moving, (to, leader)) = match lost {
        Some(lost) => (lost, elsewhere(lost, &nodes, &away.dead)?),
        None => running().find_map(|each| Some((each, around_full(each, &nodes, away)?)))?,
    };
    Some(LayoutCommand::Retarget { number: layout.number, shard: moving.shard, to, leader })
}

/// Whether a move may give a replica to a node, or leave one there, when nodes in `others` must get none.
fn may_have(each: &MoveRecord, node: &NodeRecord, others: &BTreeSet<NodeId>) -> bool {
    each.from.contains(&node.id) || !others.contains(&node.id)
}

/// A new target for a move that gives no replica to the nodes in `without`.
fn elsewhere(each: &MoveRecord, nodes: &[NodeRecord], without: &BTreeSet<NodeId>) -> Option<(Vec<NodeId>, NodeId)> {
    let left: Vec<NodeRecord> = nodes.iter().filter(|node| may_have(each, node, without)).cloned().collect();
    plan::elsewhere(each, &left)
}

/// A new target for a move that gives a replica to a node that has been full for long, unless the shard would get fewer
/// replicas by that: then the move waits for space.
fn around_full(each: &MoveRecord, nodes: &[NodeRecord], away: &Away) -> Option<(Vec<NodeId>, NodeId)> {
    if !goes_to(each, &away.full_for_long) {
        return None;
    }
    let found = elsewhere(each, nodes, &(&away.full | &away.dead))?;
    (found.0.len() >= each.to.len()).then_some(found)
}

/// Whether a move gives a replica to one of these nodes.
fn goes_to(each: &MoveRecord, nodes: &BTreeSet<NodeId>) -> bool {
    each.to.iter().any(|node| nodes.contains(node) && !each.from.contains(node))
}

/// The moves that may start: one of a shard at a time, in their order. A move to a full node waits for space there, and
/// delays no others; if it can be retargeted, it starts, and is retargeted then.
fn due(layout: &LayoutRecord, nodes: &[NodeRecord], away: &Away) -> Vec<u16> {
    let of = |state| layout.moves.iter().filter(move |each| each.state == state);
    let going_on = of(MoveState::Running).filter(|each| !goes_to(each, &away.full)).count();
    let free = usize::from(layout.at_once.max(1)).saturating_sub(going_on);
    let is_moving = |shard| of(MoveState::Running).any(|each| each.shard == shard);
    let waits = |each: &MoveRecord| goes_to(each, &away.full) && around_full(each, nodes, away).is_none();
    let (mut shards, mut seen) = (Vec::new(), BTreeSet::new());
    for each in of(MoveState::Waiting) {
        let is_next = seen.insert(each.shard);
        if is_next && shards.len() < free && !is_moving(each.shard) && !waits(each) {
            shards.push(each.shard);
        }
    }
    shards
}

/// The nodes that may hold replicas.
pub fn holders(state: &DirectoryState) -> Vec<NodeRecord> {
    state.nodes.values().filter(|node| node.state.holds_replicas()).map(|node| (**node).clone()).collect()
}

/// A new change of the layout, numbered after the last one.
pub fn begin(
    state: &DirectoryState,
    moves: Vec<MoveRecord>,
    at_once: u16,
    automatic: bool,
    now: Timestamp,
) -> LayoutRecord {
    let number = state.layout.as_ref().map_or(0, |last| last.number) + 1;
    LayoutRecord { number, moves, at_once, automatic, began_at: now, ended_at: None, cancelled_at: None }
}

#[cfg(test)]
pub(super) mod tests {
    use model::format::Format;
    use raft::directory::records::{ClusterRecord, SealedKey};

    use super::super::{place, tests::node};
    use super::*;

    pub(in super::super) fn state(nodes: &[NodeRecord], placed: Vec<PlacementRecord>) -> DirectoryState {
        let key = model::seal::DataKey::new([1; 32]);
        let nobody = model::id::CustomerId(uuid::Uuid::nil());
        let wrapped_by = model::seal::MasterKey::new([2; 32]).wrap(&key, nobody, [3; 24]);
        let cluster = ClusterRecord {
            cluster_id: uuid::Uuid::nil(),
            shard_count: 16,
            slots: ClusterRecord::even_slots(16),
            deployment_key: SealedKey { wrapped_by, sealed: Vec::new() },
            formed_at: Timestamp(0),
            format: Format::LATEST,
            exchange: None,
            session_key: None,
            data_keys: None,
        };
        let mut state = DirectoryState::default();
        state.cluster = Some(Arc::new(cluster));
        state.nodes = nodes.iter().map(|node| (node.id, Arc::new(node.clone()))).collect();
        state.placement = placed
            .into_iter()
            .map(|place| (place.shard, Arc::new(PlacementRecord { formed: true, ..place })))
            .collect();
        state
    }

    fn idle() -> LoadBalancer {
        LoadBalancer::new(Rules::new(true))
    }

    fn none() -> Away {
        Away::default()
    }

    pub(in super::super) fn three() -> Vec<NodeRecord> {
        (1..=3).map(|id| node(id, "a", 1)).collect()
    }

    fn leaving(id: NodeId) -> NodeRecord {
        NodeRecord { state: NodeState::Leaving, ..node(id, "a", 1) }
    }

    #[test]
    fn a_cluster_that_is_as_it_should_be_is_left_alone() {
        assert_eq!(next(&state(&three(), place(16, &three())), |_| true, &none(), &idle(), Timestamp(1)), None);
    }

    #[test]
    fn moves_begin_a_few_at_a_time_and_go_elsewhere_when_their_target_leaves() {
        let mut state = state(&three(), place(16, &three()[..1]));
        let Some(Step::Repair(layout)) = next(&state, |_| true, &none(), &idle(), Timestamp(1)) else {
            panic!("nothing to repair")
        };
        assert_eq!((layout.moves.len(), layout.number, layout.automatic), (16, 1, true));
        let mut begun = layout.clone();
        state.layout = Some(Arc::new(layout));
        assert_eq!(next(&state, |_| true, &none(), &idle(), Timestamp(1)), Some(Step::Start(1, vec![1, 2])));

        begun.moves[0].state = MoveState::Running;
        let to =
            PlacementRecord { replicas: begun.moves[0].to.clone(), settled: false, ..(*state.placement[&1]).clone() };
        state.placement.insert(1, Arc::new(to));
        state.layout = Some(Arc::new(begun));
        assert_eq!(next(&state, |_| true, &none(), &idle(), Timestamp(1)), Some(Step::Start(1, vec![2])));
        state.nodes.insert(3, Arc::new(leaving(3)));
        let Some(Step::Retarget(LayoutCommand::Retarget { shard: 1, to, .. })) =
            next(&state, |_| true, &none(), &idle(), Timestamp(1))
        else {
            panic!("a move goes on to a node that leaves")
        };
        assert_eq!(to.iter().collect::<std::collections::BTreeSet<_>>(), [1, 2].iter().collect());
    }

    #[test]
    fn a_move_to_a_node_that_is_full_waits_for_room_and_holds_up_no_other() {
        let mut state = state(&three(), place(16, &three()[..1]));
        let full = Away { full: BTreeSet::from([3]), ..none() };
        assert_eq!(next(&state, |_| true, &full, &idle(), Timestamp(1)), None, "none is begun");
        let placed = place(4, &three()[..2]);
        let to = |shard: usize, node: NodeId| {
            let place = &placed[shard - 1];
            let to = place.replicas.iter().copied().chain([node]).collect();
            MoveRecord::waiting(place, to, place.leader)
        };
        let mut moves = vec![to(1, 3), to(2, 3), to(3, 3), to(3, 4), to(4, 4)];
        moves[0].state = MoveState::Running;
        state.layout = Some(Arc::new(begin(&state, moves, 1, true, Timestamp(1))));
        let number = state.layout.as_ref().map_or(0, |layout| layout.number);
        assert_eq!(next(&state, |_| true, &none(), &idle(), Timestamp(1)), None, "one at a time");
        let expected = Some(Step::Start(number, vec![4]));
        assert_eq!(next(&state, |_| true, &full, &idle(), Timestamp(1)), expected);
    }

    #[test]
    fn a_move_to_a_node_that_is_full_for_long_is_led_elsewhere_where_no_replica_is_given_up() {
        let nodes: Vec<NodeRecord> = three().into_iter().chain([node(4, "a", 1)]).collect();
        let from = PlacementRecord { shard: 1, replicas: vec![1, 2, 3], leader: 2, formed: true, settled: true };
        let mut begun = MoveRecord::waiting(&from, vec![1, 2, 4], 2);
        begun.state = MoveState::Running;
        let to = PlacementRecord { replicas: begun.to.clone(), settled: false, ..from };
        let mut state = state(&nodes, vec![to]);
        state.layout = Some(Arc::new(begin(&state, vec![begun], 1, true, Timestamp(1))));
        let full = BTreeSet::from([4]);
        let lately = Away { full: full.clone(), ..none() };
        assert_eq!(next(&state, |_| true, &lately, &idle(), Timestamp(1)), None);
        let for_long = Away { full: full.clone(), full_for_long: full, ..none() };
        let Some(Step::Retarget(LayoutCommand::Retarget { to, leader: 2, .. })) =
            next(&state, |_| true, &for_long, &idle(), Timestamp(1))
        else {
            panic!("it waits for a disk that stays full")
        };
        assert_eq!(to.into_iter().collect::<BTreeSet<NodeId>>(), BTreeSet::from([1, 2, 3]));
        state.nodes.insert(3, Arc::new(leaving(3)));
        assert_eq!(next(&state, |_| true, &for_long, &idle(), Timestamp(1)), None, "two replicas are less than three");
    }

    #[test]
    fn a_move_that_has_not_begun_begins_where_it_can_be_led_around_a_node_that_is_full_for_long() {
        let nodes: Vec<NodeRecord> = three().into_iter().chain([node(4, "a", 1)]).collect();
        let at = PlacementRecord { shard: 1, replicas: vec![1, 2, 3], leader: 2, formed: true, settled: true };
        let waiting = MoveRecord::waiting(&at, vec![1, 2, 4], 2);
        let mut state = state(&nodes, vec![at]);
        state.layout = Some(Arc::new(begin(&state, vec![waiting], 1, true, Timestamp(1))));
        let full = BTreeSet::from([4]);
        let lately = Away { full: full.clone(), ..none() };
        assert_eq!(next(&state, |_| true, &lately, &idle(), Timestamp(1)), None);
        let for_long = Away { full: full.clone(), full_for_long: full, ..none() };
        assert_eq!(next(&state, |_| true, &for_long, &idle(), Timestamp(1)), Some(Step::Start(1, vec![1])));
        state.nodes.insert(3, Arc::new(leaving(3)));
        assert_eq!(next(&state, |_| true, &for_long, &idle(), Timestamp(1)), None, "it would give up a replica");
    }

    #[test]
    fn a_leaving_node_is_removed_when_it_holds_nothing_and_votes_no_more() {
        let mut nodes = three();
        nodes.push(leaving(4));
        let state = state(&nodes, place(16, &three()));
        assert_eq!(next(&state, |node| node == 4, &none(), &idle(), Timestamp(1)), None);
        assert_eq!(next(&state, |_| false, &none(), &idle(), Timestamp(1)), Some(Step::Remove(4)));
    }

    #[test]
    fn a_move_to_a_node_that_died_is_given_up_and_not_begun_again_while_it_is_dead() {
        let (mut state, dead) = (state(&three(), place(16, &three()[..2])), BTreeSet::from([3]));
        assert_eq!(awaited(&state), BTreeSet::from([1, 2, 3]), "all are asked before it begins");
        let silent = Away { silent: dead.clone(), ..none() };
        let away = Away { silent: dead.clone(), dead: dead.clone(), ..none() };
        let Some(Step::Repair(layout)) = next(&state, |_| true, &none(), &idle(), Timestamp(1)) else {
            panic!("no repair")
        };
        assert_eq!(next(&state, |_| true, &silent, &idle(), Timestamp(1)), None);
        assert_eq!(next(&state, |_| true, &away, &idle(), Timestamp(1)), None);
        let mut begun = layout;
        begun.moves[0].state = MoveState::Running;
        let to =
            PlacementRecord { replicas: begun.moves[0].to.clone(), settled: false, ..(*state.placement[&1]).clone() };
        state.placement.insert(1, Arc::new(to));
        state.layout = Some(Arc::new(begun));
        assert_eq!(awaited(&state), dead);
        let Some(Step::Retarget(LayoutCommand::Retarget { shard: 1, to, leader, .. })) =
            next(&state, |_| true, &away, &idle(), Timestamp(1))
        else {
            panic!("a move waits for a dead node")
        };
        assert_eq!(to.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&1, &2]));
        assert!(to.contains(&leader));
    }
}
