//! Extends an owner's fence with the quorum contact of its group.

use std::time::{Duration, Instant};

use model::id::Epoch;
use network::fence::Fence;
use raft::group::Leader;
use raft::{rt, supervise};
use tokio_util::sync::CancellationToken;

/// How often a fence is extended: well below the time that one quorum contact gives it.
pub const FENCE_EVERY: Duration = Duration::from_millis(25);

/// How long before the earliest election a fence ends: the time that a cut takes to reach the wire.
const FENCE_MARGIN: Duration = Duration::from_millis(20);

/// The fence of a new ownership, extended as far as the quorum contact permits.
pub fn begin(group: &impl Leader, epoch: Epoch, election_min: Duration) -> Fence {
    let fence = Fence::new(epoch, rt::now());
    extend(group, election_min, &fence);
    fence
}

/// Extends a fence with the quorum contact until the ownership has ended. Must not run where requests are processed:
/// with many of them queued, its turn would come after the fence has passed, and with it all sessions of the shard.
pub async fn keep(group: impl Leader, election_min: Duration, fence: Fence, lost: CancellationToken) {
    let keeping = supervise::restarted("the fence of a shard", || extend_again_and_again(&group, election_min, &fence));
    // The fence is revoked when the ownership ends, and stays revoked.
    let _ = lost.run_until_cancelled(keeping).await;
}

async fn extend_again_and_again(group: &impl Leader, election_min: Duration, fence: &Fence) {
    loop {
        extend(group, election_min, fence);
        rt::sleep(FENCE_EVERY).await;
    }
}

/// Extends the fence to just before the earliest moment at which another node can have been elected.
fn extend(group: &impl Leader, election_min: Duration, fence: &Fence) {
    if let Some(deadline) = deadline(group, fence.epoch(), election_min) {
        fence.extend(deadline);
    }
}

fn deadline(group: &impl Leader, epoch: Epoch, election_min: Duration) -> Option<Instant> {
    (group.quorum_contact(epoch)? + election_min).checked_sub(FENCE_MARGIN)
}
