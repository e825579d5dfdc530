//! The library's HTTP client. It streams where the library can wait.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use hyper::header::CONTENT_LENGTH;
use network::driver::MEDIA_PIECE;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use wacore::net::{HttpClient, HttpRequest, HttpResponse, StreamingHttpResponse, UploadBody};

use crate::pieces::Pieces;

const CONNECT_WITHIN: Duration = Duration::from_secs(20);

/// How long an answer that is read whole may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// How long nothing may come of others.
const SILENT_FOR: Duration = Duration::from_secs(60);

/// Bytes of an answer that is read whole, at most.
const LARGEST_ANSWER: usize = 64 << 20;

/// Pieces of an upload that wait for the network.
const READ_AHEAD: usize = 2;

pub struct Http {
    client: reqwest::Client,
    /// The session's runtime: it drives what is waited for elsewhere.
    runtime: Handle,
}

impl Http {
    /// # Errors
    /// The client cannot be made.
    pub fn new(runtime: Handle) -> reqwest::Result<Self> {
        let builder = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_WITHIN).read_timeout(SILENT_FOR);
        Ok(Self { client: builder.build()?, runtime })
    }

    fn call(&self, request: &HttpRequest) -> anyhow::Result<reqwest::RequestBuilder> {
        let mut call = self.client.request(request.method.parse()?, address(&request.url)?);
        for (name, value) in &request.headers {
            call = call.header(name, value);
        }
        Ok(call)
    }
}

/// The library asks for media by `https` alone. A test network has no certificate, and is on loopback.
fn address(url: &str) -> anyhow::Result<url::Url> {
    let mut url: url::Url = url.parse()?;
    let is_near = match url.host() {
        Some(url::Host::Ipv4(host)) => host.is_loopback(),
        Some(url::Host::Ipv6(host)) => host.is_loopback(),
        _ => false,
    };
    if cfg!(feature = "testnet") {
        anyhow::ensure!(is_near, "this build speaks to a test network alone");
        if url.scheme() == "https" {
            // The scheme is a valid one, and the host is there.
            let _ = url.set_scheme("http");
        }
    }
    Ok(url)
}

async fn whole(mut answer: reqwest::Response) -> anyhow::Result<HttpResponse> {
    let status_code = answer.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        anyhow::ensure!(body.len() + chunk.len() <= LARGEST_ANSWER, "the answer has more than {LARGEST_ANSWER} bytes");
        body.extend_from_slice(&chunk);
    }
    Ok(HttpResponse { status_code, body })
}

#[async_trait]
impl HttpClient for Http {
    async fn execute(&self, request: HttpRequest) -> anyhow::Result<HttpResponse> {
        let mut call = self.call(&request)?.timeout(ANSWER_WITHIN);
        if let Some(body) = request.body {
            call = call.body(body);
        }
        whole(call.send().await?).await
    }

    fn supports_streaming(&self) -> bool {
        true
    }

    fn execute_streaming(&self, request: HttpRequest) -> anyhow::Result<StreamingHttpResponse> {
        let call = self.call(&request)?;
        let mut answer = self.runtime.block_on(call.send())?;
        let status_code = answer.status().as_u16();
        let runtime = self.runtime.clone();
        let body = Pieces::new(move || runtime.block_on(answer.chunk()).map_err(io::Error::other));
        Ok(StreamingHttpResponse { status_code, body: Box::new(body) })
    }

    fn supports_upload_streaming(&self) -> bool {
        true
    }

    fn execute_upload(
        &self,
        request: HttpRequest,
        mut body: UploadBody,
        content_length: u64,
    ) -> anyhow::Result<HttpResponse> {
        let (pieces, waiting) = mpsc::channel::<io::Result<Bytes>>(READ_AHEAD);
        let coming =
            stream::unfold(waiting, |mut waiting| async { waiting.recv().await.map(|piece| (piece, waiting)) });
        let call = self.call(&request)?.header(CONTENT_LENGTH, content_length);
        let call = call.body(reqwest::Body::wrap_stream(coming));
        let sent = self.runtime.spawn(async move { whole(call.send().await?).await });
        loop {
            let mut piece = vec![0; MEDIA_PIECE];
            let piece = match body.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => {
                    piece.truncate(count);
                    Ok(Bytes::from(piece))
                }
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            if pieces.blocking_send(piece).is_err() || is_last {
                break;
            }
        }
        drop(pieces);
        self.runtime.block_on(sent)?
    }
}
