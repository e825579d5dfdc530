//! One persistent HTTP/1.1 connection to a node. Client and nodes share the machine, so a request must cost little.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection that sends one request at a time, and reconnects after a failure.
pub struct Connection {
    address: SocketAddr,
    host: HeaderValue,
    bearer: Option<HeaderValue>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// The response to a request.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub body: Bytes,
}

impl Connection {
    /// A connection to the node at `url` (`http://127.0.0.1:8001`), with a key.
    ///
    /// # Errors
    /// When the URL or the key cannot be used in a request.
    pub fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        Ok(Self { bearer: Some(HeaderValue::from_str(&format!("Bearer {key}"))?), ..Self::without_key(url)? })
    }

    /// A connection to a server that needs no key.
    ///
    /// # Errors
    /// When the URL cannot be used in a request.
    pub fn without_key(url: &str) -> anyhow::Result<Self> {
        let authority = url.trim_start_matches("http://").trim_end_matches('/');
        Ok(Self {
            address: authority.parse().with_context(|| format!("{url} is not http://ADDRESS:PORT"))?,
            host: HeaderValue::from_str(authority)?,
            bearer: None,
            sender: None,
        })
    }

    /// Posts JSON and reads the whole response.
    ///
    /// # Errors
    /// When no complete response arrived; the next call reconnects.
    pub async fn post(&mut self, path: &str, body: Bytes) -> anyhow::Result<Response> {
        let outcome = self.exchange(path, body).await;
        if outcome.is_err() {
            self.sender = None;
        }
        outcome
    }

    async fn exchange(&mut self, path: &str, body: Bytes) -> anyhow::Result<Response> {
        let sender = match &mut self.sender {
            Some(sender) => sender,
            empty => empty.insert(connect(self.address).await?),
        };
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        }
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        Ok(Response { status, body: response.into_body().collect().await?.to_bytes() })
    }
}

async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // The task ends with the sender or the socket; callers get the error through the sender.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
