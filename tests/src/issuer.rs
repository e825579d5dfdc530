//! An issuer of session tokens: it serves its discovery document and its keys, and can be switched off.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running issuer, which stops on drop.
#[derive(Debug)]
pub struct Issuer {
    served: Arc<Served>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Served {
    address: SocketAddr,
    keys: Mutex<Vec<Value>>,
    up: AtomicBool,
    fetches: AtomicUsize,
}

impl Issuer {
    /// Starts an issuer that is switched on and has no keys.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let up = AtomicBool::new(true);
        let served = Arc::new(Served { address, keys: Mutex::default(), up, fetches: AtomicUsize::new(0) });
        let serving = served.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = serving.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = served.answer(request.uri().path());
                    async move { Ok::<_, std::convert::Infallible>(answer) }
                });
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { served, task }
    }

    /// The `iss` of its tokens.
    pub fn url(&self) -> String {
        format!("http://{}", self.served.address)
    }

    /// Adds a public key, as a JWK.
    pub fn publish(&self, key: Value) {
        self.served.keys.lock().expect("no holder panics").push(key);
    }

    /// Switches the issuer on or off. While it is off, it answers every request with 503.
    pub fn switch(&self, up: bool) {
        self.served.up.store(up, Ordering::SeqCst);
    }

    /// How often the keys were requested.
    pub fn fetches(&self) -> usize {
        self.served.fetches.load(Ordering::SeqCst)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        let url = format!("http://{}", self.address);
        let body = match path {
            _ if !self.up.load(Ordering::SeqCst) => None,
            "/.well-known/openid-configuration" => Some(json!({ "issuer": url, "jwks_uri": format!("{url}/keys") })),
            "/keys" => {
                self.fetches.fetch_add(1, Ordering::SeqCst);
                Some(json!({ "keys": *self.keys.lock().expect("no holder panics") }))
            }
            _ => None,
        };
        let status = if body.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut response = Response::new(Full::new(Bytes::from(body.unwrap_or_default().to_string())));
        *response.status_mut() = status;
        response
    }
}
