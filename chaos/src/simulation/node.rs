//! A node's lifecycle: it takes part in the directory, and hosts the shards that the placement assigns to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::customer::{Limits, Plan as CustomerPlan};
use model::format::Format;
use model::id::{KeyId, NodeId, ShardId};
use model::seal::{DataKey, MasterKey};
use raft::directory::command::Command;
use raft::directory::members::NodeState;
use raft::directory::records::{
    ChannelRecord, ClusterRecord, CustomerRecord, KeyOrigin, KeyRecord, NodeRecord, PlacementRecord, SealedKey,
};
use raft::simulation::{Life, clock};

use super::directory;
use super::owner;
use super::scene::{DIRECTORY, Scene};

/// Pause between two checks of the placement.
const LOOK_AT_PLACES: Duration = Duration::from_millis(60);

/// How long the other members wait for the designated leader to initialize a shard's group.
const AFTER_YOU: Duration = Duration::from_secs(2);

/// Replicas of a shard, provided that the cluster has as many nodes.
pub const REPLICAS: usize = 3;

/// Starts a node on the contents of its disk.
pub async fn start(scene: &Arc<Scene>, node: NodeId) {
    let life = scene.world.start(node).await;
    scene.trace.note(format_args!("node {node} starts"));
    scene.world.open(life, DIRECTORY).await;
    scene.spawn("a node", keep(scene.clone(), life));
}

/// Starts all nodes and forms a cluster of them, with a customer and its channels. Returns whether it formed in time.
pub async fn form(scene: &Arc<Scene>, patience: Duration) -> bool {
    for node in &scene.plan.nodes {
        start(scene, *node).await;
    }
    let Some(first) = scene.up().first().copied() else { return false };
    let members = scene.plan.nodes.iter().copied().collect();
    if scene.group(first, DIRECTORY).initialize(members).await.is_err() {
        return false;
    }
    for command in first_commands(scene) {
        if !directory::update(scene, first, command, patience).await {
            return false;
        }
    }
    let deadline = clock::now() + patience;
    while (1..=scene.plan.shards).any(|shard| scene.leader_of(shard).is_none()) {
        if clock::now() >= deadline {
            return false;
        }
        clock::sleep(LOOK_AT_PLACES).await;
    }
    true
}

fn first_commands(scene: &Scene) -> Vec<Command> {
    let (now, customer) = (scene.now(), scene.customer);
    let wrapped = MasterKey::new([1; 32]).wrap(&DataKey::new([2; 32]), customer, Default::default());
    let nodes = scene.plan.nodes.iter().map(|node| {
        Command::RegisterNode(NodeRecord {
            id: *node,
            storage_id: uuid::Uuid::from_u128(u128::from(*node)),
            peer: format!("node-{node}:7000"),
            zone: None,
            weight: 100,
            max_channels: 1_000,
            registered_at: now,
            state: NodeState::Active,
            configured_weight: 100,
        })
    });
    let placement = (1..=scene.plan.shards).map(|shard| {
        let count = scene.plan.nodes.len();
        let replicas: Vec<_> =
            (0..REPLICAS.min(count)).map(|place| scene.plan.nodes[(usize::from(shard) + place) % count]).collect();
        PlacementRecord { shard, leader: replicas[0], replicas, formed: false, settled: true }
    });
    let cluster = ClusterRecord {
        cluster_id: scene.uuid(),
        shard_count: scene.plan.shards,
        slots: scene.slots.clone(),
        deployment_key: SealedKey { wrapped_by: wrapped.clone(), sealed: vec![1; 32] },
        formed_at: now,
        format: Format::LATEST,
        exchange: None,
        session_key: None,
        data_keys: None,
    };
    let key = KeyRecord {
        id: KeyId(scene.uuid()),
        customer_id: customer,
        name: "key".into(),
        prefix: "simulated".into(),
        hash: [7; 32],
        channel_id: None,
        scopes: Vec::new(),
        created_at: now,
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
        created_by: KeyOrigin::Signup,
        created_by_key_id: None,
    };
    let account = CustomerRecord {
        id: customer,
        name: "Simulated".into(),
        email: None,
        timezone: "UTC".into(),
        plan: CustomerPlan::default(),
        limits: Limits::default(),
        data_key: wrapped,
        former_data_key: None,
        created_at: now,
        deleted_at: None,
    };
    let channels = scene.channels.iter().map(|id| Command::CreateChannel {
        channel: ChannelRecord {
            id: *id,
            customer_id: customer,
            name: "0".into(),
            metadata: "{}".into(),
            created_at: now,
            updated_at: now,
            deleted_at: None,
        },
        scoped_key: None,
    });
    let form = Command::Form { cluster, placement: placement.collect() };
    let account = Command::CreateCustomer { customer: Box::new(account), key };
    nodes.chain([form, account]).chain(channels).collect()
}

/// Hosts the shards that the placement assigns to this node, following its changes, until the node's life ends.
async fn keep(scene: Arc<Scene>, life: Life) {
    let mut hosted: BTreeMap<ShardId, Arc<AtomicBool>> = BTreeMap::new();
    while scene.lives(life) {
        let places: Vec<_> = scene.copy(life).read(|state| state.placement.values().cloned().collect());
        for place in places {
            if place.replicas.contains(&life.node) {
                open(&scene, life, &place).await;
            } else if place.settled && scene.world.groups(life).contains(&place.shard) {
                leave(&scene, life, place.shard, &mut hosted).await;
            }
        }
        for group in scene.world.groups(life) {
            if group != DIRECTORY && !hosted.contains_key(&group) {
                let stop = Arc::new(AtomicBool::new(false));
                hosted.insert(group, stop.clone());
                scene.spawn("the host of a shard", owner::host(scene.clone(), life, group, stop));
            }
        }
        clock::sleep(LOOK_AT_PLACES).await;
    }
}

async fn open(scene: &Arc<Scene>, life: Life, place: &PlacementRecord) {
    let group = scene.group(life, place.shard);
    if group.runs() {
        return;
    }
    scene.world.open(life, place.shard).await;
    if place.formed {
        return;
    }
    let members = place.replicas.iter().copied().collect();
    if place.leader == life.node {
        // Refused by a group that is initialized already.
        let _ = group.initialize(members).await;
        return;
    }
    scene.spawn("the forming of a shard", async move {
        clock::sleep(AFTER_YOU).await;
        if group.is_pristine() {
            let _ = group.initialize(members).await;
        }
    });
}

/// Removes a replica that the placement no longer has here, once a linearizable read shows that it does not return.
async fn leave(scene: &Arc<Scene>, life: Life, shard: ShardId, hosted: &mut BTreeMap<ShardId, Arc<AtomicBool>>) {
    if scene.group(life, DIRECTORY).linearizable(LOOK_AT_PLACES * 4).await.is_err() {
        return;
    }
    let place = scene.copy(life).read(|state| state.placement.get(&shard).cloned());
    if place.is_none_or(|place| !place.settled || place.replicas.contains(&life.node)) {
        return;
    }
    if let Some(stop) = hosted.remove(&shard) {
        stop.store(true, Ordering::Relaxed);
    }
    scene.trace.note(format_args!("node {} leaves shard {shard}", life.node));
    scene.world.remove(life, shard).await;
}
