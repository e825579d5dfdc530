//! `GET /v1/admin/replicas`: hashes of this node's replicas, which are equal where the same entries were applied.

use std::time::{Duration, Instant};

use model::error::CallError;
use model::id::{NodeId, ShardId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, Route};

/// Timeout for hashing, which reads all rows of all groups.
const PATIENCE: Duration = Duration::from_secs(25);

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/replicas", list)
            .doc("list_replica_states", "List the replicas of this node with hashes of their states")
            .about("Two replicas with the same `applied` have the same `state_hash`. The call reads all rows.")
            .list::<ReplicaHash>(),
    ]
}

#[derive(Serialize, JsonSchema)]
struct ReplicaHash {
    node_id: NodeId,
    /// The shard; `0` is the directory, which all nodes share.
    shard: ShardId,
    /// Index of the last log entry that is applied to the state.
    applied: u64,
    /// Hash of all rows after the entry `applied`, in hexadecimal digits.
    state_hash: String,
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let node_id = call.cluster().node();
    let hashed = call.cluster().state_hashes(Instant::now() + PATIENCE).await;
    let hashed = hashed.ok_or_else(CallError::worker_at_capacity)?;
    let view = |(shard, applied, hash): (ShardId, u64, u64)| ReplicaHash {
        node_id,
        shard,
        applied,
        state_hash: format!("{hash:016x}"),
    };
    Ok(Reply::ok(&List::whole(hashed.into_iter().map(view).collect())))
}
