//! Completes deletions: the deleting node does it, or the directory's leader if that node fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::directory::deletions::{Deletion, ended_since};
use futures::future::BoxFuture;
use model::time::Timestamp;
use tokio_util::sync::CancellationToken;

use super::AuditQuery;
use super::command::Command;
use super::handle::{Directory, UpdateError};
use super::records::{AuditEntry, Ended};
use crate::failpoint::{self, Point};
use crate::supervise;

/// Interval of the leader's checks for deletions with records left; it also checks when it becomes the leader.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long the deleting node has to complete a deletion before the leader takes over.
const FIRST_TRY: Duration = Duration::from_secs(15);

/// Number of checks from one check of the audit log, for entries that an earlier release left out, to the next.
const LOOKS_PER_AUDIT: u32 = 12;

/// Age up to which the leader checks ended deletions.
const LATELY: Duration = Duration::from_secs(3600);

/// Largest difference between the time of an audit entry and that of the deletion it records.
const APART: Duration = Duration::from_secs(60);

/// Time limit for one deletion; the rest waits for the next check.
const PATIENCE: Duration = Duration::from_secs(30);

impl Directory {
    /// Ends the records that are left of a deletion, and writes the audit entries of the keys among them, in portions.
    ///
    /// # Errors
    /// Those of [`Directory::update`]. The directory's leader then completes the rest soon.
    pub fn finish_deletion(self: &Arc<Self>, what: Ended, deadline: Instant) -> BoxFuture<'_, Result<(), UpdateError>> {
        Box::pin(async move {
            let directory = self.clone();
            // Reads the log from disk. A check that panicked has found nothing; the next one may.
            let looking = supervise::on_thread(move || directory.left_of_deletion(what));
            for (command, entries) in looking.await.unwrap_or_default() {
                self.update(command, entries, deadline).await?;
                failpoint::reach(Point::DeletionPortion);
            }
            Ok(())
        })
    }

    fn left_of_deletion(&self, what: Ended) -> Vec<(Command, Vec<AuditEntry>)> {
        let Some(deletion) = self.read(|state| Deletion::of(state, what)) else { return Vec::new() };
        let (since, until) = (deletion.at.minus(APART), deletion.at.plus(APART));
        let about = AuditQuery { customer: Some(deletion.customer), since, until };
        let written = match deletion.keys[..] {
            [] => Vec::new(),
            _ => self.audit_log(&about, None, usize::MAX, usize::MAX, |_| true).entries,
        };
        deletion.steps(&written)
    }

    /// While this node leads the directory, completes the deletions that other nodes began, until cancelled.
    pub fn keep_deletions_finished(self: Arc<Self>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut ticks = supervise::ticks(LOOK_EVERY);
            let mut leadership = self.group().leadership();
            let mut looks = 0_u32;
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = ticks.tick() => {}
                    changed = leadership.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        looks = 0;
                    }
                }
                if !self.leads() {
                    continue;
                }
                let now = Timestamp::now();
                let left = self.read(|state| match looks.is_multiple_of(LOOKS_PER_AUDIT) {
                    true => ended_since(state, now.minus(LATELY)),
                    false => Vec::new(),
                });
                let ending = self.read(|state| {
                    let overdue = |what: &Ended| state.deleted_at(*what).is_some_and(|at| now.since(at) >= FIRST_TRY);
                    state.ending().filter(overdue).collect::<Vec<_>>()
                });
                looks = looks.wrapping_add(1);
                for what in ending.into_iter().chain(left) {
                    let finishing = self.finish_deletion(what, Instant::now() + PATIENCE);
                    match stop.run_until_cancelled(finishing).await {
                        None => return,
                        Some(Ok(())) => {}
                        Some(Err(error)) => {
                            tracing::warn!(?what, %error, "a deletion could not be completed yet")
                        }
                    }
                }
            }
        })
    }
}
