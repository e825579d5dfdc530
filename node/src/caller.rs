//! HTTP calls of the command line: to the operators' port of a cluster, and in development to every process it started.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use crate::console::warn;
use crate::trust::Trust;

/// Longer than any response of the gateway takes, including a QR wait of 10 s.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a body that is read piece by piece, such as a backup.
const LONGEST_BODY: Duration = Duration::from_secs(24 * 3600);

/// An unreachable machine does not answer at all; the next one is tried after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout and size limit of binary requests and responses: a channel's session is larger than any page.
const EXCHANGE: Duration = Duration::from_secs(120);
const LARGEST_EXCHANGE: usize = 64 << 20;

/// The largest response that is read as a whole: pages end at 4 MiB; responses without pages describe nodes and shards.
const LARGEST: usize = 32 << 20;

/// Header of responses from a node that cannot reach a majority.
const DIRECTORY_OLD: &str = "x-directory-old";

/// Client for one base URL, with an optional bearer token.
#[derive(Clone, Debug)]
pub struct Caller {
    client: Client,
    base: String,
    token: Option<String>,
}

impl Caller {
    /// Verifies TLS with the system's authorities.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn new(base: impl Into<String>, token: Option<&str>) -> anyhow::Result<Self> {
        Self::trusting(base, token, &Trust::System)
    }

    /// Like [`new`](Self::new), with another way to verify the port's certificate.
    ///
    /// # Errors
    /// As [`new`](Self::new), or a file of certificates cannot be read.
    pub fn trusting(base: impl Into<String>, token: Option<&str>, trust: &Trust) -> anyhow::Result<Self> {
        // Proxies of the environment are ignored: none lies between the processes of one machine, or between an
        // operator and the cluster.
        let client = Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT).timeout(TIMEOUT);
        let client = trust.apply(client)?.build().context("making an HTTP client")?;
        Ok(Self { client, base: base.into(), token: token.map(str::to_owned) })
    }

    /// The same client for another base URL.
    pub fn at(&self, base: impl Into<String>) -> Self {
        Self { base: base.into(), ..self.clone() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Calls the API; a response that is not JSON is returned as a string.
    ///
    /// # Errors
    /// No response arrived.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<(StatusCode, Value)> {
        let mut request = self.request(method.clone(), path);
        if let Some(body) = body {
            request = request.json(body);
        }
        // The context below names the URL already.
        let answer = request.send().await.map_err(reqwest::Error::without_url);
        let answer = answer.with_context(|| format!("{method} {}{path}", self.base))?;
        let status = answer.status();
        if answer.headers().contains_key(DIRECTORY_OLD) {
            let base = &self.base;
            warn(format_args!(
                "gateway: {base} reaches no majority of the voting nodes: this is the last state that it knows"
            ));
        }
        let text = text_of(answer).await.with_context(|| format!("{method} {}{path}", self.base))?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// Like [`call`](Self::call) with `POST`, for bytes: `fill` sets the body of the request.
    ///
    /// # Errors
    /// No response arrived.
    pub async fn exchange(
        &self,
        path: &str,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let request = self.request(Method::POST, path).timeout(EXCHANGE);
        let answer = fill(request).send().await.map_err(reqwest::Error::without_url);
        let answer = answer.with_context(|| format!("POST {}{path}", self.base))?;
        let status = answer.status();
        let read = bytes_of(answer, LARGEST_EXCHANGE, EXCHANGE).await;
        Ok((status, read.with_context(|| format!("POST {}{path}", self.base))?))
    }

    /// Starts to read a response that may be long; the caller bounds the wait for each piece of its body.
    ///
    /// # Errors
    /// No response arrived.
    pub async fn open(&self, path: &str) -> anyhow::Result<Response> {
        let request = self.request(Method::GET, path).timeout(LONGEST_BODY);
        let beginning = tokio::time::timeout(TIMEOUT, request.send()).await;
        beginning
            .with_context(|| format!("GET {}{path} was not answered within {TIMEOUT:?}", self.base))?
            .map_err(reqwest::Error::without_url)
            .with_context(|| format!("GET {}{path}", self.base))
    }

    /// The body of a successful response.
    ///
    /// # Errors
    /// No response arrived, or its status is not a success; the error shows the response.
    pub async fn expect(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, answer) = self.call(method.clone(), path, body).await?;
        if !status.is_success() {
            bail!("{method} {}{path} answered {status}: {answer}", self.base);
        }
        Ok(answer)
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.expect(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.expect(Method::POST, path, Some(body)).await
    }

    /// Whether `path` answers 200 now.
    pub async fn is_ok(&self, path: &str) -> bool {
        matches!(self.call(Method::GET, path, None).await, Ok((StatusCode::OK, _)))
    }
}

/// Whether a call failed before anything was sent, so that it had no effect.
pub fn was_not_sent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect)
}

/// The whole body of a response.
///
/// # Errors
/// The body does not end in time, or is larger than any response of the gateway.
pub async fn text_of(answer: Response) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&bytes_of(answer, LARGEST, TIMEOUT).await?).into_owned())
}

async fn bytes_of(mut answer: Response, most: usize, within: Duration) -> anyhow::Result<Vec<u8>> {
    let reading = async {
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
            ensure!(bytes.len() + piece.len() <= most, "the answer has more than {most} bytes");
            bytes.extend_from_slice(&piece);
        }
        anyhow::Ok(bytes)
    };
    let read = tokio::time::timeout(within, reading).await;
    read.with_context(|| format!("the answer did not end within {within:?}"))?
}

/// The string at a JSON pointer of a response.
///
/// # Errors
/// There is none; the error shows the response.
pub fn text_at<'a>(answer: &'a Value, pointer: &str) -> anyhow::Result<&'a str> {
    answer.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer} in {answer}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Calls a server that responds with `bytes` bytes.
    async fn heard(bytes: usize) -> anyhow::Result<(StatusCode, Value)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            // The client closes the connection once it has read enough.
            let _ = stream.write_all(&vec![b'x'; bytes]).await;
        };
        let caller = Caller::new(base, None)?;
        let (heard, ()) = tokio::join!(caller.call(Method::GET, "/", None), serving);
        heard
    }

    #[tokio::test]
    async fn an_answer_is_read_up_to_a_size_and_one_byte_more_is_refused() {
        let _already_there = rustls::crypto::ring::default_provider().install_default();
        let (status, body) = heard(LARGEST).await.unwrap();
        assert_eq!((status, body.as_str().map(str::len)), (StatusCode::OK, Some(LARGEST)));
        let error = heard(LARGEST + 1).await.unwrap_err();
        assert!(format!("{error:#}").contains("more than"), "{error:#}");
    }
}
