//! An issuer of session tokens: serves its discovery document and its keys, and can be switched off.

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

/// A running issuer. It ends when it is dropped.
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
    /// Starts without keys, and switched on.
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

    /// What tokens name as `iss`.
    pub fn url(&self) -> String {
        format!("http://{}", self.served.address)
    }

    /// Adds a public key, as a JWK.
    pub fn publish(&self, key: Value) {
        self.served.keys.lock().expect("no holder panics").push(key);
    }

    /// Switched off it answers 503 to everything.
    pub fn switch(&self, up: bool) {
        self.served.up.store(up, Ordering::SeqCst);
    }

    /// How often the keys were asked for.
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
