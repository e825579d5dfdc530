//! The fence: an owner's right to speak to the network until a deadline, which contact with a quorum keeps extending.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::id::Epoch;
use model::{clock, standstill};

/// The right of one owner, in one term, to act outside Raft.
///
/// All sessions of a shard share one fence. The owner creates it expired and extends it while a quorum answers. A
/// driver checks it before it opens a connection and before each write, and cuts its sessions when it has expired.
#[derive(Clone, Debug)]
pub struct Fence {
    epoch: Epoch,
    /// Nanoseconds since [`origin`]; 0 means revoked for good.
    deadline: Arc<AtomicU64>,
    /// When the deadline was last extended, in nanoseconds since [`origin`]. The fence expires when the machine has
    /// been suspended since, even if the deadline seems to lie ahead.
    extended: Arc<AtomicU64>,
}

/// The zero point of this process for deadlines, so that one atomic integer can hold an [`Instant`].
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    // One second in the past, so that no live deadline is ever 0.
    *ORIGIN.get_or_init(|| Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or_else(Instant::now))
}

fn nanos(instant: Instant) -> u64 {
    u64::try_from(instant.saturating_duration_since(origin()).as_nanos()).unwrap_or(u64::MAX)
}

impl Fence {
    /// A fence of `epoch`, live until `deadline`.
    pub fn new(epoch: Epoch, deadline: Instant) -> Self {
        let extended = Arc::new(AtomicU64::new(nanos(clock::now())));
        Self { epoch, deadline: Arc::new(AtomicU64::new(nanos(deadline))), extended }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the owner may still speak to the network.
    pub fn is_live(&self) -> bool {
        self.is_live_after(standstill::resumed_at())
    }

    fn is_live_after(&self, resumed_at: Option<Instant>) -> bool {
        nanos(clock::now()) < self.deadline.load(Ordering::Acquire)
            && resumed_at.is_none_or(|resumed| nanos(resumed) <= self.extended.load(Ordering::Acquire))
    }

    /// Extends the deadline; never shortens it. A revoked fence stays revoked. If the machine was suspended, `deadline`
    /// has to rest on what was heard after it resumed.
    pub fn extend(&self, deadline: Instant) {
        let wanted = nanos(deadline);
        self.extended.fetch_max(nanos(clock::now()), Ordering::AcqRel);
        // The update fails when the fence is revoked or the deadline is later already; both are fine.
        let _ = self
            .deadline
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now != 0 && now < wanted).then_some(wanted));
    }

    /// Revokes the right at once and for good.
    pub fn revoke(&self) {
        self.deadline.store(0, Ordering::Release);
    }

    /// Identifies this fence among live ones: keys are equal exactly where [`Self::same_as`] holds. A map that groups
    /// sessions by key must also hold a clone of the fence, so that the key is not reused.
    pub fn key(&self) -> usize {
        Arc::as_ptr(&self.deadline).addr()
    }

    /// Whether both are clones of the same fence.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.deadline, &other.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_lives_until_its_deadline_and_never_after_its_revocation() {
        let fence = Fence::new(3, Instant::now() + Duration::from_secs(60));
        assert!(fence.is_live());
        fence.revoke();
        assert!(!fence.is_live());
        fence.extend(Instant::now() + Duration::from_secs(60));
        assert!(!fence.is_live());
    }

    #[test]
    fn a_deadline_from_before_the_machine_was_suspended_is_over() {
        let fence = Fence::new(3, Instant::now() + Duration::from_secs(60));
        assert!(fence.is_live_after(None));
        let resumed = Instant::now() + Duration::from_nanos(1);
        assert!(!fence.is_live_after(Some(resumed)));
        while Instant::now() < resumed {}
        fence.extend(Instant::now() + Duration::from_secs(61));
        assert!(fence.is_live_after(Some(resumed)));
    }

    #[test]
    fn a_passed_deadline_can_be_extended_and_is_never_moved_back() {
        let fence = Fence::new(3, Instant::now());
        assert!(!fence.is_live());
        fence.extend(Instant::now() + Duration::from_secs(60));
        assert!(fence.is_live());
        fence.extend(Instant::now());
        assert!(fence.is_live());
    }
}
