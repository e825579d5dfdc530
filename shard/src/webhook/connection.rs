//! Connections to receivers: opened to a given address, and kept idle for a while for the next delivery.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use model::webhook::Outcome;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::attempt::{AttempterError, Failure};

/// The largest head of a response in bytes; the response of a receiver needs no more.
const LARGEST_HEAD: usize = 32 * 1024;

/// Idle connections kept for one receiver: as many as the concurrent deliveries to an endpoint.
const IDLE_PER_RECEIVER: usize = 10;

/// Idle connections kept in all, so that many receivers do not exhaust the process's file descriptors.
const IDLE_IN_ALL: usize = 1024;

/// How long an idle connection is kept: less than the usual keep-alive of servers, so that they seldom close it first.
const IDLE_FOR: Duration = Duration::from_secs(20);

/// An HTTP/1.1 connection, closed on drop: its task is aborted.
pub(crate) struct Connection {
    pub sender: SendRequest<Full<Bytes>>,
    pub remote_ip: IpAddr,
    _task: AbortOnDropHandle<()>,
}

/// Opens a connection to the first of the addresses that answers. Each address gets an equal share of the remaining
/// `limit`, so that one silent address does not use up all of it.
pub(crate) async fn open(
    url: &Url,
    addresses: &[SocketAddr],
    tls: &TlsConnector,
    limit: Duration,
) -> Result<Connection, Failure> {
    let deadline = Instant::now() + limit;
    let mut last = Failure::new(Outcome::Dns, "the name has no address");
    for (index, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        let ip = address.ip();
        match tokio::time::timeout(share, TcpStream::connect(*address)).await {
            Ok(Ok(stream)) => return secure(url, stream, ip, tls).await.map_err(|failure| failure.with_ip(ip)),
            Ok(Err(error)) => last = Failure::new(Outcome::Connect, error.to_string()).with_ip(ip),
            Err(_) => last = Failure::new(Outcome::Timeout, "no connection in time").with_ip(ip),
        }
    }
    Err(last)
}

async fn secure(url: &Url, stream: TcpStream, ip: IpAddr, tls: &TlsConnector) -> Result<Connection, Failure> {
    // A delivery is one small write that waits for its response. Without `nodelay`, some kernels delay the last packet.
    let _ = stream.set_nodelay(true);
    if url.scheme() == "http" {
        return handshake(stream, ip).await;
    }
    let wrong_name = || Failure::new(Outcome::Tls, "the host is no name that a certificate could hold");
    let host = url.host_str().ok_or_else(wrong_name)?;
    // The brackets of an IPv6 address and the root's dot belong to the URL, not to the certificate.
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_owned();
    let name = ServerName::try_from(host).map_err(|_| wrong_name())?;
    let stream = tls.connect(name, stream).await.map_err(|error| Failure::new(Outcome::Tls, error.to_string()))?;
    handshake(stream, ip).await
}

async fn handshake<S>(stream: S, remote_ip: IpAddr) -> Result<Connection, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(LARGEST_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Failure::new(Outcome::Connect, error.to_string()))?;
    // A connection's error reaches the request that waits for its response; without a request, nobody needs it.
    let task = tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(Connection { sender, remote_ip, _task: AbortOnDropHandle::new(task) })
}

/// Builds the TLS connector: it trusts the platform's roots, and `extra_ca_pem` for receivers with the operator's own.
pub(super) fn tls_connector(extra_ca_pem: Option<&[u8]>) -> Result<TlsConnector, AttempterError> {
    let mut extra = Vec::new();
    for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(extra_ca_pem.unwrap_or_default()) {
        extra.push(certificate.map_err(|error| AttempterError::ExtraCa(error.to_string()))?);
    }
    if extra_ca_pem.is_some() && extra.is_empty() {
        return Err(AttempterError::ExtraCa("it holds no certificate".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(AttempterError::Tls)?;
    let mut trial = RootCertStore::empty();
    for certificate in &extra {
        trial.add(certificate.clone()).map_err(|error| AttempterError::ExtraCa(error.to_string()))?;
    }
    let config = match Verifier::new_with_extra_roots(extra, provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth(),
        // A machine without any root certificates can still deliver to `http` receivers in development; deliveries to
        // `https` receivers then fail with `tls`, and show it.
        Err(error) => {
            tracing::warn!(%error, "no root certificates: deliveries to https receivers will fail; install ca-certificates");
            builder.with_root_certificates(trial).with_no_client_auth()
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The key by which a connection can be reused: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Receiver(String);

impl Receiver {
    pub fn of(url: &Url) -> Self {
        Self(url[..url::Position::AfterPort].to_owned())
    }
}

/// Idle connections. Each leads to an address that was checked when it was opened, and so needs no second look-up.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    connections: HashMap<Receiver, Vec<(Instant, Connection)>>,
    count: usize,
}

impl Idle {
    fn drop_expired(&mut self) {
        for connections in self.connections.values_mut() {
            connections.retain(|(since, connection)| since.elapsed() < IDLE_FOR && !connection.sender.is_closed());
        }
        self.connections.retain(|_, connections| !connections.is_empty());
        self.count = self.connections.values().map(Vec::len).sum();
    }
}

impl Pool {
    /// Takes an idle connection that looks alive; the most recently used one, so that the others can expire.
    pub fn take(&self, receiver: &Receiver) -> Option<Connection> {
        let mut idle = self.idle.lock();
        loop {
            let (since, connection) = idle.connections.get_mut(receiver)?.pop()?;
            idle.count -= 1;
            if since.elapsed() < IDLE_FOR && !connection.sender.is_closed() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose response was read to its end. If the pool is full, the connection is closed.
    pub fn put(&self, receiver: Receiver, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.count >= IDLE_IN_ALL {
            idle.drop_expired();
        }
        if idle.count >= IDLE_IN_ALL {
            return;
        }
        let connections = idle.connections.entry(receiver).or_default();
        if connections.len() < IDLE_PER_RECEIVER {
            connections.push((Instant::now(), connection));
            idle.count += 1;
        }
    }

    /// Closes connections that have been idle for too long; to be called periodically.
    pub fn close_expired(&self) {
        self.idle.lock().drop_expired();
    }
}
