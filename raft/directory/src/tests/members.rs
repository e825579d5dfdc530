//! Nodes that come and go, and moves of shards.

use model::format::Format;
use model::id::NodeId;
use model::time::Timestamp;
use uuid::Uuid;

use super::{Rig, proposal};
use crate::command::{Command, Proposal, Rejection, Reply};
use crate::layout::{LayoutCommand, LayoutRecord, MoveRecord, MoveState};
use crate::members::{ASK_AGAIN, JoinToken, MemberCommand, NodeState};
use crate::records::{ClusterRecord, NodeRecord, PlacementRecord, SealedKey};
use crate::state::DirectoryState;

pub fn node(id: NodeId) -> NodeRecord {
    NodeRecord {
        id,
        storage_id: Uuid::from_u128(u128::from(id)),
        peer: format!("127.0.0.1:{}", 8200 + id),
        zone: None,
        weight: 1,
        max_channels: 1,
        registered_at: Timestamp(0),
        state: NodeState::Active,
        configured_weight: 1,
    }
}

fn place(shard: u16, replicas: &[NodeId]) -> PlacementRecord {
    PlacementRecord { shard, replicas: replicas.to_vec(), leader: replicas[0], formed: true, settled: true }
}

/// A cluster of one node with two shards.
pub fn formed() -> Rig {
    let mut rig = Rig::new();
    rig.run(Command::RegisterNode(node(1))).unwrap();
    let key = model::seal::DataKey::new([1; 32]);
    let master = model::seal::MasterKey::new([1; 32]);
    let wrapped_by = master.wrap(&key, model::id::CustomerId(Uuid::nil()), [3; 24]);
    let cluster = ClusterRecord {
        cluster_id: Uuid::from_u128(9),
        shard_count: 2,
        slots: ClusterRecord::even_slots(2),
        deployment_key: SealedKey { wrapped_by, sealed: Vec::new() },
        formed_at: Timestamp(1),
        format: Format::LATEST,
        exchange: None,
        session_key: None,
        data_keys: None,
    };
    rig.run(Command::Form { cluster, placement: vec![place(1, &[1]), place(2, &[1])] }).unwrap();
    rig
}

fn members(rig: &mut Rig, command: MemberCommand) -> Result<Reply, Rejection> {
    rig.run(Command::Members(command))
}

fn layout(rig: &mut Rig, command: LayoutCommand) -> Result<Reply, Rejection> {
    rig.run(Command::Layout(command))
}

fn token(hash: u8, expires_at: i64) -> JoinToken {
    let (created_at, expires_at) = (Timestamp(1), Timestamp(expires_at));
    JoinToken { hash: [hash; 32], created_at, expires_at, used_by: None, asked_again: false }
}

fn join(rig: &mut Rig, hash: u8, folder: NodeId) -> Result<NodeId, Rejection> {
    match members(rig, MemberCommand::Join { token: [hash; 32], node: node(folder) })? {
        Reply::Node(node) => Ok(node.id),
        other => panic!("{other:?}"),
    }
}

fn move_to(shard: u16, from: &[NodeId], to: &[NodeId]) -> MoveRecord {
    MoveRecord {
        shard,
        from: from.to_vec(),
        to: to.to_vec(),
        leader: to[0],
        state: MoveState::Waiting,
        began_at: None,
        ended_at: None,
    }
}

fn begun(number: u64, moves: Vec<MoveRecord>) -> LayoutCommand {
    LayoutCommand::Begin(LayoutRecord {
        number,
        moves,
        at_once: 1,
        automatic: false,
        began_at: Timestamp(1),
        ended_at: None,
        cancelled_at: None,
    })
}

#[test]
fn a_token_lets_one_node_in_once_and_answers_the_same_folder_once_more() {
    let mut rig = formed();
    assert_eq!(join(&mut rig, 7, 50), Err(Rejection::TokenUnknown));
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    assert_eq!(join(&mut rig, 7, 50), Ok(2));
    assert_eq!(join(&mut rig, 7, 51), Err(Rejection::TokenUsed));
    assert_eq!(join(&mut rig, 7, 50), Ok(2));
    assert_eq!(join(&mut rig, 7, 50), Err(Rejection::TokenUsed));
    assert!(DirectoryState::load(&rig.store).token(&[7; 32]).unwrap().asked_again);
    members(&mut rig, MemberCommand::IssueToken(token(8, 999))).unwrap();
    assert_eq!(join(&mut rig, 8, 51), Err(Rejection::TokenExpired(Timestamp(999))));
    members(&mut rig, MemberCommand::IssueToken(token(9, 9_000))).unwrap();
    let taken =
        members(&mut rig, MemberCommand::Join { token: [9; 32], node: NodeRecord { peer: node(50).peer, ..node(51) } });
    assert!(matches!(taken, Err(Rejection::AddressTaken { node: 2, .. })), "{taken:?}");
}

