//! Opens the two ports, and shuts them down in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use raft::host::Fatal;
use raft::{failpoint, supervise};
use salvo::{Router, Server, Service};
use salvo_compression::{Compression, CompressionLevel};
use shard::cluster::Cluster;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::audit::Port;
use crate::background;
use crate::config::ApiConfig;
use crate::doc::Deployment;
use crate::listener::{ClientListener, Entrance};
use crate::memory::Noting;
use crate::openapi::document_of;
use crate::pipeline::MOST_HTTP2_LIST;
use crate::{operator, resources, router};

/// How long requests in flight may take after the stop. The longest request, a send, takes ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes that are buffered of a request's head over HTTP/1.1.
const MOST_HEAD: usize = 128 * 1024;

/// The most bytes that HTTP/2 buffers of a stream whose client does not read, not counting the chunk that exceeds it.
/// Responses in memory are counted (`memory.rs`). Responses that are read from disk as they are sent, such as media,
/// take up to this bound for each of an account's readers.
const MOST_UNSENT: usize = 64 * 1024;

/// The listen backlog: connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("port {port} is taken: {address} is in use by another process; stop it or choose another port", port = .address.port(), address = .address)]
    PortTaken { address: SocketAddr },
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
}

/// An open port that serves requests.
pub struct Running {
    /// The bound address, with the assigned port when port 0 was requested.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Running {
    /// Returns once the port is closed, and its last request was answered or aborted.
    pub async fn stopped(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a port ended abnormally");
        }
    }
}

/// Opens the public port and serves it until `stop`. Then no connection is accepted, and open requests have 30 seconds.
///
/// # Errors
/// [`ServeError`] names the address that could not be bound.
pub async fn serve(config: ApiConfig, cluster: Arc<Cluster>, stop: CancellationToken) -> Result<Running, ServeError> {
    let entrance = Entrance {
        proxies: config.trusted_proxies.clone(),
        proxy_protocol: config.proxy_protocol,
        tls: config.tls.clone(),
        port: config.port.clone(),
    };
    let (address, listener) = bind(config.listen, entrance, stop.clone())?;
    let fatal = cluster.fatal().clone();
    crate::telemetry::describe();
    let mut routes = resources::routes();
    let document = document_of("Gateway", &routes, &deployment(&config, &cluster));
    let app = App::new(Port::Customers, config, cluster, stop.clone(), document);
    let background = background::of_public_port(&app);
    let router = if app.config.console.customers {
        routes.extend(crate::console::routes_for_members());
        router::router_with_console(&app, routes, resources::routes())
    } else {
        router::router(&app, routes)
    };
    let afterwards = async move {
        app.event_streams.close();
        app.event_streams.wait().await;
        background.finish().await;
    };
    Ok(run(address, listener, router, stop, fatal, afterwards))
}

/// Opens the operator's port and serves it until `stop`.
///
/// # Errors
/// [`ServeError`] names the address that could not be bound.
pub async fn serve_operator(
    config: ApiConfig,
    cluster: Arc<Cluster>,
    stop: CancellationToken,
) -> Result<Running, ServeError> {
    let entrance = Entrance { tls: config.operator_tls.clone(), ..Entrance::plain(config.operator_port.clone()) };
    let (address, listener) = bind(config.operator_listen, entrance, stop.clone())?;
    let fatal = cluster.fatal().clone();
    let mut routes = operator::routes();
    let document = document_of("Gateway, for its operators", &routes, &deployment(&config, &cluster));
    let app = App::new(Port::Operators, config, cluster, stop.clone(), document);
    let background = background::of_operators_port(&app);
    if failpoint::COMPILED {
        routes.extend(operator::failpoints::routes());
    }
    if app.config.console.operators {
        routes.extend(crate::console::routes_for_operators());
    }
    let router = router::router(&app, routes);
    Ok(run(address, listener, router, stop, fatal, background.finish()))
}

/// The settings that the OpenAPI document shows.
fn deployment<'a>(config: &'a ApiConfig, cluster: &Cluster) -> Deployment<'a> {
    let ApiConfig { suffixes, target_policy, .. } = config;
    Deployment { suffixes, target_policy, media_days: cluster.media().retention_days() }
}

fn bind(
    address: SocketAddr,
    entrance: Entrance,
    closing: CancellationToken,
) -> Result<(SocketAddr, ClientListener), ServeError> {
    let listen = || -> io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        // Inherited by accepted connections: no response must wait for the client to acknowledge the one before.
        socket.set_nodelay(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let open = || {
        let listener = listen()?;
        Ok((listener.local_addr()?, ClientListener::new(listener, entrance, closing)?))
    };
    open().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::PortTaken { address },
        _ => ServeError::Listen { address, source },
    })
}

/// Compresses textual responses from 1 KiB for clients that accept it, preferably with Brotli. Event stream frames are
/// not compressed, since each must arrive by itself, and neither is media ([`Reply::has_ranges`](crate::reply::Reply)).
/// Compression leaks no secrets, since no browser adds a bearer token to a request that another site's page makes.
fn compression() -> Compression {
    const TEXTS: [&str; 5] = ["application/json", "text/html", "text/css", "text/javascript", "text/plain"];
    let texts = TEXTS.map(|text| text.parse().expect("the types are well formed"));
    // Higher levels cost much more CPU time than they save bandwidth.
    let answers = Compression::new().disable_all().min_length(1024).content_types(&texts).force_priority(true);
    answers.enable_brotli(CompressionLevel::Precise(4)).enable_gzip(CompressionLevel::Precise(5))
}

fn run(
    address: SocketAddr,
    listener: ClientListener,
    router: Router,
    stop: CancellationToken,
    fatal: Fatal,
    afterwards: impl Future<Output = ()> + Send + 'static,
) -> Running {
    let mut server = Server::new(listener);
    server.http1_mut().max_buf_size(MOST_HEAD);
    server.http2_mut().max_header_list_size(MOST_HTTP2_LIST).max_send_buf_size(MOST_UNSENT);
    let handle = server.handle();
    let failed = fatal.clone();
    let serving = async move {
        let mut serving = std::pin::pin!(server.try_serve(Service::new(router).hoop(Noting).hoop(compression())));
        let ended = tokio::select! {
            ended = &mut serving => ended,
            () = stop.cancelled() => {
                handle.stop_graceful(STOP_TIMEOUT);
                serving.await
            }
        };
        match ended {
            Err(error) if !stop.is_cancelled() => failed(format!("the port {address} failed: {error}")),
            Err(error) => tracing::error!(%address, %error, "the port failed"),
            Ok(()) => {}
        }
        afterwards.await;
    };
    // A node without its port looks healthy to the other nodes but cannot be reached, so the end of this task is fatal.
    let task = tokio::spawn(async move {
        supervise::required("a port", &fatal, serving).await;
    });
    Running { address, task }
}
