//! Whom a node speaks with, by its copy of the directory.

use std::collections::HashMap;
use std::time::Instant;

use model::time::Timestamp;
use uuid::Uuid;

use super::Rig;
use super::members::{formed, node};
use crate::directory::LocalCopy;
use crate::directory::command::Command;
use crate::directory::keys;
use crate::directory::members::RemovedNode;
use crate::machine::State;
use crate::record::encode;
use crate::transport::Way;

const OTHER: Uuid = Uuid::from_u128(99);

fn folder(id: u64) -> Uuid {
    node(id).storage_id
}

#[test]
fn what_a_wiped_or_unknown_folder_answers_is_never_heard() {
    let mut rig = formed();
    let removed = RemovedNode { id: 4, storage_id: folder(4), removed_at: Timestamp(0) };
    rig.store.put(&keys::REMOVED_NODES.key(&4_u64.to_be_bytes()), &encode(&removed));
    let copy = LocalCopy::of_members(&rig.store, HashMap::new());
    let judged = |id, folder, way| copy.judge(id, folder, way).is_ok();
    for way in [Way::Accepted, Way::Dialed] {
        assert!(judged(1, folder(1), way) && !judged(1, OTHER, way) && !judged(4, folder(4), way), "{way:?}");
    }
    // One that joined while this node was away may bring what it lacks; its votes count once it is known.
    assert!(judged(5, folder(5), Way::Accepted) && !judged(5, folder(5), Way::Dialed));
    copy.shared.own_copy.confirmed(Instant::now());
    assert!(!judged(5, folder(5), Way::Accepted));
}

#[test]
fn while_a_cluster_forms_everybody_is_let_in_with_the_folder_with_which_they_began() {
    let mut rig = Rig::new();
    rig.run(Command::RegisterNode(node(2))).unwrap();
    let copy = LocalCopy::of_members(&rig.store, HashMap::from([(3, folder(3))]));
    let judged = |id, folder| copy.judge(id, folder, Way::Dialed).is_ok();
    assert!(judged(1, OTHER) && judged(2, folder(2)) && judged(3, folder(3)));
    assert!(!judged(2, OTHER) && !judged(3, OTHER));
}
