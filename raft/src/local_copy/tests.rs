//! Which peers a node talks to, according to its copy of the directory.

use directory::keys;
use directory::members::{NodeState, RemovedNode};
use directory::records::{ClusterRecord, NodeRecord, SealedKey};
use model::id::CustomerId;
use model::seal::{DataKey, MasterKey};
use model::time::Timestamp;

use super::*;
use crate::machine::{MemoryState, State};
use crate::record::encode;

const OTHER: Uuid = Uuid::from_u128(99);

fn folder(id: u64) -> Uuid {
    Uuid::from_u128(u128::from(id))
}

/// The stored state after a node has registered.
fn with_node(id: NodeId) -> MemoryState {
    let mut store = MemoryState::new();
    let record = NodeRecord {
        id,
        storage_id: folder(id),
        peer: format!("127.0.0.1:{}", 8200 + id),
        zone: None,
        weight: 1,
        max_channels: 1,
        registered_at: Timestamp(0),
        state: NodeState::Active,
        configured_weight: 1,
    };
    store.put(&keys::node(id), &encode(&record));
    store
}

#[test]
fn what_a_wiped_or_unknown_folder_answers_is_never_heard() {
    let mut store = with_node(1);
    let wrapped_by = MasterKey::new([1; 32]).wrap(&DataKey::new([1; 32]), CustomerId(Uuid::nil()), [3; 24]);
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
    store.put(keys::CLUSTER, &encode(&cluster));
    let removed = RemovedNode { id: 4, storage_id: folder(4), removed_at: Timestamp(0) };
    store.put(&keys::REMOVED_NODES.key(&4_u64.to_be_bytes()), &encode(&removed));
    let copy = LocalCopy::of_members(&store, HashMap::new());
    let judged = |id, folder, way| copy.judge(id, folder, way).is_ok();
    for way in [Way::Accepted, Way::Dialed] {
        assert!(judged(1, folder(1), way) && !judged(1, OTHER, way) && !judged(4, folder(4), way), "{way:?}");
    }
    // A node that joined while this one was down may bring what it lacks; its votes count once it is known.
    assert!(judged(5, folder(5), Way::Accepted) && !judged(5, folder(5), Way::Dialed));
    copy.shared.own_copy.confirmed(Instant::now());
    assert!(!judged(5, folder(5), Way::Accepted));
}

#[test]
fn while_a_cluster_forms_everybody_is_let_in_with_the_folder_with_which_they_began() {
    let store = with_node(2);
    let copy = LocalCopy::of_members(&store, HashMap::from([(3, folder(3))]));
    let judged = |id, folder| copy.judge(id, folder, Way::Dialed).is_ok();
    assert!(judged(1, OTHER) && judged(2, folder(2)) && judged(3, folder(3)));
    assert!(!judged(2, OTHER) && !judged(3, OTHER));
}
