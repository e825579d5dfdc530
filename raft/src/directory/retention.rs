//! Expiry: the directory's leader proposes it, in bounded steps.

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

/// How long audit entries are kept: 400 days.
const AUDIT_AGE: Duration = Duration::from_secs(400 * 24 * 3600);

/// How long a key that was revoked or expired and a deleted channel are known as what they were: as long as the audit log tells of
/// their end. A key of which nothing is left answers `auth_invalid`, and no longer `auth_revoked` or `auth_expired`.
const ENDED_AGE: Duration = AUDIT_AGE;

/// Keys that have ended which an account has at most, whatever their age: every node holds them in memory, and an account that makes
/// and revokes keys all day, or makes some that expire at once, would fill it.
const MOST_ENDED_KEYS: usize = 2_000;

/// How long such a key is known all the same: until what its revocation set going is over.
const ENDED_LATELY: Duration = Duration::from_secs(2 * 3600);

/// How often the leader looks for those: that reads whole tables.
const LOOK_FOR_ENDED_EVERY: Duration = Duration::from_secs(6 * 3600);

/// How long a session is kept after its end: an access token that it gave out lives 15 minutes at most.
const SESSION_AGE: Duration = Duration::from_secs(24 * 3600);

/// Entries that one step removes.
const STEP: usize = 500;

/// How often the leader looks.
const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);

/// Between two steps: everything else in the log goes before.
const STEP_PAUSE: Duration = Duration::from_secs(1);

/// How long a step may take; what fails is tried again at the next look.
const STEP_PATIENCE: Duration = Duration::from_secs(10);

impl Directory {
    /// Expires what is old while this node leads the directory, until cancelled. Customers go when they have been
    /// deleted for `grace`.
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

    /// Expires some of what ended long ago. Says whether there may be more.
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

    /// Expires some of the ended keys of an account that has very many. Says whether there was one, and it went well.
    async fn expire_keys_step(&self) -> bool {
        let before = Timestamp::now().minus(ENDED_LATELY);
        let keys = self.read(|state| state.ended_beyond(MOST_ENDED_KEYS, before, STEP));
        !keys.is_empty() && self.expire_ended(keys, Vec::new(), before).await
    }

    /// Says whether it went well.
    async fn expire_ended(&self, keys: Vec<KeyId>, channels: Vec<ChannelId>, before: Timestamp) -> bool {
        let command = Command::ExpireEnded { keys, channels, before };
        self.step(command, None, "ended keys and deleted channels could not be removed yet").await.is_some()
    }

    /// Has a step done; `None`, with a word of what failed, where it was not.
    async fn step(&self, command: Command, of: Option<CustomerId>, failed: &str) -> Option<Reply> {
        match self.update(command, Vec::new(), Instant::now() + STEP_PATIENCE).await {
            Ok(reply) => Some(reply),
            // An older release may be a member: there is time.
            Err(UpdateError::Format { .. }) => None,
            Err(error) => {
                tracing::warn!(customer = of.map(tracing::field::display), %error, "{failed}");
                None
            }
        }
    }

    /// Removes a part of a customer whose grace is over. Says whether there was one, and it went well.
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

    /// One step. Says whether there is more to do.
    async fn expire_step(self: &Arc<Self>) -> bool {
        let now = Timestamp::now();
        let (audit, sessions) = (now.minus(AUDIT_AGE), now.minus(SESSION_AGE));
        // Most looks find nothing, and then nothing is proposed. The log lies on disk.
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
