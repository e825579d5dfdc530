//! The HTTP server of the control API and the media port, on loopback.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::Shared;
use crate::ledger::ClientPort;

/// Maximum number of concurrent connections per port; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 512;

/// Timeout of a request's head.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Serves until the network stops; for client ports, counts connections by source address.
pub async fn listen<F, A>(listener: TcpListener, shared: Arc<Shared>, port: Option<ClientPort>, answer: F)
where
    F: Fn(Request<Incoming>, Arc<Shared>) -> A + Copy + Send + 'static,
    A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = async {
                let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
                (listener.accept().await, slot)
            } => accepted,
            () = shared.stop.cancelled() => return,
        };
        let (Ok((stream, from)), slot) = accepted else {
            // Usually there are too many open files; the next attempt may succeed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if let Some(port) = port {
            shared.with(|state| state.ledger.sources.note(port, from.ip()));
        }
        let (serving, stop) = (Arc::clone(&shared), shared.stop.clone());
        shared.tasks.spawn(async move {
            let service = service_fn(move |request| {
                let answering = answer(request, Arc::clone(&serving));
                async move { Ok::<_, Infallible>(answering.await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                served = connection => if let Err(error) = served {
                    tracing::debug!(%error, "an HTTP connection ended");
                },
                () = stop.cancelled() => {}
            }
            drop(slot);
        });
    }
}
