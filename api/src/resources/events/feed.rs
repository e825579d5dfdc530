//! Runs one event stream: pulls events from the account's coordinator into the client's queue until the stream ends.
//!
//! Until the stream has caught up with the ring, it waits for the client. Then a full queue ends the stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::RequestId;
use model::time::Timestamp;
use salvo::conn::ConnCtrl;
use shard::cluster::CallContext;
use shard::stream::{Filter, Pulled, StreamId, StreamRequest, StreamResponse};

use super::frame;
use super::queue::Queue;
use crate::app::App;
use crate::caller::Caller;

/// The most events per pull.
const PULL_EVENTS: usize = 256;

/// How long the coordinator waits for an event. Pulls renew the stream's permit, so this is well below its lease.
const PULL_WAIT: Duration = Duration::from_secs(8);

/// How long a pull may take beyond its wait, and the pause after a failed one. A coordinator that has just moved is
/// found within the pull itself.
const PULL_MARGIN: Duration = Duration::from_secs(5);
const PULL_PAUSE: Duration = Duration::from_millis(200);

/// How long a client may read nothing during a replay.
const REPLAY_STALL: Duration = Duration::from_secs(60);

/// How often the caller's credential is checked; it is checked before events are pushed, too.
const RIGHT_EVERY: Duration = Duration::from_millis(250);

/// How often the stream is announced again, so that owners keep the customer's events for streams.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(60);

/// Poll interval while this node's copy of the directory is too old to judge the caller by, and events are held.
const FRESHNESS_POLL: Duration = Duration::from_millis(50);

/// Timeout for releasing the permit.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// How long a client may take to read the remaining frames before the connection is aborted.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The state of one event stream.
pub struct Feed {
    pub app: Arc<App>,
    pub caller: Caller,
    pub stream: StreamId,
    pub queue: Arc<Queue>,
    pub filter: Filter,
    /// The position in the ring after which the stream continues.
    pub after: u64,
    pub connection: Option<ConnCtrl>,
}

/// Why a stream ends.
enum Ending {
    /// The client has closed the stream.
    Gone,
    /// The client reads too slowly, or the ring has overwritten events that it had not seen.
    Overflow,
    Closing(&'static str),
}

impl Feed {
    /// Runs until the stream has ended and its permit is released.
    pub async fn run(self) {
        metrics::gauge!("gateway_sse_streams").increment(1.0);
        let mut drains = self.app.cluster.drains();
        let ending = tokio::select! {
            biased;
            () = self.queue.gone() => Ending::Gone,
            () = self.app.closing.cancelled() => Ending::Closing("drain"),
            Ok(()) = drains.changed() => Ending::Closing("drain"),
            reason = self.right_ends() => Ending::Closing(reason),
            () = tokio::time::sleep(self.app.config.events.max_age) => Ending::Closing("max_age"),
            ending = self.pull() => ending,
            () = self.ping() => Ending::Gone,
            () = self.keep_announced() => Ending::Gone,
        };
        match ending {
            Ending::Gone => {}
            Ending::Overflow => self.queue.push(frame::overflow()),
            Ending::Closing(reason) => self.queue.push(frame::closing(reason)),
        }
        self.queue.end();
        metrics::gauge!("gateway_sse_streams").decrement(1.0);
        tokio::join!(self.free_place(), self.let_go());
    }

    /// Pulls events until the stream cannot continue.
    async fn pull(&self) -> Ending {
        let (mut after, mut live, mut read_at) = (self.after, false, Instant::now());
        loop {
            let room = live || self.queue.room(PULL_WAIT).await;
            if room {
                read_at = Instant::now();
            } else if read_at.elapsed() > REPLAY_STALL {
                return Ending::Overflow;
            }
            // Without room, the pull only renews the permit.
            let (most, wait) = if room { (PULL_EVENTS, PULL_WAIT) } else { (0, Duration::ZERO) };
            let Some(pulled) = self.ask(after, most, wait).await else {
                tokio::time::sleep(PULL_PAUSE).await;
                continue;
            };
            if !room {
                continue;
            }
            if pulled.missed {
                return Ending::Overflow;
            }
            if !pulled.events.is_empty() {
                self.fresh().await;
                if let Some(reason) = self.right_ended() {
                    return Ending::Closing(reason);
                }
            }
            for event in &pulled.events {
                let event = frame::event(event);
                if !live {
                    self.queue.push(event);
                } else if !self.queue.offer(event) {
                    return Ending::Overflow;
                }
            }
            after = pulled.after;
            live |= pulled.caught_up;
        }
    }

    async fn ask(&self, after: u64, most: usize, wait: Duration) -> Option<Pulled> {
        let (stream, filter) = (self.stream.clone(), self.filter.clone());
        let request = StreamRequest::Pull { stream, after, most, filter, wait };
        let context = context(wait + PULL_MARGIN);
        match self.app.cluster.stream(self.caller.customer.id, request, &context).await {
            Ok(StreamResponse::Pulled(pulled)) => Some(pulled),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(stream = %self.stream.0, ?error, "the coordinator of a stream did not answer");
                None
            }
        }
    }

    /// Returns once this node's copy of the directory is fresh enough to show a revocation.
    async fn fresh(&self) {
        while !self.app.cluster.directory().is_fresh() {
            tokio::time::sleep(FRESHNESS_POLL).await;
        }
    }

    /// Why the caller's credential is no longer valid, if so.
    fn right_ended(&self) -> Option<&'static str> {
        let now = Timestamp::now();
        if self.app.cluster.directory().read(|state| self.caller.still_stands(state, now)) {
            return None;
        }
        let expired = self.caller.expires_at().is_some_and(|end| end <= now);
        Some(if expired { "auth_expired" } else { "auth_revoked" })
    }

    async fn right_ends(&self) -> &'static str {
        loop {
            if let Some(reason) = self.right_ended() {
                return reason;
            }
            tokio::time::sleep(RIGHT_EVERY).await;
        }
    }

    /// Sends heartbeats in silences, unless frames still wait for the client.
    async fn ping(&self) {
        let heartbeat = self.app.config.events.heartbeat;
        loop {
            let pause = match self.queue.silent_for() {
                Some(silence) if silence >= heartbeat => {
                    self.queue.push(frame::ping(Timestamp::now()));
                    heartbeat
                }
                Some(silence) => heartbeat - silence,
                None => heartbeat,
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn keep_announced(&self) {
        loop {
            tokio::time::sleep(ANNOUNCE_EVERY).await;
            let deadline = Instant::now() + PULL_MARGIN;
            if let Err(error) = self.app.cluster.announce_stream(self.caller.customer.id, deadline).await {
                tracing::debug!(stream = %self.stream.0, %error, "a stream could not be announced again yet");
            }
        }
    }

    /// Releases the permit. If that fails, its lease expires.
    async fn free_place(&self) {
        let request = StreamRequest::Close { stream: self.stream.clone() };
        if let Err(error) = self.app.cluster.stream(self.caller.customer.id, request, &context(CLOSE_PATIENCE)).await {
            tracing::debug!(stream = %self.stream.0, ?error, "a stream's place is left to its lease");
        }
    }

    /// Closes the connection once the client has read the last frame, or after a timeout.
    async fn let_go(&self) {
        let Some(connection) = &self.connection else { return };
        connection.graceful_shutdown();
        if tokio::time::timeout(LAST_WORDS, self.queue.gone()).await.is_err() {
            connection.abort();
        }
    }
}

/// The context for calls on the stream's own behalf.
fn context(patience: Duration) -> CallContext {
    CallContext { request_id: RequestId::mint(), deadline: Instant::now() + patience }
}
