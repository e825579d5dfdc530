//! The network simulator: an engine without clock or sockets, a TCP server for nodes, and the typed methods that the
//! control API calls.
//!
//! - [`engine`]: the state and the rules.
//! - [`server`]: nodes' connections; [`transfers`]: media on them.
//! - [`control`]: what the control API calls, on [`Simulator`].
//! - [`answers`], [`faults`]: the shapes of the control API; [`bytes`]: the media that phones send.

pub mod answers;
mod bytes;
mod control;
mod engine;
pub mod faults;
mod number;
mod server;
mod transfers;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::time::Timestamp;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::answers::ControlError;
use self::engine::{ConnectionId, Effect, Engine, Ticket};
use self::server::Outlet;

/// A running simulator. Clones share it.
#[derive(Clone)]
pub struct Simulator {
    shared: Arc<Shared>,
}

/// The engine and what its effects reach. One lock, held for one call of the engine and never over an await.
struct Shared {
    core: Mutex<Core>,
    /// Wakes the timer when something became due earlier than it expects.
    earlier: Notify,
    /// The wall clock at the start; from there on time is counted, so that a jump of the clock disturbs nothing.
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
}

impl Simulator {
    /// Starts the server for nodes on `network`; `control` is where the control API will be reached, `qr_time_scale`
    /// multiplies the life of QR texts and pair codes.
    ///
    /// # Errors
    /// An address that cannot be listened on, or a scale that makes no sense.
    pub async fn start(network: SocketAddr, control: SocketAddr, qr_time_scale: f64) -> io::Result<Self> {
        faults::check_time_scale(qr_time_scale).map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
        let listener = TcpListener::bind(network).await?;
        let engine = Engine::new(rand::random(), format!("http://{control}"), qr_time_scale);
        let shared = Arc::new(Shared {
            core: Mutex::new(Core { engine, outlets: HashMap::new(), links: HashMap::new() }),
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
    }

    /// Where nodes connect to.
    pub fn network_address(&self) -> SocketAddr {
        self.shared.network
    }

    /// Closes all connections and waits until everything has stopped.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Shared {
    /// Calls the engine and carries out its effects, in order.
    fn with<T>(&self, call: impl FnOnce(&mut Engine, Timestamp) -> T) -> T {
        let mut core = self.core.lock();
        let now = self.now();
        let due_before = core.engine.next_due();
        let result = call(&mut core.engine, now);
        core.carry_out(now);
        let due = core.engine.next_due();
        drop(core);
        if due.is_some_and(|due| due_before.is_none_or(|before| due < before)) {
            self.earlier.notify_one();
        }
        result
    }

    fn now(&self) -> Timestamp {
        self.started_at.plus(self.started.elapsed())
    }

    /// A number that was not given out before.
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
                        let full = self.outlets.get(&connection).is_some_and(|outlet| !outlet.offer(frame));
                        if full {
                            // A node that does not read is cut, so that nobody waits for it.
                            tracing::warn!(connection, "a node does not read; its connection is cut");
                            self.outlets.remove(&connection);
                            self.engine.disconnected(now, connection);
                        }
                    }
                    // Dropping the outlet closes the connection once what was queued is written.
                    Effect::Disconnect { connection } => drop(self.outlets.remove(&connection)),
                    Effect::Linked { ticket, outcome } => {
                        if let Some(waiting) = self.links.remove(&ticket) {
                            // The caller may have gone; then nobody needs to know.
                            let _ = waiting.send(outcome);
                        }
                    }
                }
            }
        }
    }
}

/// Does what is due, when it is due.
async fn run_timers(shared: Arc<Shared>) {
    loop {
        let due = shared.with(|engine, now| {
            engine.advance(now);
            engine.next_due()
        });
        let wait = async {
            match due {
                // A millisecond more: timestamps are rounded down, and an early tick would find nothing due.
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
