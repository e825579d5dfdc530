//! How connections of the public port come in: each is TCP, may begin with the PROXY header of a balancer, which names
//! the client (`proxy`), and may go on as TLS.
//!
//! Connections that are still on their way in wait beside each other, so that a slow one holds nobody up.

mod proxy;
mod unspoken;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use salvo::conn::tcp::TcpCoupler;
use salvo::conn::{Accepted, Acceptor, ConnCtrl, Holding};
use salvo::fuse::ArcFusePolicy;
use salvo::http::Version;
use salvo::http::uri::Scheme;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use unspoken::Unspoken;
use wire::Wire;

/// From the connection to its first byte of HTTP.
const WAY_IN: Duration = Duration::from_secs(10);

/// Connections that may be on their way in at once; others wait to be accepted.
const MOST_ON_THE_WAY: usize = 1024;

/// What a connection goes through before its first request.
#[derive(Clone, Default)]
pub struct Entrance {
    /// The balancers that begin with a PROXY header, when they do.
    pub proxies: Option<Vec<IpNet>>,
    pub tls: Option<Arc<ServerConfig>>,
}

/// A port that lets connections in.
pub struct Door {
    listener: TcpListener,
    holdings: Vec<Holding>,
    entrance: Entrance,
    /// The port closes.
    closing: CancellationToken,
    entering: JoinSet<Option<(Wire, SocketAddr)>>,
}

impl Door {
    /// # Errors
    /// When the listener has no address.
    pub fn new(listener: TcpListener, entrance: Entrance, closing: CancellationToken) -> io::Result<Self> {
        let (http_scheme, http_versions) = match entrance.tls {
            Some(_) => (Scheme::HTTPS, vec![Version::HTTP_11, Version::HTTP_2]),
            None => (Scheme::HTTP, vec![Version::HTTP_11]),
        };
        let holdings = vec![Holding { local_addr: listener.local_addr()?.into(), http_versions, http_scheme }];
        Ok(Self { listener, holdings, entrance, closing, entering: JoinSet::new() })
    }

    /// The next connection that has come in. Nothing is lost when it is dropped: what is on its way stays there.
    async fn next(&mut self) -> io::Result<(Wire, SocketAddr)> {
        if self.entrance.proxies.is_none() && self.entrance.tls.is_none() {
            let (stream, peer) = self.listener.accept().await?;
            return Ok((Wire::Plain(stream), peer));
        }
        loop {
            tokio::select! {
                Some(entered) = self.entering.join_next() => {
                    if let Ok(Some(entered)) = entered {
                        return Ok(entered);
                    }
                }
                accepted = self.listener.accept(), if self.entering.len() < MOST_ON_THE_WAY => {
                    let (stream, peer) = accepted?;
                    let entrance = self.entrance.clone();
                    self.entering.spawn(async move {
                        let entering = tokio::time::timeout(WAY_IN, entrance.lead_in(stream, peer)).await;
                        match entering {
                            Ok(Ok(entered)) => Some(entered),
                            Ok(Err(error)) => {
                                tracing::debug!(%peer, %error, "a connection did not come in");
                                None
                            }
                            Err(_) => {
                                tracing::debug!(%peer, "a connection took too long to come in");
                                None
                            }
                        }
                    });
                }
            }
        }
    }
}

impl Entrance {
    /// Reads the PROXY header of a balancer, then makes the connection a TLS one. What a peer that is no balancer says
    /// first is its request, be it a PROXY header.
    async fn lead_in(&self, mut stream: TcpStream, peer: SocketAddr) -> io::Result<(Wire, SocketAddr)> {
        let proxies = self.proxies.iter().flatten();
        let is_balancer = proxies.into_iter().any(|net| net.contains(&peer.ip().to_canonical()));
        let client = if is_balancer { proxy::read(&mut stream).await?.unwrap_or(peer) } else { peer };
        match &self.tls {
            Some(config) => {
                let stream = TlsAcceptor::from(config.clone()).accept(stream).await?;
                Ok((Wire::Tls(Box::new(stream)), client))
            }
            None => Ok((Wire::Plain(stream), client)),
        }
    }
}

impl Acceptor for Door {
    type Coupler = TcpCoupler<Unspoken>;
    type Stream = Unspoken;

    fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    async fn accept(&mut self, _: Option<ArcFusePolicy>) -> io::Result<Accepted<TcpCoupler<Unspoken>, Unspoken>> {
        let (wire, client) = self.next().await?;
        let holding = &self.holdings[0];
        Ok(Accepted {
            coupler: TcpCoupler::new(),
            stream: Unspoken::new(wire, self.closing.clone()),
            fuse_config: None,
            conn_ctrl: ConnCtrl::new(),
            local_addr: holding.local_addr.clone(),
            remote_addr: client.into(),
            http_scheme: holding.http_scheme.clone(),
        })
    }
}
