//! A view of a group's state as it is at one index exactly.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::snapshot::Source;
use crate::types::SnapshotMeta;

/// A state that was taken at the index that was asked for.
pub(crate) type Taken = (SnapshotMeta, Source);

/// Whether somebody wants the state at an index that is still to be applied; one asker at a time, the latest.
#[derive(Default)]
pub(crate) struct Cut {
    /// 0 for none. Looked at for each entry that is applied.
    at: AtomicU64,
    out: Mutex<Option<oneshot::Sender<Taken>>>,
}

impl Cut {
    /// The state as it is when this index has been applied. Nothing comes when it had been before, or never is.
    pub(crate) fn want(&self, index: u64) -> oneshot::Receiver<Taken> {
        let (out, taken) = oneshot::channel();
        let mut wanted = self.out.lock();
        *wanted = Some(out);
        self.at.store(index, Ordering::Release);
        taken
    }

    /// Whether the state is to be kept before anything behind this index is applied.
    pub(crate) fn is_at(&self, index: u64) -> bool {
        index > 0 && self.at.load(Ordering::Relaxed) == index
    }

    /// Who wants it, at that index.
    pub(crate) fn take(&self, index: u64) -> Option<oneshot::Sender<Taken>> {
        let mut wanted = self.out.lock();
        let out = wanted.take_if(|_| self.at.load(Ordering::Acquire) == index)?;
        self.at.store(0, Ordering::Release);
        Some(out)
    }
}
