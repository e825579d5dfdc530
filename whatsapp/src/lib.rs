//! The driver `whatsapp`: sessions with the real network, through the client library `whatsapp-rust`.
//!
//! Invariants: bytes leave for the network only after every earlier write of state is on a quorum; a client and
//! everything of its session live on one thread; the library never reconnects by itself.
//!
//! - [`session`]: the calls of the owner. [`life`]: opening, pairing, login, end. [`line`]: the state that both share.
//! - [`threads`]: session threads. [`watchdog`]: cuts sessions whose fence has passed.
//! - [`state`]: the state log, and the library's store on top of it. [`wire`]: connections, and the gate before them.
//! - [`operations`]: requests other than messages. [`inbound`], [`outbound`]: messages and their receipts.
//!   [`transfers`]: media. [`verdict`]: why the network ended a session.
//! - [`version`]: the client version that sessions announce. [`telemetry`]: metrics.
//!
//! No type of the library leaves this crate.

#![cfg_attr(not(feature = "driver"), allow(rustdoc::broken_intra_doc_links, reason = "then the crate is empty"))]
#![cfg(feature = "driver")]

mod failpoint;
mod inbound;
mod life;
mod line;
mod media;
mod operations;
mod outbound;
mod pieces;
mod session;
mod state;
mod telemetry;
mod threads;
mod transfers;
mod verdict;
mod version;
mod watchdog;
mod wire;

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use model::target::TargetPolicy;
use network::driver::{EndReason, Network, OpenError, OpenSession, Session, SessionEvent};
use tokio::sync::watch;

use self::life::Birth;
use self::line::Line;
use self::operations::Operations;
use self::outbound::Outgoing;
use self::session::Handle;
use self::state::log::StateLog;
use self::threads::Threads;
use self::transfers::Transfers;
pub use self::version::ClientVersion;
use self::version::Versions;
use self::watchdog::Watchdog;
use self::wire::dial::Way;
pub use self::wire::dial::{Endpoint, EndpointError};
use self::wire::proxy::Proxy;

/// Configuration of the connection between a node and the network.
pub struct Settings {
    /// Session threads; 0 takes half the cores.
    pub threads: usize,
    /// The client version that sessions announce. `None` means this release's version, until the network refuses it.
    pub version: Option<ClientVersion>,
    pub endpoint: Endpoint,
    /// The most sessions that this node holds at a time.
    pub sessions_max: usize,
    /// The addresses at which the proxies of channels may be.
    pub targets: TargetPolicy,
}

/// The real network. Clones share its session threads.
#[derive(Clone)]
pub struct WhatsappNetwork {
    shared: Arc<Shared>,
}

struct Shared {
    threads: Threads,
    watchdog: Watchdog,
    transfers: Transfers,
    versions: Arc<Versions>,
    endpoint: Endpoint,
    sessions_max: usize,
    targets: Arc<TargetPolicy>,
}

impl WhatsappNetwork {
    /// # Errors
    /// The session threads or the watchdog's thread could not be started.
    pub fn start(settings: Settings) -> io::Result<Self> {
        telemetry::describe();
        let Settings { threads, version, endpoint, sessions_max, targets } = settings;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = Threads::start(if threads == 0 { cores.div_ceil(2) } else { threads })?;
        let watchdog = Watchdog::start()?;
        Ok(Self {
            shared: Arc::new(Shared {
                threads,
                watchdog,
                transfers: Transfers::new(),
                versions: Arc::new(Versions::new(version)),
                endpoint,
                sessions_max,
                targets: Arc::new(targets),
            }),
        })
    }
}

#[async_trait]
impl Network for WhatsappNetwork {
    fn name(&self) -> &'static str {
        "whatsapp"
    }

    async fn open(&self, open: OpenSession) -> Result<Arc<dyn Session>, OpenError> {
        let OpenSession { node, fence, purpose, proxy, auth, events, .. } = open;
        if !fence.is_live() {
            return Err(OpenError::Fenced);
        }
        let shared = &self.shared;
        // A proxy that cannot be parsed fails the session: connecting without the proxy is not an option.
        let proxy = proxy.map(|url| Proxy::parse(&url, Arc::clone(&shared.targets))).transpose();
        let proxy = proxy.map_err(|error| OpenError::Unreachable(error.to_string()))?;
        let way = Way::new(&shared.endpoint, proxy);
        let place = shared.threads.place();
        let log = StateLog::new(auth);
        let (line, waiting) = Line::new(fence, log);
        if !shared.watchdog.watch(&line, shared.sessions_max) {
            let why = format!("this node has its {} sessions", shared.sessions_max);
            return Err(OpenError::Unreachable(why));
        }
        let (outgoing, messages) = Outgoing::new(Arc::clone(&line));
        let operations = Arc::new(Operations::new(Arc::clone(&line), Arc::clone(&outgoing)));
        let (clients, client) = watch::channel(None);
        let (over, ended) = watch::channel(false);
        let birth = Birth {
            line: Arc::clone(&line),
            node,
            purpose,
            endpoint: shared.endpoint.clone(),
            way,
            versions: Arc::clone(&shared.versions),
            runtime: place.runtime(),
            outgoing: Arc::clone(&outgoing),
            messages,
            operations: Arc::clone(&operations),
            clients,
        };
        let carried = Arc::clone(&line);
        place.spawn(async move { carried.carry(waiting, events).await });
        let mourned = Arc::clone(&line);
        let life = place.spawn(life::live(birth));
        place.spawn(async move {
            if life.await.is_err_and(|error| error.is_panic()) {
                tracing::error!("a session panicked");
                mourned.note_last(SessionEvent::Ended(EndReason::Transport("the session panicked".into())));
                mourned.cut(EndReason::Transport("the session panicked".into()));
                mourned.close_events();
            }
            let _ = over.send(true);
        });
        Ok(Arc::new(Handle {
            line,
            outgoing,
            operations,
            transfers: shared.transfers.clone(),
            place,
            clients: client,
            ended,
        }))
    }
}