#[test]
fn a_used_token_gives_nothing_once_it_expired_or_its_node_was_started_or_minutes_have_passed() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::IssueToken(token(7, 10_000_000))).unwrap();
    assert_eq!(join(&mut rig, 7, 50), Ok(2));
    let (used, let_in) = {
        let state = rig.shared.state.read();
        ((**state.token(&[7; 32]).unwrap()).clone(), state.nodes[&2].registered_at)
    };
    let minutes = let_in.plus(ASK_AGAIN);
    let again = |rig: &Rig, token: &JoinToken, at| rig.shared.state.read().may_ask_again(token, at).map(|node| node.id);
    assert_eq!(again(&rig, &used, Timestamp(minutes.0 - 1)), Ok(2));
    assert_eq!(again(&rig, &used, minutes), Err(Rejection::TokenUsed));
    let short = JoinToken { expires_at: Timestamp(5_000), ..used.clone() };
    assert_eq!(again(&rig, &short, Timestamp(4_999)), Ok(2));
    assert_eq!(again(&rig, &short, Timestamp(5_000)), Err(Rejection::TokenExpired(Timestamp(5_000))));
    rig.run(Command::RegisterNode(NodeRecord { id: 2, ..node(50) })).unwrap();
    assert_eq!(join(&mut rig, 7, 50), Err(Rejection::TokenUsed));

    // While an earlier release may be in the cluster, all releases give its answers.
    let earlier =
        ClusterRecord { format: Format::SECOND, ..(**rig.shared.state.read().cluster.as_ref().unwrap()).clone() };
    rig.shared.state.write().cluster = Some(std::sync::Arc::new(earlier));
    assert_eq!(join(&mut rig, 7, 50), Ok(2));
    assert!(!rig.shared.state.read().token(&[7; 32]).unwrap().asked_again);
}

#[test]
fn a_member_does_not_take_the_address_of_another_and_may_take_a_free_one() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    join(&mut rig, 7, 50).unwrap();
    let of_first = || NodeRecord { peer: node(1).peer, ..node(50) };
    let taken = Rejection::AddressTaken { node: 1, address: node(1).peer };
    let again = members(&mut rig, MemberCommand::Join { token: [7; 32], node: of_first() });
    assert_eq!(again.unwrap_err(), taken);
    let register = |rig: &mut Rig, node| rig.run(Command::RegisterNode(NodeRecord { id: 2, ..node }));
    assert_eq!(register(&mut rig, of_first()).unwrap_err(), taken);
    assert_eq!(rig.shared.state.read().nodes[&2].peer, node(50).peer);
    register(&mut rig, NodeRecord { peer: node(60).peer, ..node(50) }).unwrap();
    assert_eq!(rig.shared.state.read().nodes[&2].peer, node(60).peer);

    // While release 0.1.0 may be in the cluster, all releases give its answers.
    let first =
        ClusterRecord { format: Format::FIRST, ..(**rig.shared.state.read().cluster.as_ref().unwrap()).clone() };
    rig.shared.state.write().cluster = Some(std::sync::Arc::new(first));
    register(&mut rig, of_first()).unwrap();
}

#[test]
fn an_id_is_bound_to_its_folder_and_never_given_again() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    join(&mut rig, 7, 50).unwrap();
    let joined = NodeRecord { id: 2, ..node(50) };
    assert!(matches!(
        rig.run(Command::RegisterNode(NodeRecord { storage_id: Uuid::from_u128(1), ..joined.clone() })),
        Err(Rejection::ForeignStorage { node: 2, .. })
    ));
    rig.run(Command::RegisterNode(joined.clone())).unwrap();
    assert_eq!(rig.shared.state.read().nodes[&2].state, NodeState::Active);
    assert_eq!(rig.run(Command::RegisterNode(node(9))).unwrap_err(), Rejection::NodeUnknown(9));

    members(&mut rig, MemberCommand::Leave(2)).unwrap();
    members(&mut rig, MemberCommand::Remove(2)).unwrap();
    assert_eq!(rig.run(Command::RegisterNode(joined)).unwrap_err(), Rejection::NodeRemoved(2));
    members(&mut rig, MemberCommand::IssueToken(token(8, 9_000))).unwrap();
    assert_eq!(join(&mut rig, 8, 51), Ok(3));
}

