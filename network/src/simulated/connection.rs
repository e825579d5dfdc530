//! One connection to the simulator: a task that reads and writes, and a roster that maps frames to sessions.

use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use model::id::NodeId;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::outgoing::Outgoing;
use super::session::{Opening, SimulatedSession};
use super::transfers::Transfers;
use super::watchdog;
use crate::driver::{EndReason, OpenError, QueuedEvent};
use crate::fence::Fence;
use crate::wire::{FrameReader, NetworkFrame, NodeFrame, SessionFrame, SessionNumber, WIRE_VERSION, encode};

/// Timeout of reading. The simulator pings every 20 s, so a longer silence means that the connection is dead.
const SILENCE: Duration = Duration::from_secs(90);

/// How long the network may take to confirm a recalled login after its owner's fence has expired. Meanwhile the next
/// owner is elected, applies the log and logs in; a shorter timeout would end the connections of busy machines.
const RECALL_WITHIN: Duration = Duration::from_millis(100);

pub struct Connection {
    pub outgoing: Outgoing,
    pub transfers: Transfers,
    /// Runs the rare tasks that sessions spawn from any thread.
    pub runtime: Handle,
    roster: Mutex<Roster>,
    numbers: AtomicU64,
    stop: CancellationToken,
}

/// The sessions of a connection, by number and by fence. No other lock is taken while its lock is held.
#[derive(Default)]
struct Roster {
    sessions: HashMap<SessionNumber, Arc<SimulatedSession>>,
    /// Session numbers by the key of their fence: the watchdog checks one fence per shard, not every session.
    fences: HashMap<usize, (Fence, HashSet<SessionNumber>)>,
    /// Logins that were given up before the network answered, until it confirms their end.
    recalled: HashMap<SessionNumber, Recall>,
    closed: bool,
}

/// A login that may still be in flight. If it were delivered after the next owner's login, it would replace that
/// owner's session.
struct Recall {
    fence: Fence,
    since: Instant,
}

