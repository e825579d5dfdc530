//! Requests for a view of a group's state at one exact index.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::snapshot::Source;
use crate::types::SnapshotMeta;

/// The view that was requested.
pub(crate) type Taken = (SnapshotMeta, Source);

/// Request for the state at an index that is not applied yet. There is at most one; a new request replaces it.
#[derive(Default)]
pub(crate) struct Cut {
    /// The requested index; 0 for none. Checked for every applied entry.
    at: AtomicU64,
    out: Mutex<Option<oneshot::Sender<Taken>>>,
}

impl Cut {
    /// Requests the state as of `index`. The receiver gets nothing if that was applied before, or never is.
    pub(crate) fn want(&self, index: u64) -> oneshot::Receiver<Taken> {
        let (out, taken) = oneshot::channel();
        let mut wanted = self.out.lock();
        *wanted = Some(out);
        self.at.store(index, Ordering::Release);
        taken
    }

    /// Whether a view must be taken before entries after this index are applied.
    pub(crate) fn is_at(&self, index: u64) -> bool {
        index > 0 && self.at.load(Ordering::Relaxed) == index
    }

    /// Takes the request for this index.
    pub(crate) fn take(&self, index: u64) -> Option<oneshot::Sender<Taken>> {
        let mut wanted = self.out.lock();
        let out = wanted.take_if(|_| self.at.load(Ordering::Acquire) == index)?;
        self.at.store(0, Ordering::Release);
        Some(out)
    }
}