#[test]
fn a_node_that_leaves_does_not_come_back_and_the_last_one_stays() {
    let mut rig = formed();
    assert_eq!(members(&mut rig, MemberCommand::Leave(1)).unwrap_err(), Rejection::LastNode(1));
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    join(&mut rig, 7, 50).unwrap();
    let early = members(&mut rig, MemberCommand::Drain(2)).unwrap_err();
    assert_eq!(early, Rejection::NodeState { node: 2, state: NodeState::Joining });
    rig.run(Command::RegisterNode(NodeRecord { id: 2, ..node(50) })).unwrap();
    members(&mut rig, MemberCommand::Drain(2)).unwrap();
    members(&mut rig, MemberCommand::Undrain(2)).unwrap();
    members(&mut rig, MemberCommand::Leave(2)).unwrap();
    let late = members(&mut rig, MemberCommand::Undrain(2)).unwrap_err();
    assert_eq!(late, Rejection::NodeState { node: 2, state: NodeState::Leaving });
    // A leaving node stays so after a restart.
    rig.run(Command::RegisterNode(NodeRecord { id: 2, ..node(50) })).unwrap();
    assert_eq!(rig.shared.state.read().nodes[&2].state, NodeState::Leaving);
}

#[test]
fn of_two_removals_that_were_judged_at_once_the_second_is_refused() {
    let mut rig = formed();
    for (hash, id) in (2..).zip(2..=4) {
        members(&mut rig, MemberCommand::IssueToken(token(hash, 9_000))).unwrap();
        join(&mut rig, hash, id + 50).unwrap();
        rig.run(Command::RegisterNode(NodeRecord { id, ..node(id + 50) })).unwrap();
    }
    let leave = |node, others: &[NodeId]| MemberCommand::LeaveBehind { node, others: others.iter().copied().collect() };
    members(&mut rig, leave(4, &[1, 2, 3])).unwrap();
    assert_eq!(members(&mut rig, leave(3, &[1, 2, 4])).unwrap_err(), Rejection::LayoutStale);
    members(&mut rig, leave(3, &[1, 2])).unwrap();
    members(&mut rig, leave(2, &[1])).unwrap();
    assert_eq!(members(&mut rig, leave(1, &[])).unwrap_err(), Rejection::LastNode(1));
}

#[test]
fn a_weight_given_by_hand_holds_until_the_configuration_gives_another() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::Weigh { node: 1, weight: 4 }).unwrap();
    rig.run(Command::RegisterNode(node(1))).unwrap();
    assert_eq!(rig.shared.state.read().nodes[&1].weight, 4);
    rig.run(Command::RegisterNode(NodeRecord { weight: 2, ..node(1) })).unwrap();
    assert_eq!(rig.shared.state.read().nodes[&1].weight, 2);
}

#[test]
fn moves_go_from_waiting_to_done_and_the_layout_ends_with_the_last() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    join(&mut rig, 7, 50).unwrap();
    assert_eq!(layout(&mut rig, begun(2, Vec::new())).unwrap_err(), Rejection::LayoutStale);
    rig.run(Command::RegisterNode(NodeRecord { id: 2, ..node(50) })).unwrap();
    layout(&mut rig, begun(1, vec![move_to(1, &[1], &[1, 2]), move_to(2, &[1], &[1, 2])])).unwrap();
    assert_eq!(layout(&mut rig, begun(2, Vec::new())).unwrap_err(), Rejection::LayoutRuns);

    layout(&mut rig, LayoutCommand::Start { number: 1, shard: 1 }).unwrap();
    assert_eq!(rig.shared.state.read().placement[&1].replicas, [1, 2]);
    assert!(!rig.shared.state.read().placement[&1].settled);
    let early = layout(&mut rig, LayoutCommand::Settled { shard: 1, replicas: vec![1] }).unwrap_err();
    assert_eq!(early, Rejection::LayoutStale);
    layout(&mut rig, LayoutCommand::Settled { shard: 1, replicas: vec![2, 1] }).unwrap();
    assert!(rig.shared.state.read().placement[&1].settled);

    layout(&mut rig, LayoutCommand::Cancel { number: 1 }).unwrap();
    let state = rig.shared.state.read();
    let ended = state.layout.as_ref().unwrap();
    assert_eq!((ended.count(MoveState::Done), ended.count(MoveState::Cancelled)), (1, 1));
    assert!(!ended.is_running());
    assert_eq!(state.placement[&2].replicas, [1]);
}