impl Connection {
    /// Connects and performs the handshake for `node`.
    pub async fn make(address: &str, node: NodeId) -> io::Result<Arc<Self>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        // However the socket is closed, discard what the kernel has not sent yet: a login of a node that is gone must
        // not arrive after its successor's.
        stream.set_zero_linger()?;
        let (source, sink) = stream.into_split();
        let connection = Arc::new(Self {
            outgoing: Outgoing::new(),
            transfers: Transfers::new(),
            runtime: Handle::current(),
            roster: Mutex::default(),
            numbers: AtomicU64::new(1),
            stop: CancellationToken::new(),
        });
        connection.outgoing.push_now(None, encode(&NodeFrame::Hello { version: WIRE_VERSION, node })?);
        let mut frames = FrameReader::new(source);
        let first = tokio::select! {
            frame = frames.next::<NetworkFrame>() => frame?,
            error = connection.outgoing.run(&sink) => return Err(error),
        };
        if !matches!(first, Some(NetworkFrame::Welcome)) {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the network refuses this node"));
        }
        watchdog::watch(&connection)?;
        tokio::spawn(Arc::clone(&connection).run(frames, sink));
        Ok(connection)
    }

    async fn run(self: Arc<Self>, mut frames: FrameReader<OwnedReadHalf>, sink: OwnedWriteHalf) {
        let talking = async {
            tokio::select! {
                error = self.read(&mut frames) => error,
                error = self.outgoing.run(&sink) => error,
                () = self.stop.cancelled() => io::ErrorKind::ConnectionAborted.into(),
            }
        };
        // End the sessions with this task, even if it panics: without a reader they would only look alive.
        let error = AssertUnwindSafe(talking).catch_unwind().await;
        let error = error.unwrap_or_else(|_| io::Error::other("reading from the network panicked"));
        tracing::debug!(%error, "the connection to the network ended");
        // Close the socket before anyone learns of the end and logs in elsewhere.
        drop((frames, sink));
        self.fail(&error.to_string());
    }

    async fn read(&self, frames: &mut FrameReader<OwnedReadHalf>) -> io::Error {
        loop {
            match tokio::time::timeout(SILENCE, frames.next::<NetworkFrame>()).await {
                Err(_) => return io::ErrorKind::TimedOut.into(),
                Ok(Err(error)) => return error,
                Ok(Ok(None)) => return io::ErrorKind::ConnectionReset.into(),
                Ok(Ok(Some(frame))) => self.dispatch(frame),
            }
        }
    }

    fn dispatch(&self, frame: NetworkFrame) {
        match frame {
            NetworkFrame::Welcome => {}
            NetworkFrame::Ping => self.tell(None, &NodeFrame::Pong),
            NetworkFrame::Transfer { transfer, frame } => self.transfers.hear(transfer, frame),
            NetworkFrame::Session { session, frame } => {
                let session = {
                    let mut roster = self.roster.lock();
                    if matches!(frame, SessionFrame::Closed | SessionFrame::Ended(_)) {
                        roster.recalled.remove(&session);
                    }
                    roster.sessions.get(&session).cloned()
                };
                // An unknown session was cut on this side a moment ago.
                if let Some(session) = session {
                    session.hear(frame);
                }
            }
        }
    }

    /// Queues a frame without waiting.
    pub fn tell(&self, speaker: Option<&Arc<SimulatedSession>>, frame: &NodeFrame) {
        match encode(frame) {
            Ok(bytes) => self.outgoing.push_now(speaker, bytes),
            Err(error) => tracing::error!(%error, "a frame cannot be encoded"),
        }
    }

    /// Starts a session.
    pub fn open(
        self: &Arc<Self>,
        fence: Fence,
        events: mpsc::Sender<QueuedEvent>,
        opening: Opening,
        proxy: Option<String>,
    ) -> Result<Arc<SimulatedSession>, OpenError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (session, first) = SimulatedSession::new(number, fence.clone(), events, Arc::clone(self), opening);
        {
            let mut roster = self.roster.lock();
            if roster.closed {
                return Err(OpenError::Unreachable("the connection to the network broke".into()));
            }
            roster.sessions.insert(number, Arc::clone(&session));
            roster.fences.entry(fence.key()).or_insert_with(|| (fence, HashSet::new())).1.insert(number);
        }
        if let Some(proxy) = proxy {
            self.tell(Some(&session), &NodeFrame::Via { session: number, proxy });
        }
        self.tell(Some(&session), &first);
        Ok(session)
    }

    /// Removes a session from the roster; `false` if it was not in it.
    pub fn remove(&self, session: &SimulatedSession) -> bool {
        let mut roster = self.roster.lock();
        let key = session.fence.key();
        if let Some((_, numbers)) = roster.fences.get_mut(&key) {
            numbers.remove(&session.number);
            if numbers.is_empty() {
                roster.fences.remove(&key);
            }
        }
        roster.sessions.remove(&session.number).is_some()
    }

    /// The sessions whose fence has expired.
    pub fn overdue(&self) -> Vec<Arc<SimulatedSession>> {
        let roster = self.roster.lock();
        let passed = roster.fences.values().filter(|(fence, _)| !fence.is_live());
        passed.flat_map(|(_, numbers)| numbers).filter_map(|number| roster.sessions.get(number).cloned()).collect()
    }

    /// Records that a login was given up before it was answered. The caller has the session closed; until the network
    /// confirms that, the login may still be in flight.
    pub fn recall(&self, session: &SimulatedSession) {
        let mut roster = self.roster.lock();
        if !roster.closed {
            let recall = || Recall { fence: session.fence.clone(), since: Instant::now() };
            roster.recalled.entry(session.number).or_insert_with(recall);
        }
    }

    /// Whether a recalled login of this session may still be in flight.
    pub fn recalls(&self, session: &SimulatedSession) -> bool {
        self.roster.lock().recalled.contains_key(&session.number)
    }

    /// Whether a recalled login is unconfirmed although its fence has expired, so that the device may have another
    /// owner.
    pub fn has_lost_logins(&self) -> bool {
        let roster = self.roster.lock();
        roster.recalled.values().any(|recall| !recall.fence.is_live() && recall.since.elapsed() >= RECALL_WITHIN)
    }

    pub fn is_open(&self) -> bool {
        !self.roster.lock().closed
    }

    /// Closes the connection from this side and discards unsent bytes.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Closes the connection because a login that is no longer wanted may still be in flight.
    pub fn give_up(&self) {
        tracing::warn!("the network does not confirm the end of a session: its connection is closed");
        self.close();
    }

    fn fail(&self, why: &str) {
        self.outgoing.close();
        self.transfers.close();
        let sessions = {
            let mut roster = self.roster.lock();
            roster.closed = true;
            roster.fences.clear();
            roster.recalled.clear();
            std::mem::take(&mut roster.sessions)
        };
        for session in sessions.into_values() {
            session.end(EndReason::Transport(why.to_owned()));
        }
    }
}
