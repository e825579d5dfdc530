//! `/v1/admin/layout`: the placement of the shards, the one that the ring of nodes wants, and the changes between them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::id::{ChannelId, NodeId, ShardId, Slot};
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::layout::{LayoutCommand, LayoutRecord, MoveRecord, MoveState};
use raft::directory::records::{NodeRecord, PlacementRecord};
use raft::directory::state::DirectoryState;
use raft::host::report::CopyProgress;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shard::layout::driver::{self, AT_ONCE};
use shard::layout::load::{Burden, Loads, QUIET};
use shard::layout::plan;

use crate::audit::Target;
use crate::reply::{Outcome, Reply, view_of};
use crate::request_context::OperatorCall;
use crate::route::{GET, POST, Route};

/// How long nodes may take to report the progress of new replicas.
const COPIES_PATIENCE: Duration = Duration::from_secs(1);

/// The most moves that may run concurrently.
const MOST_AT_ONCE: u64 = 64;

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/layout", show)
            .doc("get_layout", "Get the placement of the shards and its last change")
            .ok::<LayoutView>(),
        Route::operator(POST, "/v1/admin/layout/plan", plan_moves)
            .looks()
            .doc("plan_layout", "Get the moves that would balance the shards over the present nodes, and their cost")
            .about("Leadership is balanced by the load of the shards.")
            .ok::<PlanView>(),
        Route::operator(POST, "/v1/admin/layout/apply", apply)
            .doc("apply_layout", "Begin the moves that balance the shards over the present nodes")
            .about("With the `number` of a plan, refused if another change of the layout has begun since.")
            .optional_body(parse_apply, json!({ "at_once": 2 }))
            .accepted::<ChangeView>()
            .errors(&[E::ConcurrentModification, E::NoOp]),
        Route::operator(POST, "/v1/admin/layout/cancel", cancel)
            .doc("cancel_layout", "Cancel the moves that have not begun; running ones are completed")
            .accepted::<ChangeView>()
            .errors(&[E::NoOp]),
        Route::operator(POST, "/v1/admin/shards/{shard}/move", move_shard)
            .doc("move_shard", "Move a shard to a node by hand")
            .about(
                "Only its leadership moves if the node has a replica already. The next `apply` may move it back: it \
                 assigns all shards again.",
            )
            .body(parse_target, json!({ "node_id": 2 }))
            .accepted::<Moved>()
            .errors(&[E::ConcurrentModification, E::NoOp]),
        Route::operator(POST, "/v1/admin/channels/{id}/move", move_channel)
            .doc("move_channel", "Move a channel's whole shard to a node")
            .about("Without `node_id`, to the replica that leads the fewest shards.")
            .optional_body(parse_optional_target, json!({ "node_id": 2 }))
            .accepted::<Moved>()
            .errors(&[E::NotFound, E::ConcurrentModification, E::NoOp]),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Layout")]