#[test]
fn a_node_that_something_is_placed_on_is_not_removed() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    join(&mut rig, 7, 50).unwrap();
    rig.run(Command::RegisterNode(NodeRecord { id: 2, ..node(50) })).unwrap();
    layout(&mut rig, begun(1, vec![move_to(1, &[1], &[1, 2])])).unwrap();
    layout(&mut rig, LayoutCommand::Start { number: 1, shard: 1 }).unwrap();
    layout(&mut rig, LayoutCommand::Settled { shard: 1, replicas: vec![1, 2] }).unwrap();
    members(&mut rig, MemberCommand::Leave(2)).unwrap();
    assert!(members(&mut rig, MemberCommand::Remove(2)).is_err());
    layout(&mut rig, begun(2, vec![move_to(1, &[2, 1], &[1])])).unwrap();
    layout(&mut rig, LayoutCommand::Start { number: 2, shard: 1 }).unwrap();
    assert!(members(&mut rig, MemberCommand::Remove(2)).is_err(), "it still votes");
    layout(&mut rig, LayoutCommand::Settled { shard: 1, replicas: vec![1] }).unwrap();
    members(&mut rig, MemberCommand::Remove(2)).unwrap();
}

#[test]
fn a_move_to_a_node_that_leaves_is_led_elsewhere_or_never_begins() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    join(&mut rig, 7, 50).unwrap();
    rig.run(Command::RegisterNode(NodeRecord { id: 2, ..node(50) })).unwrap();
    layout(&mut rig, begun(1, vec![move_to(1, &[1], &[1, 2]), move_to(2, &[1], &[1, 2])])).unwrap();
    layout(&mut rig, LayoutCommand::Start { number: 1, shard: 1 }).unwrap();
    members(&mut rig, MemberCommand::Leave(2)).unwrap();
    layout(&mut rig, LayoutCommand::Retarget { number: 1, shard: 1, to: vec![1], leader: 1 }).unwrap();
    layout(&mut rig, LayoutCommand::Start { number: 1, shard: 2 }).unwrap();
    layout(&mut rig, LayoutCommand::Settled { shard: 1, replicas: vec![1] }).unwrap();
    {
        let state = rig.shared.state.read();
        let ended = state.layout.as_ref().unwrap();
        assert_eq!((ended.count(MoveState::Done), ended.count(MoveState::Cancelled)), (1, 1));
        assert_eq!((&state.placement[&1].replicas[..], &state.placement[&2].replicas[..]), (&[1][..], &[1][..]));
    }
    members(&mut rig, MemberCommand::Remove(2)).unwrap();
}

#[test]
fn what_is_known_of_members_survives_a_restart() {
    let mut rig = formed();
    members(&mut rig, MemberCommand::IssueToken(token(7, 9_000))).unwrap();
    layout(&mut rig, begun(1, vec![move_to(1, &[1], &[1, 2])])).unwrap();
    let again = Proposal { at: Timestamp(2_000), ..proposal(Command::Audit) };
    rig.propose(&again);
    let loaded = crate::state::DirectoryState::load(&rig.store);
    assert_eq!(loaded.layout, rig.shared.state.read().layout);
    assert_eq!(loaded.nodes, rig.shared.state.read().nodes);
    use machine::Machine;
    let store = rig.store.clone();
    rig.machine.restore(&store);
    assert_eq!(join(&mut rig, 7, 50), Ok(2));
}

#[test]
fn the_format_is_raised_when_all_members_are_sealed_and_never_lowered() {
    let mut rig = formed();
    let format = |rig: &Rig| rig.shared.state.read().cluster.as_ref().unwrap().format;
    let first =
        ClusterRecord { format: Format::FIRST, ..(**rig.shared.state.read().cluster.as_ref().unwrap()).clone() };
    rig.shared.state.write().cluster = Some(std::sync::Arc::new(first));
    rig.run(Command::Members(MemberCommand::IssueToken(token(1, 9_000)))).unwrap();
    rig.run(Command::Members(MemberCommand::Join { token: [1; 32], node: node(7) })).unwrap();
    let raise = |format, sealed: &[NodeId]| Command::RaiseFormat { format, sealed: sealed.to_vec() };
    // A node that has joined in between must confirm first.
    assert_eq!(rig.run(raise(Format::SECOND, &[1])).unwrap_err(), Rejection::NotSealed(2));
    assert_eq!(format(&rig), Format::FIRST);
    rig.run(raise(Format::SECOND, &[1, 2])).unwrap();
    assert_eq!(format(&rig), Format::SECOND);
    rig.run(raise(Format::FIRST, &[1, 2])).unwrap();
    assert_eq!(format(&rig), Format::SECOND);
    assert_eq!(DirectoryState::load(&rig.store).cluster.unwrap().format, Format::SECOND);
}
