//! The network simulator: an engine without clock or sockets, a TCP server for nodes, and the typed methods behind the
//! control API.
//!
//! - [`engine`]: state and rules.
//! - [`server`]: connections of nodes; [`transfers`]: media on them.
//! - [`control`]: the methods of [`Simulator`] that the control API calls.
//! - [`store`]: the folder in which state is persisted.
//! - [`answers`], [`faults`]: JSON shapes of the control API; [`bytes`]: the media that phones send.

pub mod answers;
mod bytes;
mod control;
pub mod engine;
pub mod faults;
pub mod number;
mod server;
pub mod store;
mod transfers;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use model::time::Timestamp;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::answers::ControlError;
use self::engine::{ConnectionId, Effect, Engine, Ticket};
use self::server::Outlet;
use self::store::{Found, Store, StoreError};

/// Minimum interval between two writes of the state.
const WRITE_EVERY: Duration = Duration::from_secs(2);

/// State that takes long to write is written less often, so that writing takes at most `1 / WRITE_SHARE` of the time.
const WRITE_SHARE: u32 = 100;

/// Why a simulator with persisted state does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the network's address cannot be listened on: {0}")]
    Listen(#[from] io::Error),
}

/// A running simulator. Clones share it.
#[derive(Clone)]
pub struct Simulator {
    shared: Arc<Shared>,
}

/// The engine and where its effects go. The lock is held for one call of the engine, never over an await.
struct Shared {
    core: Mutex<Core>,
    /// Notified when the state may have changed and should be written.
    changes: Notify,
    /// Wakes the timer task when something is due earlier than it expects.
    earlier: Notify,
    /// Wall-clock time at the start; later times add the monotonic clock, so that clock jumps have no effect.
    started_at: Timestamp,
    started: Instant,
    numbers: AtomicU64,
    network: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

struct Core {
    engine: Engine,
    outlets: HashMap<ConnectionId, Outlet>,
    links: HashMap<Ticket, oneshot::Sender<Result<u32, ControlError>>>,
    /// Whether the state may have changed since the last snapshot.
    changed: bool,
}

impl Simulator {
    /// Starts the server for nodes on `network`. `control` is the address of the control API; `qr_time_scale`
    /// multiplies the lifetime of QR texts and pair codes.
    ///
    /// # Errors
    /// The address cannot be listened on, or the scale is out of range.
    pub async fn start(network: SocketAddr, control: SocketAddr, qr_time_scale: f64) -> io::Result<Self> {
        Self::go_on(network, control, qr_time_scale, None).await
    }

    /// Like [`start`](Self::start), but restores the state from a folder and persists it there: within seconds of a
    /// change, less often when the state is large, and completely in [`Keeper::finish`]. A process that is killed loses
    /// the changes since the last write.
    ///
    /// # Errors
    /// Those of [`start`](Self::start), and a folder that cannot be used or has unreadable contents.
    pub fn start_in(
        folder: &Path,
        network: SocketAddr,
        control: SocketAddr,
        qr_time_scale: f64,
    ) -> BoxFuture<'_, Result<(Self, Keeper), StartError>> {
        Box::pin(async move {
            let folder = folder.to_owned();
            let opening = tokio::task::spawn_blocking(move || Store::open(&folder));
            let (store, found) = opening.await.expect("opening a folder does not panic")?;
            let simulator = Self::go_on(network, control, qr_time_scale, found).await?;
            let keeping = tokio::spawn(keep(Arc::clone(&simulator.shared), store));
            let keeper = Keeper { shared: Arc::clone(&simulator.shared), keeping };
            Ok((simulator, keeper))
        })
    }

    fn go_on(
        network: SocketAddr,
        control: SocketAddr,
        qr_time_scale: f64,
        found: Option<Found>,
    ) -> BoxFuture<'static, io::Result<Self>> {
        Box::pin(async move {
            faults::check_time_scale(qr_time_scale)
                .map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
            let listener = TcpListener::bind(network).await?;
            let mut engine = Engine::new(rand::random(), format!("http://{control}"), qr_time_scale);
            // Restore before a node can connect: a node that found no phone would take the channel's link for ended.
            if let Some(Found { snapshot, ended_in_order }) = found {
                engine.restore(Timestamp::now(), snapshot, ended_in_order);
            }
            let shared = Arc::new(Shared {
                core: Mutex::new(Core { engine, outlets: HashMap::new(), links: HashMap::new(), changed: false }),
                changes: Notify::new(),
                earlier: Notify::new(),
                started_at: Timestamp::now(),
                started: Instant::now(),
                numbers: AtomicU64::new(1),
                network: listener.local_addr()?,
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
            });
            shared.tasks.spawn(server::accept(Arc::clone(&shared), listener));
            shared.tasks.spawn(run_timers(Arc::clone(&shared)));
            Ok(Self { shared })
        })
    }

    /// The address that nodes connect to.
    pub fn network_address(&self) -> SocketAddr {
        self.shared.network
    }

    /// Closes all connections and waits until all tasks have stopped.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// The task that persists a simulator's state.