pub struct LayoutView {
    /// Placement of each shard.
    pub shards: Vec<ShardView>,
    /// Last change of the layout; `null` if there was none since the cluster was created.
    pub change: Option<ChangeView>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlacedShard")]
pub struct ShardView {
    pub shard: ShardId,
    /// Nodes that hold a replica of the shard.
    pub replicas: Vec<NodeId>,
    /// Node that should lead the shard.
    pub leader: NodeId,
    /// Number of channels in the shard.
    pub channels: usize,
    /// Whether exactly the nodes in `replicas` vote; `false` while the shard moves to them.
    pub settled: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LayoutChange")]
pub struct ChangeView {
    pub number: u64,
    #[schemars(extend("enum" = ["running", "done", "cancelled"]))]
    pub state: Cow<'static, str>,
    /// Whether the cluster began it: to restore the number of replicas, or as a node had much more load than others.
    pub automatic: bool,
    pub at_once: u16,
    /// Start of the change.
    pub began_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Moves in total.
    pub total: usize,
    /// Moves that have not begun.
    pub waiting: usize,
    /// Moves in progress.
    pub running: usize,
    /// Completed moves.
    pub done: usize,
    /// Cancelled moves.
    pub cancelled: usize,
    /// The moves, each of one shard.
    pub moves: Vec<MoveView>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Move")]
pub struct MoveView {
    pub shard: ShardId,
    /// Nodes that hold the replicas before the move.
    pub from: Vec<NodeId>,
    /// Nodes that hold the replicas after the move.
    pub to: Vec<NodeId>,
    /// Node that should lead the shard after the move.
    pub leader: NodeId,
    pub state: MoveState,
    pub began_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Estimate of the bytes that new replicas have received of the shard's state, without media; `null` if none is
    /// being created, or nothing is on the leader's disk yet.
    pub copied_bytes: Option<u64>,
    /// Estimate of the bytes that new replicas receive in total; `null` like `copied_bytes`.
    pub to_copy_bytes: Option<u64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LayoutPlan")]
pub struct PlanView {
    /// Number of the change that this plan would begin, for `POST /v1/admin/layout/apply`.
    pub number: u64,
    /// The moves, each of one shard.
    pub moves: Vec<MoveView>,
    /// Cost of the moves.
    pub cost: Cost,
    /// Load of each node now and after the moves.
    // Release 0.1.0 does not send this field.
    #[serde(default)]
    #[schemars(!default)]
    pub nodes: Vec<BurdenView>,
}

/// Load of a node: the sum over the shards that it should lead, of which a quiet one counts 1, and a busy one more, by
/// its work in the last minute.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeLoad")]
pub struct BurdenView {
    pub node_id: NodeId,
    pub weight: u32,
    /// Number of shards that the node should lead now.
    pub leads: usize,
    /// Number of shards that the node should lead after the moves.
    pub leads_after: usize,
    /// Load of the shards that the node should lead now.
    pub load: f64,
    /// Load of the shards that the node should lead after the moves.
    pub load_after: f64,
}

/// Cost of moves.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LayoutCost")]
pub struct Cost {
    /// Replicas that are copied.
    pub replicas: usize,
    /// Shards whose leadership moves.
    pub leads: usize,
    /// Channels that log in again because the leadership of their shard moves.
    pub channels: usize,
}

/// A transfer of the leadership of a shard.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    pub shard: ShardId,
    /// Node that should have led the shard until now.
    pub from: NodeId,
    /// Node that should lead the shard from now on.
    pub to: NodeId,
}

impl From<&MoveRecord> for MoveView {
    fn from(each: &MoveRecord) -> Self {
        view_of!(each => shard, from, to, leader, state, began_at, ended_at; copied_bytes: None, to_copy_bytes: None)
    }
}

impl From<&LayoutRecord> for ChangeView {
    fn from(layout: &LayoutRecord) -> Self {
        let state = match (layout.is_running(), layout.cancelled_at) {
            (true, _) => "running",
            (false, Some(_)) => "cancelled",
            (false, None) => "done",
        };
        view_of!(
            layout => number, automatic, at_once, began_at, ended_at;
            state: state.into(),
            total: layout.moves.len(),
            waiting: layout.count(MoveState::Waiting),
            running: layout.count(MoveState::Running),
            done: layout.count(MoveState::Done),
            cancelled: layout.count(MoveState::Cancelled),
            moves: layout.moves.iter().map(MoveView::from).collect()
        )
    }
}

impl Cost {
    fn of(moves: &[MoveRecord], state: &DirectoryState) -> Self {
        let copied = |each: &MoveRecord| each.to.iter().filter(|node| !each.from.contains(node)).count();
        // A shard that moves in several steps may change its leader more than once; it counts once.
        let led_elsewhere =
            |each: &&MoveRecord| state.placement.get(&each.shard).is_some_and(|place| place.leader != each.leader);
        let shards: BTreeSet<ShardId> = moves.iter().filter(led_elsewhere).map(|each| each.shard).collect();
        Self {
            replicas: moves.iter().map(copied).sum(),
            leads: shards.len(),
            channels: shards.into_iter().map(|shard| state.channel_count_in(shard)).sum(),
        }
    }
}

impl ChangeView {
    /// Adds the progress of the replicas that are being created.
    fn with_copies(mut self, copies: &BTreeMap<ShardId, CopyProgress>) -> Self {
        for each in self.moves.iter_mut().filter(|each| each.state == MoveState::Running) {
            let of_it = copies.get(&each.shard).filter(|copy| copy.total > 0);
            each.copied_bytes = of_it.map(|copy| copy.copied);
            each.to_copy_bytes = of_it.map(|copy| copy.total);
        }
        self
    }
}

/// The progress of new replicas, summed per shard, as the leaders report it.
async fn copies(call: &OperatorCall) -> BTreeMap<ShardId, CopyProgress> {
    let survey = call.cluster().survey(COPIES_PATIENCE).await;
    let mut copies: BTreeMap<ShardId, CopyProgress> = BTreeMap::new();
    for (node, heard) in &survey {
        let groups = heard.iter().flat_map(|heard| &heard.report.host.groups);
        for group in groups.filter(|group| group.leader == Some(*node)) {
            for copy in group.copies.values() {
                let sum = copies.entry(group.id).or_insert(CopyProgress { copied: 0, total: 0 });
                *sum = CopyProgress { copied: sum.copied + copy.copied, total: sum.total + copy.total };
            }
        }
    }
    copies
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let runs = |state: &DirectoryState| state.layout.as_ref().is_some_and(|layout| layout.is_running());
    let copies = if call.directory().read(runs) { copies(call).await } else { BTreeMap::new() };
    let view = call.directory().read(|state| LayoutView {
        shards: state
            .placement
            .values()
            .map(|place| ShardView {
                shard: place.shard,
                replicas: place.replicas.clone(),
                leader: place.leader,
                channels: state.channel_count_in(place.shard),
                settled: place.settled,
            })
            .collect(),
        change: state.layout.as_ref().map(|layout| ChangeView::from(&**layout).with_copies(&copies)),
    });
    Ok(Reply::ok(&view))
}

fn balanced(state: &DirectoryState, loads: &Loads) -> Vec<MoveRecord> {
    let placement: Vec<&PlacementRecord> = state.placement.values().map(|place| &**place).collect();
    plan::balance(&placement, &driver::holders(state), loads)
}

fn burdens(state: &DirectoryState, moves: &[MoveRecord], loads: &Loads) -> Vec<BurdenView> {
    let present: BTreeMap<ShardId, NodeId> =
        state.placement.values().map(|place| (place.shard, place.leader)).collect();
    let mut wanted = present.clone();
    wanted.extend(moves.iter().map(|each| (each.shard, each.leader)));
    let (now, then) = (loads.by_node(present), loads.by_node(wanted));
    let of = |bears: &BTreeMap<NodeId, Burden>, node| bears.get(&node).copied().unwrap_or_default();
    let shards = |load: u64| load as f64 / QUIET as f64;
    let view = |node: &NodeRecord| {
        let (now, then) = (of(&now, node.id), of(&then, node.id));
        BurdenView {
            node_id: node.id,
            weight: node.weight,
            leads: now.leads,
            leads_after: then.leads,
            load: shards(now.load),
            load_after: shards(then.load),
        }
    };
    state.nodes.values().map(|node| view(node)).collect()
}

async fn plan_moves(call: &mut OperatorCall) -> Outcome {
    let loads = Loads::told(&call.cluster().node_statuses().await);
    let view = call.directory().read(|state| {
        let moves = balanced(state, &loads);
        let number = driver::begin(state, Vec::new(), AT_ONCE, false, call.now).number;
        let (cost, nodes) = (Cost::of(&moves, state), burdens(state, &moves, &loads));
        PlanView { number, cost, nodes, moves: moves.iter().map(MoveView::from).collect() }
    });
    Ok(Reply::ok(&view))
}

/// Parses the body of `apply`: the number of a plan, and how many moves run concurrently.
fn parse_apply(body: &Body) -> Result<(Option<u64>, u16), CallError> {
    body.read(|fields| {
        let number = fields.optional("number", rule::integer(1..=u64::from(u32::MAX)));
        let at_once = fields.optional("at_once", rule::integer(1..=MOST_AT_ONCE));
        Some((number, at_once.and_then(|at_once| u16::try_from(at_once).ok()).unwrap_or(AT_ONCE)))
    })
}

async fn apply(call: &mut OperatorCall) -> Outcome {
    let (number, at_once) = parse_apply(&call.optional_object().await?)?;
    let loads = Loads::told(&call.cluster().node_statuses().await);
    let layout = call.directory().read(|state| driver::begin(state, balanced(state, &loads), at_once, false, call.now));
    if number.is_some_and(|number| number != layout.number) {
        return Err(CallError::concurrent_modification("layout"));
    }
    if layout.moves.is_empty() {
        return Err(CallError::no_op("the shards are balanced over the present nodes already"));
    }
    begin(call, layout, "layout.applied").await?;
    change(call)
}

async fn cancel(call: &mut OperatorCall) -> Outcome {
    let running = call
        .directory()
        .read(|state| state.layout.as_ref().filter(|layout| layout.is_running()).map(|layout| layout.number));
    let number = running.ok_or_else(|| CallError::no_op("no change of the layout is under way"))?;
    let entry = call.audited_of_cluster("layout.cancelled", Target::new("layout", number, format!("layout {number}")));
    call.update(Command::Layout(LayoutCommand::Cancel { number }), vec![entry]).await?;
    change(call)
}

/// Answers with the current state of the last change.
fn change(call: &OperatorCall) -> Outcome {
    let view = call.directory().read(|state| state.layout.as_ref().map(|layout| ChangeView::from(&**layout)));
    view.map(|view| Reply::accepted(&view)).ok_or_else(|| CallError::not_found("layout", ""))
}

async fn begin(call: &OperatorCall, layout: LayoutRecord, action: &str) -> Result<(), CallError> {
    let target = Target::new("layout", layout.number, format!("layout {}", layout.number));
    let entry = call.audited_of_cluster(action, target);
    call.update(Command::Layout(LayoutCommand::Begin(layout)), vec![entry]).await.map(drop)
}

fn parse_target(body: &Body) -> Result<NodeId, CallError> {
    body.read(|fields| fields.required("node_id", rule::integer(1..=u64::from(u32::MAX))))
}

fn parse_optional_target(body: &Body) -> Result<Option<NodeId>, CallError> {
    body.read(|fields| Some(fields.optional("node_id", rule::integer(1..=u64::from(u32::MAX)))))
}

async fn move_shard(call: &mut OperatorCall) -> Outcome {
    let node = parse_target(&call.object().await?)?;
    let shard: Option<ShardId> = call.id("shard");
    let known = shard.filter(|shard| call.directory().read(|state| state.placement.contains_key(shard)));
    let shard = known.ok_or_else(|| CallError::not_found("shard", call.parameter("shard")))?;
    move_to(call, shard, Some(node)).await
}

async fn move_channel(call: &mut OperatorCall) -> Outcome {
    let node = parse_optional_target(&call.optional_object().await?)?;
    let shard = call.known("id", |state, id: ChannelId| state.shard_of(Slot::of_channel(state.channel(id)?.id)));
    move_to(call, shard.ok_or_else(CallError::channel_not_found)?, node).await
}

async fn move_to(call: &OperatorCall, shard: ShardId, node: Option<NodeId>) -> Outcome {
    let heard: BTreeSet<NodeId> = call.cluster().node_statuses().await.into_keys().collect();
    let (layout, from, to) = call.directory().read(|state| {
        let place = state.placement.get(&shard).ok_or_else(|| CallError::not_found("shard", &shard.to_string()))?;
        let to = node
            .or_else(|| least_loaded(state, place, &heard))
            .ok_or_else(|| CallError::bad_request("no other replica of the shard can lead it: name a node"))?;
        let target = state.nodes.get(&to).ok_or_else(|| CallError::not_found("node", &to.to_string()))?;
        if !target.state.leads() {
            return Err(CallError::bad_request(format!("node {to} cannot lead now: undrain it, or name another")));
        }
        if !heard.contains(&to) {
            return Err(CallError::bad_request(format!("node {to} does not answer: start it, or name another")));
        }
        let each = plan::to_node(place, to, &driver::holders(state)).ok_or_else(|| {
            CallError::no_op(format!(
                "node {to} is already the intended leader of shard {shard}, and leads it as soon as it can: see \
                 gateway shards"
            ))
        })?;
        Ok((driver::begin(state, vec![each], 1, false, call.now), place.leader, to))
    })?;
    begin(call, layout, "shard.moved").await?;
    Ok(Reply::accepted(&Moved { shard, from, to }))
}

/// Of a shard's other replicas whose nodes answered, the one that should lead the fewest shards.
fn least_loaded(state: &DirectoryState, place: &PlacementRecord, heard: &BTreeSet<NodeId>) -> Option<NodeId> {
    let leads = |node: &NodeId| state.placement.values().filter(|other| other.leader == *node).count();
    let able = |node: &NodeId| heard.contains(node) && state.nodes.get(node).is_some_and(|record| record.state.leads());
    place.replicas.iter().copied().filter(|node| *node != place.leader && able(node)).min_by_key(leads)
}
