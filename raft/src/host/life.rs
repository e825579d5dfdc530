//! The task of one group: runs and watches the group, and restarts it from disk when it dies.
//!
//! openraft stops a group for good after an unexpected event: a failed write, a panic of the machine, an internal race.
//! Without a restart, the process would look healthy and no longer serve the group.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftServerMetrics;
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Factory, Shared, config};
use crate::copies::LOG_KEPT;
use crate::core_runtime::watched;
use crate::group::progress::{self, LOOK_EVERY, Progress, Standing, Verdict};
use crate::group::{Core, Leadership, Raft, Running, leads};
use crate::log::store::{GroupLog, LogStore};
use crate::log::writer::Write;
use crate::machine::GroupId;
use crate::network;
use crate::state::applier::Applier;
use crate::supervise;
use crate::telemetry;
use crate::types::TypeConfig;

/// Backoff between restarts. It keeps growing if the group dies again soon after a restart.
const REBUILD_MIN: Duration = Duration::from_millis(100);
const REBUILD_MAX: Duration = Duration::from_secs(5);
/// A group that has run this long resets the backoff.
const STABLE: Duration = Duration::from_secs(60);
/// How long a dead group's state machine may take to release its state.
const RELEASE: Duration = Duration::from_secs(30);
/// Interval of the checks of a log's size.
const SIZE_INTERVAL: Duration = Duration::from_secs(5);

/// One group, and what it takes to restart it.
pub(super) struct Life {
    pub(super) core: Arc<Core>,
    pub(super) factory: Factory,
    pub(super) shared: Arc<Shared>,
    /// The right to access the group's state; see [`Applier`].
    pub(super) right: Arc<Mutex<()>>,
    pub(super) stop: CancellationToken,
}

