//! Accepts the connections of the public port. Each is a TCP connection that may begin with a balancer's PROXY header,
//! which names the client (`proxy`), and may continue as TLS.
//!
//! Connections are set up concurrently, so that a slow one delays no other.

mod first_head;
mod idle_connection;
mod proxy;
mod refusal;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use raft::transport::admission::{Place, Port};
use salvo::conn::tcp::TcpCoupler;
use salvo::conn::{Accepted, Acceptor, ConnCtrl, Holding, StraightStream};
use salvo::fuse::{ArcFusePolicy, FuseConfig};
use salvo::http::Version;
use salvo::http::uri::Scheme;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use idle_connection::IdleConnection;

/// Timeout from the connection to the end of its handshake, and again from there to the first byte of HTTP.
const WAY_IN: Duration = Duration::from_secs(10);

/// How long the head of a request may take, and how long a connection may wait for the next request. Over HTTP/2 it
/// bounds only the first head, with what comes before it; later heads are bounded by [`IDLE`].
const HEAD: Duration = Duration::from_secs(30);

/// How long a response may wait for a client that reads none of it.
const STALL: Duration = Duration::from_secs(30);

/// How long a connection may transfer nothing at all. Every request sends a byte of its response sooner, and event
/// streams send heartbeats much more often.
const IDLE: Duration = Duration::from_secs(900);

/// How often a failing `accept` is logged, and the delay before the next one.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A connection, plain or TLS.
type Wire = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// How connections are set up before their first request.
#[derive(Clone)]
pub struct Entrance {
    /// Addresses of balancers. A balancer's connections come from many clients.
    pub proxies: Vec<IpNet>,
    /// Whether balancers begin their connections with a PROXY header.
    pub proxy_protocol: bool,
    pub tls: Option<Arc<ServerConfig>>,
    pub port: Arc<Port>,
}

/// A port that accepts client connections.
pub struct ClientListener {
    listener: TcpListener,
    holdings: Vec<Holding>,
    entrance: Entrance,
    /// Cancelled when the port closes.
    closing: CancellationToken,
    entering: JoinSet<Option<Entered>>,
    complained: Option<Instant>,
}

/// A connection that is set up.
struct Entered {
    wire: Wire,
    client: SocketAddr,
    place: Place,
}

impl ClientListener {
    /// # Errors
    /// When the listener has no address.
    pub fn new(listener: TcpListener, entrance: Entrance, closing: CancellationToken) -> io::Result<Self> {
        let (http_scheme, http_versions) = match entrance.tls {
            Some(_) => (Scheme::HTTPS, vec![Version::HTTP_11, Version::HTTP_2]),
            None => (Scheme::HTTP, vec![Version::HTTP_11]),
        };
        let holdings = vec![Holding { local_addr: listener.local_addr()?.into(), http_versions, http_scheme }];
        Ok(Self { listener, holdings, entrance, closing, entering: JoinSet::new(), complained: None })
    }

    /// Returns the next connection that is set up. Cancel safe: connections in setup stay in `entering`. There are at
    /// most as many of them as the port has places; silent ones give way to new ones.
    async fn next(&mut self) -> Entered {
        loop {
            tokio::select! {
                Some(entered) = self.entering.join_next() => {
                    if let Ok(Some(entered)) = entered {
                        return entered;
                    }
                }
                accepted = self.listener.accept() => {
                    let (stream, peer) = match accepted {
                        Ok(accepted) => accepted,
                        Err(error) => {
                            self.complain(&error);
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                            continue;
                        }
                    };
                    let is_balancer = self.entrance.is_balancer(peer);
                    let Some(place) = self.entrance.port.admit(peer.ip(), is_balancer) else { continue };
                    if self.entrance.is_open() {
                        return Entered { wire: Wire::Left(stream), client: peer, place };
                    }
                    let entrance = self.entrance.clone();
                    self.entering.spawn(async move {
                        let entering = tokio::time::timeout(WAY_IN, entrance.lead_in(stream, peer));
                        let entered = place.gives_way().run_until_cancelled(entering).await?;
                        match entered.unwrap_or_else(|too_long| Err(too_long.into())) {
                            Ok((wire, client)) => Some(Entered { wire, client, place }),
                            Err(error) => {
                                tracing::debug!(%peer, %error, "a connection did not come in");
                                None
                            }
                        }
                    });
                }
            }
        }
    }

    /// Logs a failed `accept`, such as for want of file descriptors. Rate limited, since a line for each failure would
    /// be thousands.
    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
            self.complained = Some(Instant::now());
            tracing::error!(%error, "no connection can be accepted");
        }
    }
}

/// The timeouts of a connection once it is set up.
fn patience() -> FuseConfig {
    FuseConfig::disabled()
        .with_http1_header_timeout(HEAD)
        .with_write_stall_timeout(STALL)
        .with_connection_idle_timeout(IDLE)
}

impl Entrance {
    /// For ports that speak plain HTTP, without TLS or PROXY headers.
    pub fn plain(port: Arc<Port>) -> Self {
        Self { proxies: Vec::new(), proxy_protocol: false, tls: None, port }
    }

    /// Whether a connection needs no setup after `accept`.
    fn is_open(&self) -> bool {
        !self.proxy_protocol && self.tls.is_none()
    }

    fn is_balancer(&self, peer: SocketAddr) -> bool {
        self.proxies.iter().any(|net| net.contains(&peer.ip().to_canonical()))
    }

    /// Reads the PROXY header of a balancer, then does the TLS handshake. Bytes from a peer that is no balancer are
    /// taken as its request, even if they look like a PROXY header.
    async fn lead_in(&self, mut stream: TcpStream, peer: SocketAddr) -> io::Result<(Wire, SocketAddr)> {
        let begins_with_header = self.proxy_protocol && self.is_balancer(peer);
        let client = if begins_with_header { proxy::read(&mut stream).await?.unwrap_or(peer) } else { peer };
        match &self.tls {
            Some(config) => {
                let stream = TlsAcceptor::from(config.clone()).accept(stream).await?;
                Ok((Wire::Right(Box::new(stream)), client))
            }
            None => Ok((Wire::Left(stream), client)),
        }
    }
}

impl Acceptor for ClientListener {
    type Coupler = TcpCoupler<Self::Stream>;
    type Stream = StraightStream<IdleConnection>;

    fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    async fn accept(&mut self, _: Option<ArcFusePolicy>) -> io::Result<Accepted<Self::Coupler, Self::Stream>> {
        let Entered { wire, client, mut place } = self.next().await;
        place.named(client);
        let (holding, conn_ctrl) = (&self.holdings[0], ConnCtrl::new());
        let idle_connection = IdleConnection::new(wire, place, WAY_IN, HEAD, self.closing.clone());
        Ok(Accepted {
            coupler: TcpCoupler::new(),
            stream: StraightStream::new(idle_connection, Some(patience()), conn_ctrl.clone(), None),
            fuse_config: Some(patience()),
            conn_ctrl,
            local_addr: holding.local_addr.clone(),
            remote_addr: client.into(),
            http_scheme: holding.http_scheme.clone(),
        })
    }
}
