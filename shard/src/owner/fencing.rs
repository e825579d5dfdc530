//! Keeps an owner's fence behind the quorum contact of its group.

use std::time::{Duration, Instant};

use model::id::Epoch;
use network::fence::Fence;
use raft::group::Leader;
use raft::{rt, supervise};
use tokio_util::sync::CancellationToken;

/// How often a fence follows the quorum contact: well below the time that the contact gives it.
pub const FENCE_EVERY: Duration = Duration::from_millis(25);

/// What a fence is kept short of the earliest election: the time that a cut takes to reach the wire.
const FENCE_MARGIN: Duration = Duration::from_millis(20);

/// The fence of an ownership that begins, which is as far as the quorum contact lets it be.
pub fn begin(group: &impl Leader, epoch: Epoch, election_min: Duration) -> Fence {
    let fence = Fence::new(epoch, rt::now());
    extend(group, election_min, &fence);
    fence
}

/// Keeps a fence behind the quorum contact until the right has ended. To be run where no requests are worked on: so many may wait that
/// a turn among them comes later than the fence passes, and with it all sessions of the shard.
pub async fn keep(group: impl Leader, election_min: Duration, fence: Fence, lost: CancellationToken) {
    let keeping = supervise::restarted("the fence of a shard", || extend_again_and_again(&group, election_min, &fence));
    // A fence is revoked where the right ends, and stays so.
    let _ = lost.run_until_cancelled(keeping).await;
}

async fn extend_again_and_again(group: &impl Leader, election_min: Duration, fence: &Fence) {
    loop {
        extend(group, election_min, fence);
        rt::sleep(FENCE_EVERY).await;
    }
}

/// Moves the fence to just before the moment at which another node can have been elected.
fn extend(group: &impl Leader, election_min: Duration, fence: &Fence) {
    if let Some(deadline) = deadline(group, fence.epoch(), election_min) {
        fence.extend(deadline);
    }
}

fn deadline(group: &impl Leader, epoch: Epoch, election_min: Duration) -> Option<Instant> {
    (group.quorum_contact(epoch)? + election_min).checked_sub(FENCE_MARGIN)
}
