//! Backups: the consistent states of all groups of a running cluster, and their restoration into a new cluster.
//!
//! Groups are not exported at the same moment: the shards first, the directory last ([`in_order`]).
//!
//! - [`exports`]: exports a group's state from any node that has it. [`restore`]: adapts the rows of a restored shard.

pub mod exports;
pub mod restore;

use model::id::ShardId;
use raft::machine::GroupId;

/// The groups of a cluster in the order in which they have to be exported.
///
/// The directory decides which channels exist, so its state has to be the latest: a channel that the directory has and
/// a shard lacks is created there at first use, and a channel that the directory has deleted is wiped from its shard by
/// the next owner. In the other order, a channel that was deleted during the backup would exist in the directory and be
/// deleted in its shard, rows would be sealed under the key of an unknown customer, and keys that were revoked during
/// the backup would be valid again.
pub fn in_order(shards: ShardId) -> impl Iterator<Item = GroupId> {
    (1..=shards).chain([raft::directory::DIRECTORY_GROUP])
}
