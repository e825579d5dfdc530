//! Opens connections: TCP, direct or through the channel's proxy, then TLS and the upgrade to a WebSocket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue, ORIGIN};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_websockets::{ClientBuilder, Limits, WebSocketStream};
use url::Url;
use wacore::net::{WHATSAPP_WEB_ORIGIN, WHATSAPP_WEB_WS_URL};

use super::proxy::Proxy;

/// How long a connection may take until it can carry frames.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);

/// The largest frame of the protocol, with its header.
const LARGEST_MESSAGE: usize = (16 << 20) + 16;

pub type Stream = WebSocketStream<Box<dyn Io>>;

pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// The address of the network.
#[derive(Clone)]
pub struct Endpoint {
    url: Url,
    tls: Arc<ClientConfig>,
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {} s", CONNECT_WITHIN.as_secs())]
    Timeout,
    #[error("the upgrade to a WebSocket failed: {0}")]
    Upgrade(#[from] tokio_websockets::Error),
    #[error("{0}")]
    Endpoint(String),
    #[error("{0}")]
    Proxy(String),
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("is no ws:// URL of a loopback address: a build with the test network speaks to nothing else")]
    NotLoopback,
    #[error("certificates cannot be checked on this machine: {0}")]
    Tls(#[from] rustls::Error),
}

impl Endpoint {
    /// The network's own endpoint.
    ///
    /// # Errors
    /// The machine has no root certificates to verify the network's.
    pub fn network() -> Result<Self, EndpointError> {
        Ok(Self { url: WHATSAPP_WEB_WS_URL.parse().expect("the library's own URL"), tls: tls()? })
    }

    /// The endpoint of a test network, on loopback.
    ///
    /// # Errors
    /// The URL is not a `ws` URL of a loopback address.
    #[cfg(feature = "testnet")]
    pub fn test(url: &str) -> Result<Self, EndpointError> {
        let url: Url = url.parse().map_err(|_| EndpointError::NotLoopback)?;
        let host = url.host_str().unwrap_or_default();
        let is_loopback = host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if url.scheme() != "ws" || !is_loopback {
            return Err(EndpointError::NotLoopback);
        }
        Ok(Self { url, tls: tls()? })
    }
}

fn tls() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The route from a session to all hosts that it connects to.
pub struct Way {
    tls: Arc<ClientConfig>,
    /// If there is a proxy, every connection goes through it.
    proxy: Option<Proxy>,
}

impl Way {
    pub fn new(endpoint: &Endpoint, proxy: Option<Proxy>) -> Self {
        Self { tls: Arc::clone(&endpoint.tls), proxy }
    }

    /// Connects to the host of a URL, and returns a duplicate of the socket by which it can be reset from any thread.
    ///
    /// # Errors
    /// There is no connection within [`CONNECT_WITHIN`].
    pub async fn connect(&self, url: &Url) -> Result<(Box<dyn Io>, OwnedFd), DialError> {
        let made = tokio::time::timeout(CONNECT_WITHIN, self.connect_at_leisure(url)).await;
        made.unwrap_or(Err(DialError::Timeout))
    }

    async fn connect_at_leisure(&self, url: &Url) -> Result<(Box<dyn Io>, OwnedFd), DialError> {
        let invalid = || DialError::Endpoint(format!("{url} cannot be dialled"));
        let host = url.host_str().ok_or_else(invalid)?;
        let port = url.port_or_known_default().ok_or_else(invalid)?;
        let (stream, hold): (Box<dyn Io>, _) = match &self.proxy {
            Some(proxy) => proxy.connect(host, port, &self.tls).await?,
            None => {
                let stream = TcpStream::connect((bare(host), port)).await?;
                let hold = hold(&stream)?;
                (Box::new(stream), hold)
            }
        };
        let is_secure = matches!(url.scheme(), "wss" | "https");
        Ok((if is_secure { secured(host, stream, &self.tls).await? } else { stream }, hold))
    }
}

fn bare(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// Duplicates the socket of a new connection.
pub fn hold(stream: &TcpStream) -> io::Result<OwnedFd> {
    stream.set_nodelay(true)?;
    stream.as_fd().try_clone_to_owned()
}

/// Runs TLS on a connection to a host.
pub async fn secured(host: &str, stream: impl Io + 'static, tls: &Arc<ClientConfig>) -> Result<Box<dyn Io>, DialError> {
    let name = ServerName::try_from(bare(host).to_owned());
    let name = name.map_err(|_| DialError::Endpoint(format!("{host} is no name for TLS")))?;
    Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?))
}

/// Connects to the network, and returns a duplicate of the socket.
pub async fn dial(
    way: &Way,
    endpoint: &Endpoint,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<(Stream, OwnedFd), DialError> {
    let made = tokio::time::timeout(CONNECT_WITHIN, connect(way, endpoint, headers)).await;
    made.unwrap_or(Err(DialError::Timeout))
}

async fn connect(
    way: &Way,
    endpoint: &Endpoint,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<(Stream, OwnedFd), DialError> {
    let url = &endpoint.url;
    let (stream, hold) = way.connect(url).await?;
    // A closed socket must not send bytes left in the kernel: no login of a dead node may arrive after its successor's.
    rustix::net::sockopt::set_socket_linger(&hold, Some(Duration::ZERO)).map_err(io::Error::from)?;
    let uri = url.as_str().parse().map_err(|_| DialError::Endpoint(format!("{url} cannot be dialled")))?;
    let limits = Limits::default().max_payload_len(Some(LARGEST_MESSAGE));
    let mut builder = ClientBuilder::from_uri(uri)
        .limits(limits)
        .add_header(ORIGIN, HeaderValue::from_static(WHATSAPP_WEB_ORIGIN))?;
    for (name, value) in headers {
        builder = builder.add_header(name, value)?;
    }
    let (stream, _) = builder.connect_on(stream).await?;
    Ok((stream, hold))
}

/// Resets a connection at once: unsent bytes in the kernel are dropped, and the peer gets a reset.
pub fn reset(hold: &OwnedFd) {
    // An error means that the connection has ended already.
    let _ = rustix::net::connect_unspec(hold);
}