pub struct Keeper {
    shared: Arc<Shared>,
    keeping: JoinHandle<Store>,
}

impl Keeper {
    /// Writes the final state, after the simulator was shut down.
    ///
    /// # Errors
    /// The state cannot be written; the folder then holds an earlier one.
    pub async fn finish(self) -> io::Result<()> {
        let mut store = self.keeping.await.map_err(io::Error::other)?;
        let snapshot = self.shared.core.lock().engine.snapshot();
        tokio::task::spawn_blocking(move || store.write(&snapshot, true)).await.map_err(io::Error::other)?
    }
}

/// Writes the state whenever it has changed, until the simulator stops.
async fn keep(shared: Arc<Shared>, mut store: Store) -> Store {
    let mut pause = Duration::ZERO;
    loop {
        let due = async {
            tokio::time::sleep(pause).await;
            while !shared.core.lock().changed {
                shared.changes.notified().await;
            }
        };
        tokio::select! {
            () = due => {}
            () = shared.stop.cancelled() => return store,
        }
        let began = Instant::now();
        let snapshot = {
            let mut core = shared.core.lock();
            core.changed = false;
            core.engine.snapshot()
        };
        let writing = tokio::task::spawn_blocking(move || {
            let written = store.write(&snapshot, false);
            (store, written)
        });
        let written;
        (store, written) = writing.await.expect("writing a state does not panic");
        if let Err(error) = written {
            tracing::error!(%error, "the state could not be written; what a restart finds is older");
            shared.core.lock().changed = true;
        }
        pause = WRITE_EVERY.max(began.elapsed() * WRITE_SHARE);
    }
}

impl Shared {
    /// Queries the engine without changing it.
    fn look<T>(&self, call: impl FnOnce(&Engine) -> T) -> T {
        call(&self.core.lock().engine)
    }

    /// Calls the engine and carries out its effects, in order.
    fn with<T>(&self, call: impl FnOnce(&mut Engine, Timestamp) -> T) -> T {
        let mut core = self.core.lock();
        let is_first_change = !std::mem::replace(&mut core.changed, true);
        let now = self.now();
        let due_before = core.engine.next_due();
        let result = call(&mut core.engine, now);
        core.carry_out(now);
        let due = core.engine.next_due();
        drop(core);
        if is_first_change {
            self.changes.notify_one();
        }
        if due.is_some_and(|due| due_before.is_none_or(|before| due < before)) {
            self.earlier.notify_one();
        }
        result
    }

    fn now(&self) -> Timestamp {
        self.started_at.plus(self.started.elapsed())
    }

    /// A number that was not returned before.
    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

impl Core {
    fn carry_out(&mut self, now: Timestamp) {
        loop {
            let effects = self.engine.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Send { connection, frame } => {
                        let outlet = self.outlets.get(&connection);
                        if let Some(Err(TrySendError::Full(_))) = outlet.map(|outlet| outlet.try_send(frame)) {
                            // A node that does not read is disconnected, so that nobody has to wait for it.
                            tracing::warn!(connection, "a node does not read; its connection is cut");
                            self.outlets.remove(&connection);
                            self.engine.disconnected(now, connection);
                        }
                    }
                    // Dropping the outlet closes the connection after the queued frames are written.
                    Effect::Disconnect { connection } => drop(self.outlets.remove(&connection)),
                    Effect::Linked { ticket, outcome } => {
                        if let Some(waiting) = self.links.remove(&ticket) {
                            // The caller may have gone; then the outcome is not needed.
                            let _ = waiting.send(outcome);
                        }
                    }
                }
            }
        }
    }
}

/// Runs due timers until the simulator stops.
async fn run_timers(shared: Arc<Shared>) {
    loop {
        let due = shared.with(|engine, now| {
            engine.advance(now);
            engine.next_due()
        });
        let wait = async {
            match due {
                // One millisecond later: timestamps are rounded down, so that an early tick would find nothing due.
                Some(due) => tokio::time::sleep(due.since(shared.now()) + std::time::Duration::from_millis(1)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => {}
            () = shared.earlier.notified() => {}
            () = shared.stop.cancelled() => return,
        }
    }
}
