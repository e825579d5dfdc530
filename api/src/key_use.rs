//! Records when keys were last used. The times are written in batches, so that a request costs no write.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::id::KeyId;
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::command::Command;
use raft::directory::records::KeyRecord;
use shard::cluster::Cluster;
use tokio_util::sync::CancellationToken;

use crate::flush;

/// The resolution of `last_used_at`: uses within it are written once.
const RESOLUTION: Duration = Duration::from_secs(5 * 60);

/// How often the times are written.
const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// The most keys in one update of the directory.
const BATCH: usize = 1000;

/// The uses that wait to be written: at most one per key, and the directory bounds the number of keys.
#[derive(Default)]
pub struct KeyUse {
    waiting: Mutex<HashMap<KeyId, Timestamp>>,
}

impl KeyUse {
    /// Notes a use of a key, unless the directory has a use of the last five minutes.
    pub fn note(&self, key: &KeyRecord, now: Timestamp) {
        if is_news(key.last_used_at, now) {
            self.waiting.lock().entry(key.id).or_insert(now);
        }
    }

    /// Writes waiting times every five seconds, and once more at the stop.
    pub async fn run(&self, cluster: &Cluster, stop: CancellationToken) {
        flush::often(FLUSH_EVERY, stop, |patience| self.flush(cluster, patience)).await;
    }

    async fn flush(&self, cluster: &Cluster, patience: Duration) {
        loop {
            let batch: Vec<_> = self.waiting.lock().iter().take(BATCH).map(|(id, at)| (*id, *at)).collect();
            if batch.is_empty() {
                return;
            }
            let command = Command::KeysUsed(batch.clone());
            if let Err(error) = cluster.directory().update(command, Vec::new(), Instant::now() + patience).await {
                tracing::warn!(%error, "the times when keys were last used could not be written yet");
                return;
            }
            let mut waiting = self.waiting.lock();
            for (id, _) in batch {
                waiting.remove(&id);
            }
        }
    }
}

fn is_news(last_used_at: Option<Timestamp>, now: Timestamp) -> bool {
    last_used_at.is_none_or(|last| now.since(last) >= RESOLUTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_news_every_five_minutes() {
        assert!(is_news(None, Timestamp(0)));
        assert!(!is_news(Some(Timestamp(0)), Timestamp(299_999)));
        assert!(is_news(Some(Timestamp(0)), Timestamp(300_000)));
    }
}
