//! Backups: the states of all groups of a running cluster, each of one moment, and what becomes of them in a new one.
//!
//! Groups are not exported at the same moment: the shards first, the directory last ([`in_order`]).
//!
//! - [`exports`]: a group's state, from whichever node has it. [`restore`]: what a restored shard begins with.

pub mod exports;
pub mod restore;

use model::id::ShardId;
use raft::machine::GroupId;

/// The groups of a cluster in the order in which they have to be exported.
///
/// The directory leads, so it has to be the youngest: a channel that it has and a shard has not is made there at first
/// touch, and one that it has deleted is wiped from its shard by the next owner. The other way round, a channel that was
/// deleted meanwhile would be alive in the directory and deleted in its shard, rows would be sealed under the key of a
/// customer that nobody knows, and what was revoked meanwhile would be valid again.
pub fn in_order(shards: ShardId) -> impl Iterator<Item = GroupId> {
    (1..=shards).chain([raft::directory::DIRECTORY_GROUP])
}