impl Life {
    /// Runs the group until it is closed. Reports the first start's result; retries restarts until they succeed.
    pub(super) fn run(self, started: oneshot::Sender<Result<(), String>>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let group = self.core.id;
            let built = self.build().await.map(|running| self.core.set_running(Some(running)));
            // The caller may have given up; a group that has started runs all the same.
            let _ = started.send(built);
            let mut progress = Progress::default();
            let mut pause = REBUILD_MIN;
            loop {
                let Some(running) = self.core.running() else { return };
                let began = Instant::now();
                let died = self.watch(&running, &mut progress).await;
                self.core.set_running(None);
                self.core.retired.store(false, Ordering::Release);
                self.shared.note_stalled(group, false);
                self.core.leadership.send_replace(Leadership::default());
                if running.raft.shutdown().await.is_err() {
                    tracing::debug!(group, "the group's core had gone already");
                }
                drop(running);
                let Some(reason) = died else { return };
                tracing::error!(group, %reason, "a group died; it is started again");
                telemetry::group_died(group);
                self.shared.note_dead(group, true);
                if began.elapsed() > STABLE {
                    pause = REBUILD_MIN;
                }
                let rebuilt = self.stop.run_until_cancelled(self.rebuild(&mut pause)).await;
                let Some(running) = rebuilt else { return };
                self.core.set_running(Some(running));
                self.shared.note_dead(group, false);
                tracing::warn!(group, "the group runs again");
            }
        })
    }

    async fn rebuild(&self, pause: &mut Duration) -> Running {
        loop {
            tokio::time::sleep(*pause).await;
            *pause = (*pause * 2).min(REBUILD_MAX);
            match self.build().await {
                Ok(running) => return running,
                Err(reason) => tracing::error!(group = self.core.id, %reason, "a group cannot be started again"),
            }
        }
    }

    async fn build(&self) -> Result<Running, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let id = self.core.id;
        let right = tokio::time::timeout(RELEASE, self.right.clone().lock_owned())
            .await
            .map_err(|_| "its old state machine does not let go of the state".to_owned())?;
        // Writes that the group's former life left with the writer belong to the log: wait for them.
        self.shared.writer.written(|done| Write::Barrier { done }).await.map_err(|error| text(&error))?;
        let (disk, state, machine) = (self.shared.logs.clone(), self.shared.state.clone(), (self.factory)());
        let position = self.core.position.clone();
        let (meter, cut) = (self.core.meter.clone(), self.core.cut.clone());
        let (limits, copies, most_log_bytes) = (self.shared.limits, self.core.copies.clone(), self.most_log_bytes());
        let opened = tokio::task::spawn_blocking(move || {
            let log = GroupLog::open(id, disk)?;
            if log.was_erased() {
                // The process ended during this replica's removal: its state would look like one whose log is lost.
                state.erase(id)?;
            }
            let applier = Applier::open(state, log.clone(), machine, position, meter, cut, right)?;
            Ok::<_, std::io::Error>((log, applier.keeping_log(limits, copies, most_log_bytes)))
        });
        let (log, applier) = opened.await.map_err(|error| text(&error))?.map_err(|error| text(&error))?;
        // A replica that never had a vote or an entry has promised nothing.
        let abstains = if log.is_pristine() { Duration::ZERO } else { self.shared.timing.election_min };
        let votes_from = Instant::now() + abstains;
        let network = network::Factory {
            peers: self.shared.peers.clone(),
            group: id,
            timeouts: network::Timeouts::of(&self.shared.timing),
            votes_from,
            reads: self.core.reading.clone(),
            contacts: self.core.contacts.clone(),
            rate_limiter: self.shared.rate_limiter.clone(),
            copies: self.core.copies.clone(),
        };
        let store = LogStore { log: log.clone(), writer: self.shared.writer.clone() };
        let config = Arc::new(config(&self.shared.timing, &self.shared.limits, format!("group {id}")));
        let begun = applier.begun.clone();
        let panicked = CancellationToken::new();
        let begin = Raft::new(self.core.node, config, network, store, applier);
        let raft = watched(panicked.clone(), begin).await.map_err(|error| text(&error))?;
        begun.store(true, Ordering::Release);
        Ok(Running { raft, log, votes_from, panicked })
    }

    /// Publishes the group's leadership until the group is closed (`None`) or dies (the reason).
    async fn watch(&self, running: &Running, progress: &mut Progress) -> Option<String> {
        let mut server = running.raft.server_metrics();
        let mut position = self.core.position.subscribe();
        let mut size = tokio::time::interval(SIZE_INTERVAL);
        let mut looks = supervise::ticks(LOOK_EVERY);
        loop {
            let is_becoming_owner = {
                let server = server.borrow_and_update();
                self.publish(&server, position.borrow_and_update().term);
                leads(&server, self.core.node) && self.core.leadership.borrow().ready_epoch.is_none()
            };
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = running.panicked.cancelled() => return Some("a task of its core panicked".to_owned()),
                changed = server.changed() => {
                    if changed.is_err() {
                        let ended = running.raft.metrics().borrow_watched().running_state.clone();
                        return Some(ended.err().map_or_else(|| "its core is gone".to_owned(), |fatal| fatal.to_string()));
                    }
                }
                // Ownership begins with the first applied entry of the term; later entries do not affect it.
                Ok(()) = position.changed(), if is_becoming_owner => {}
                _ = size.tick() => self.bound_log(running).await,
                _ = looks.tick() => {
                    if self.see_to_progress(running, progress).await == Verdict::Stuck {
                        return Some("it leads, commits nothing, and nobody takes over".to_owned());
                    }
                }
            }
        }
    }

    fn publish(&self, server: &RaftServerMetrics<TypeConfig>, applied_term: u64) {
        let mut now = Leadership::of(server, applied_term, self.core.node);
        if self.core.retired.load(Ordering::Acquire) {
            now.ready_epoch = None;
        }
        self.core.leadership.send_if_modified(|published| {
            if *published == now {
                return false;
            }
            if now.ready_epoch.is_some() && published.ready_epoch != now.ready_epoch {
                telemetry::election_won(self.core.id);
            }
            *published = now;
            true
        });
    }

    /// Reports a leader that commits nothing, and makes it step down for another node.
    async fn see_to_progress(&self, running: &Running, progress: &mut Progress) -> Verdict {
        let (group, node) = (self.core.id, self.core.node);
        let metrics = running.raft.metrics();
        let is_recent = |at: Instant| at.elapsed() < LOOK_EVERY * 2;
        let (standing, successor, can_commit) = {
            let metrics = metrics.borrow_watched();
            let without_room = self.core.contacts.without_room(metrics.current_term, is_recent);
            let standing = Standing::of(&metrics, node, |to| self.core.copies.sent(to));
            (standing, progress::successor(&metrics, node), progress::can_commit(&metrics, &without_room))
        };
        let heard = self.core.quorum_contact().is_some_and(|(_, at)| is_recent(at));
        let helps = heard && successor.is_some() && can_commit;
        let verdict = progress.look(standing, helps, self.shared.timing.election_min);
        if self.shared.note_stalled(group, verdict != Verdict::GetsOn) {
            match verdict {
                Verdict::GetsOn => tracing::warn!(group, "the group commits again, or is led by another node"),
                _ => tracing::error!(group, ?standing, "this node leads the group and commits nothing"),
            }
        }
        if self.core.retired.swap(progress.is_retired(), Ordering::AcqRel) != progress.is_retired() {
            self.publish(&running.raft.server_metrics().borrow_watched(), self.core.position.borrow().term);
        }
        if verdict == Verdict::StepDown
            && let Some(to) = successor
        {
            tracing::error!(group, to, "this node steps down as the leader of the group");
            telemetry::stepped_down(group);
            // If the core does not even take this request, it is stuck and gets restarted. The transfer also lets other
            // nodes be elected, in case the successor lacks the entries that this leader cannot commit.
            let _ = tokio::time::timeout(LOOK_EVERY, running.raft.trigger().transfer_leader(to)).await;
        }
        verdict
    }

    /// Limit of the log's bytes while a peer receives a snapshot and the entries after it.
    fn most_log_bytes(&self) -> u64 {
        self.shared.limits.max_bytes.saturating_mul(LOG_KEPT)
    }

    /// Purges a log that exceeds its limit of bytes, however few entries it has.
    async fn bound_log(&self, running: &Running) {
        let most = if self.core.copies.need_log() { self.most_log_bytes() } else { self.shared.limits.max_bytes };
        if let Some(upto) = running.log.cut_to(most) {
            let trigger = running.raft.trigger();
            // The purge takes effect once the snapshot is complete, at the latest after the next check of the size.
            // `watch` notices if the core is gone.
            let _ = trigger.snapshot().await;
            let _ = trigger.purge_log(upto).await;
        }
    }
}

/// Waits until a closed group's state is no longer in use.
pub(super) async fn released(right: &Arc<Mutex<()>>, group: GroupId) {
    let started = Instant::now();
    if tokio::time::timeout(RELEASE, right.lock()).await.is_err() {
        tracing::error!(group, waited = ?started.elapsed(), "a closed group does not release its state");
    }
}
