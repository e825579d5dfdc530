//! Expiry: proposed by the directory's leader, in bounded steps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use model::id::{ChannelId, CustomerId, KeyId};
use model::time::Timestamp;
use tokio_util::sync::CancellationToken;

use super::command::{Command, Reply};
use super::handle::{Directory, UpdateError};
use super::state::{ended_before, keys_before};
use crate::supervise;

/// Retention of audit entries: 400 days.
const AUDIT_AGE: Duration = Duration::from_secs(400 * 24 * 3600);

/// How long revoked or expired keys and deleted channels are kept: as long as the audit log records their end. After
/// that, a key answers `auth_invalid` instead of `auth_revoked` or `auth_expired`.
const ENDED_AGE: Duration = AUDIT_AGE;

/// Largest number of ended keys that an account keeps, whatever their age. Every node holds them in memory, which an
/// account that keeps creating and revoking keys, or creates keys that expire at once, would fill.
const MOST_ENDED_KEYS: usize = 2_000;

/// Minimum time for which such a key is kept: until everything that its revocation triggered is over.
const ENDED_LATELY: Duration = Duration::from_secs(2 * 3600);

/// Interval of the leader's checks for these: they read whole tables.
const LOOK_FOR_ENDED_EVERY: Duration = Duration::from_secs(6 * 3600);

/// How long a session is kept after its end; its access tokens are valid for at most 15 minutes.
const SESSION_AGE: Duration = Duration::from_secs(24 * 3600);

/// Entries removed in one step.
const STEP: usize = 500;

/// Interval of the leader's checks.
const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);

/// Pause between two steps, so that everything else in the log goes first.
const STEP_PAUSE: Duration = Duration::from_secs(1);

/// Timeout of a step; a failed step is retried at the next check.
const STEP_PATIENCE: Duration = Duration::from_secs(10);

impl Directory {
    /// Expires old records while this node leads the directory, until cancelled. Customers are purged when they have
    /// been deleted for `grace`.
    pub fn run_expiry(self: Arc<Self>, grace: Duration, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut ticks = supervise::ticks(LOOK_EVERY.min(grace));
            let mut looked_for_ended: Option<Instant> = None;
            while stop.run_until_cancelled(ticks.tick()).await.is_some() {
                while self.leads()
                    && (self.expire_step().await || self.purge_step(grace).await || self.expire_keys_step().await)
                {
                    if stop.run_until_cancelled(tokio::time::sleep(STEP_PAUSE)).await.is_none() {
                        return;
                    }
                }
                if self.leads() && looked_for_ended.is_none_or(|at| at.elapsed() >= LOOK_FOR_ENDED_EVERY) {
                    looked_for_ended = Some(Instant::now());
                    while self.leads() && self.expire_ended_step().await {
                        if stop.run_until_cancelled(tokio::time::sleep(STEP_PAUSE)).await.is_none() {
                            return;
                        }
                    }
                }
            }
        })
    }

    /// Expires some long-ended records. Returns whether there may be more.
    async fn expire_ended_step(self: &Arc<Self>) -> bool {
        let before = Timestamp::now().minus(ENDED_AGE);
        let looking = self.clone();
        let looked = supervise::on_thread(move || ended_before(&looking.group().reader(), before, STEP)).await;
        let Ok((keys, channels)) = looked else { return false };
        let more = keys.len() == STEP || channels.len() == STEP;
        if keys.is_empty() && channels.is_empty() {
            return false;
        }
        self.expire_ended(keys, channels, before).await && more
    }

    /// Expires ended keys of an account that has too many. Returns whether there was one, and it succeeded.
    async fn expire_keys_step(&self) -> bool {
        let before = Timestamp::now().minus(ENDED_LATELY);
        let keys = self.read(|state| state.ended_beyond(MOST_ENDED_KEYS, before, STEP));
        !keys.is_empty() && self.expire_ended(keys, Vec::new(), before).await
    }

    /// Returns whether it succeeded.
    async fn expire_ended(&self, keys: Vec<KeyId>, channels: Vec<ChannelId>, before: Timestamp) -> bool {
        let command = Command::ExpireEnded { keys, channels, before };
        self.step(command, None, "ended keys and deleted channels could not be removed yet").await.is_some()
    }

    /// Runs a step; logs a failure and returns `None` then.
    async fn step(&self, command: Command, of: Option<CustomerId>, failed: &str) -> Option<Reply> {
        match self.update(command, Vec::new(), Instant::now() + STEP_PATIENCE).await {
            Ok(reply) => Some(reply),
            // An older release may be a member: this can wait.
            Err(UpdateError::Format { .. }) => None,
            Err(error) => {
                tracing::warn!(customer = of.map(tracing::field::display), %error, "{failed}");
                None
            }
        }
    }

    /// Purges a part of a customer whose grace period is over. Returns whether there was one, and it succeeded.
    async fn purge_step(&self, grace: Duration) -> bool {
        let end = Timestamp::now().minus(grace);
        let Some(id) = self.read(|state| state.deleted_before(end)) else { return false };
        let command = Command::PurgeCustomer { id, most: STEP };
        let reply = self.step(command, Some(id), "a deleted customer's data could not be removed yet").await;
        if matches!(reply, Some(Reply::Removed { more: false })) {
            tracing::info!(customer = %id, "a deleted customer's data is removed");
        }
        reply.is_some()
    }

    /// Runs one step of expiry. Returns whether there is more to do.
    async fn expire_step(self: &Arc<Self>) -> bool {
        let now = Timestamp::now();
        let (audit, sessions) = (now.minus(AUDIT_AGE), now.minus(SESSION_AGE));
        // Most checks find nothing, and then nothing is proposed. Reads the log from disk.
        let looking = self.clone();
        let anything = supervise::on_thread(move || looking.holds_older(audit, sessions)).await;
        if !anything.unwrap_or(false) {
            return false;
        }
        let command = Command::Expire { audit, sessions, most: STEP };
        let reply = self.step(command, None, "old audit entries could not be removed yet").await;
        matches!(reply, Some(Reply::Removed { more: true }))
    }

    fn holds_older(&self, audit: Timestamp, sessions: Timestamp) -> bool {
        !keys_before(&self.group().reader(), audit, 1).is_empty()
            || self.read(|state| state.users.has_session_before(sessions))
    }
}
