//! The `simulated` driver: sessions with the network simulator, multiplexed over one TCP connection.
//!
//! - [`connection`]: the connection with its reader, its writer and the roster of its sessions.
//! - [`outgoing`]: the queue to the socket, which checks the fence where bytes leave.
//! - [`session`]: one channel's session.
//! - [`transfers`]: media transfers in both directions.
//! - [`watchdog`]: cuts sessions whose fence has expired.
//!
//! An idle session costs an entry in the roster and a few hundred bytes: no task, no timer, no buffer.

mod connection;
mod outgoing;
mod session;
#[cfg(test)]
mod tests;
mod transfers;
mod watchdog;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::id::NodeId;
use parking_lot::Mutex;

use self::connection::Connection;
use self::session::{Opening, SessionHandle};
use crate::driver::{
    AuthError, EndReason, Network, OpenError, OpenSession, Purpose, QueuedEvent, Session, SessionEvent,
};

/// Key of a channel's credentials in its store.
const CREDENTIALS: &str = "credentials";

/// Timeout of connecting and of the handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Backoff after a failed connection, doubled up to the maximum. Sessions that open meanwhile fail at once, so that a
/// thousand of them do not queue for connection attempts.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LAST_BACKOFF: Duration = Duration::from_secs(1);

/// The simulator as a messaging network. Clones share one connection.
#[derive(Clone)]
pub struct SimulatedNetwork {
    shared: Arc<Shared>,
}

struct Shared {
    address: String,
    node: NodeId,
    current: Mutex<Option<Arc<Connection>>>,
    /// Held while connecting, so that only one task connects at a time.
    attempts: tokio::sync::Mutex<Attempts>,
}

#[derive(Default)]
struct Attempts {
    failures: u32,
    last: Option<(Instant, String)>,
}

impl SimulatedNetwork {
    /// A driver for the simulator at `address`, given as host and port, speaking as `node`. It connects when the first
    /// session opens, and again when a session opens after the connection broke; a host name is resolved each time.
    /// Create one driver per node: the network closes a node's older connections when a new one arrives.
    pub fn new(address: impl Into<String>, node: NodeId) -> Self {
        let shared = Shared { address: address.into(), node, current: Mutex::new(None), attempts: Default::default() };
        Self { shared: Arc::new(shared) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(connection) = self.current.get_mut().take() {
            connection.close();
        }
    }
}

impl Shared {
    fn alive(&self) -> Option<Arc<Connection>> {
        self.current.lock().clone().filter(|connection| connection.is_open())
    }

    /// The open connection; connects if there is none.
    async fn connection(&self) -> Result<Arc<Connection>, OpenError> {
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        let mut attempts = self.attempts.lock().await;
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        if let Some(why) = attempts.too_early() {
            return Err(OpenError::Unreachable(why));
        }
        let made = tokio::time::timeout(CONNECT_WITHIN, Connection::make(&self.address, self.node)).await;
        match made.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
            Ok(connection) => {
                *attempts = Attempts::default();
                *self.current.lock() = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                let why = format!("{}: {error}", self.address);
                attempts.failed(why.clone());
                Err(OpenError::Unreachable(why))
            }
        }
    }
}

impl Attempts {
    fn failed(&mut self, why: String) {
        self.failures = self.failures.saturating_add(1);
        self.last = Some((Instant::now(), why));
    }

    /// The error of the last attempt, while its backoff lasts.
    fn too_early(&self) -> Option<String> {
        let (at, why) = self.last.as_ref()?;
        let backoff = FIRST_BACKOFF.saturating_mul(1 << self.failures.saturating_sub(1).min(8)).min(LAST_BACKOFF);
        (at.elapsed() < backoff).then(|| why.clone())
    }
}

#[async_trait]
impl Network for SimulatedNetwork {
    fn name(&self) -> &'static str {
        "simulated"
    }

    async fn open(&self, open: OpenSession) -> Result<Arc<dyn Session>, OpenError> {
        let OpenSession { fence, purpose, proxy, auth, events, .. } = open;
        if !fence.is_live() {
            return Err(OpenError::Fenced);
        }
        let opening = match purpose {
            Purpose::Pair { device_name, full_history } => Opening::Pair { device_name, full_history, auth },
            Purpose::Login => match auth.get(CREDENTIALS) {
                Ok(Some(credentials)) => Opening::Login { credentials: credentials.into() },
                Ok(None) => return Ok(stillborn(&events, "no credentials are stored".into())),
                Err(AuthError::Unreadable(why)) => return Ok(stillborn(&events, why)),
                Err(AuthError::Fenced) => return Err(OpenError::Fenced),
                Err(AuthError::Unavailable(why)) => return Err(OpenError::Unreachable(why)),
            },
        };
        let connection = self.shared.connection().await?;
        if !fence.is_live() {
            return Err(OpenError::Fenced);
        }
        Ok(Arc::new(SessionHandle(Some(connection.open(fence, events, opening, proxy)?))))
    }
}

/// A session that ends at once, because the channel's stored state cannot open one.
fn stillborn(events: &tokio::sync::mpsc::Sender<QueuedEvent>, why: String) -> Arc<dyn Session> {
    // On a full or closed queue the owner needs no event: nothing follows in any case.
    let _ = events.try_send(Box::new(SessionEvent::Ended(EndReason::AuthState(why))));
    Arc::new(SessionHandle(None))
}
