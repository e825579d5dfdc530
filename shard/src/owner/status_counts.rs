//! The number of a shard's channels in each status, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use model::status::Status;

/// Counts of channels that have a row; a channel that was never touched has none, and is `pending`.
#[derive(Default)]
pub struct StatusCounts([AtomicU64; Status::ALL.len()]);

impl StatusCounts {
    fn of(&self, status: Status) -> &AtomicU64 {
        &self.0[status as usize]
    }

    pub fn enters(&self, status: Status) {
        self.of(status).fetch_add(1, Ordering::Relaxed);
    }

    pub fn leaves(&self, status: Status) {
        self.of(status).fetch_sub(1, Ordering::Relaxed);
    }

    pub fn count(&self, status: Status) -> u64 {
        self.of(status).load(Ordering::Relaxed)
    }
}
