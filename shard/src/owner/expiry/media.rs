//! Expiry of media: the owner finds due rows and commits their end, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use model::time::Timestamp;
use raft::machine::View;
use raft::supervise;

use crate::command::Command;
use crate::keys;
use crate::media::command::MediaCommand;
use crate::owner::Owner;

/// How often an owner looks for due rows.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Rows that one log entry ends, and the pause after it, so that sends are not disturbed.
const AT_ONCE: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Runs until the ownership ends.
pub async fn run(owner: Arc<Owner>) {
    let mut ticks = supervise::ticks(LOOK_EVERY);
    loop {
        ticks.tick().await;
        loop {
            let found = owner.reader.scan_range(keys::media_due_before(Timestamp::now()), AT_ONCE);
            let due: Vec<_> = found.iter().filter_map(|(key, _)| keys::parse_media_due(key)).collect();
            let more = due.len() == AT_ONCE;
            if !due.is_empty() && owner.committer.commit_one(Command::Media(MediaCommand::Due(due))).await.is_err() {
                return;
            }
            if !more {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
