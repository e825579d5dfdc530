//! The library's HTTP client. It streams where the library can block, and uses the session's route: its proxy, or a
//! direct connection. Each connection carries one request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{self, Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use network::driver::MEDIA_PIECE;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use wacore::net::{HttpClient, HttpRequest, HttpResponse, StreamingHttpResponse, UploadBody};

use super::dial::Way;
use crate::pieces::Pieces;

/// How long an answer that is read as a whole may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// How long a streamed answer may be silent, and how long an upload may make no progress.
const SILENT_FOR: Duration = Duration::from_secs(60);

/// How long a media transfer may take in total. It holds a thread, also for a caller who gave up or a slow proxy.
const LONGEST: Duration = Duration::from_secs(600);

/// The largest answer that is read as a whole, in bytes.
const LARGEST_ANSWER: usize = 64 << 20;

/// Pieces of an upload that may wait for the network.
const READ_AHEAD: usize = 2;

type Body = UnsyncBoxBody<Bytes, io::Error>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub struct Http {
    way: Arc<Way>,
    /// The session's runtime, which drives requests of blocking callers.
    runtime: Handle,
}

impl Http {
    pub fn new(way: Arc<Way>, runtime: Handle) -> Self {
        Self { way, runtime }
    }

    /// Sends a request. `taken` counts the pieces of the body that the connection has taken.
    fn call(
        &self,
        asked: HttpRequest,
        body: Body,
        length: Option<u64>,
        taken: Arc<AtomicU64>,
    ) -> impl Future<Output = anyhow::Result<Response<Incoming>>> + Send + 'static {
        let way = Arc::clone(&self.way);
        async move {
            let url = address(&asked.url)?;
            let (stream, _) = way.connect(&url).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            // The connection ends with the answer's body, or when the caller is dropped.
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to a media host ended");
                }
            });
            let mut request = Request::builder().method(asked.method.as_str()).uri(&url[url::Position::BeforePath..]);
            request = request.header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort]);
            for (name, value) in &asked.headers {
                request = request.header(name, value);
            }
            if let Some(length) = length {
                request = request.header(CONTENT_LENGTH, length);
            }
            let mut answer = std::pin::pin!(sender.send_request(request.body(body)?));
            loop {
                let before = taken.load(Ordering::Relaxed);
                match tokio::time::timeout(SILENT_FOR, &mut answer).await {
                    Ok(answer) => return Ok(answer?),
                    Err(_) if taken.load(Ordering::Relaxed) > before => {}
                    Err(_) => anyhow::bail!("the host was silent for {} s", SILENT_FOR.as_secs()),
                }
            }
        }
    }
}

/// The next bytes of an answer that has to be complete by `until`; `None` at its end.
async fn piece<B>(answer: &mut B, until: Instant) -> io::Result<Option<Bytes>>
where
    B: body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    loop {
        let patience = SILENT_FOR.min(until.saturating_duration_since(Instant::now()));
        let next = tokio::time::timeout(patience, answer.frame()).await.map_err(|_| io::ErrorKind::TimedOut)?;
        match next.transpose().map_err(io::Error::other)?.map(Frame::into_data) {
            Some(Ok(bytes)) => return Ok(Some(bytes)),
            Some(Err(_)) => {}
            None => return Ok(None),
        }
    }
}

async fn whole(answer: Response<Incoming>) -> anyhow::Result<HttpResponse> {
    let (status_code, until) = (answer.status().as_u16(), Instant::now() + ANSWER_WITHIN);
    let (mut coming, mut body) = (answer.into_body(), Vec::new());
    while let Some(piece) = piece(&mut coming, until).await? {
        anyhow::ensure!(body.len() + piece.len() <= LARGEST_ANSWER, "the answer has more than {LARGEST_ANSWER} bytes");
        body.extend_from_slice(&piece);
    }
    Ok(HttpResponse { status_code, body })
}

fn full(body: Option<Bytes>) -> Body {
    Full::new(body.unwrap_or_default()).map_err(|never| match never {}).boxed_unsync()
}

/// Parses a request's URL. The library uses `https` for all media; a test network, on loopback, has no certificate.
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
            // This cannot fail: the scheme is valid, and the URL has a host.
            let _ = url.set_scheme("http");
        }
    }
    Ok(url)
}

#[async_trait]
impl HttpClient for Http {
    async fn execute(&self, mut request: HttpRequest) -> anyhow::Result<HttpResponse> {
        let body = request.body.take();
        let length = body.as_ref().map(|body| body.len() as u64);
        let asked = self.call(request, full(body), length, Arc::default());
        tokio::time::timeout(ANSWER_WITHIN, async { whole(asked.await?).await }).await?
    }

    fn supports_streaming(&self) -> bool {
        true
    }

    fn execute_streaming(&self, request: HttpRequest) -> anyhow::Result<StreamingHttpResponse> {
        let until = Instant::now() + LONGEST;
        let answer = self.runtime.block_on(self.call(request, full(None), None, Arc::default()))?;
        let status_code = answer.status().as_u16();
        let (mut coming, runtime) = (answer.into_body(), self.runtime.clone());
        let body = Pieces::new(move || runtime.block_on(piece(&mut coming, until)));
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
        let taken = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&taken);
        let coming =
            stream::unfold(waiting, |mut waiting| async { waiting.recv().await.map(|piece| (piece, waiting)) });
        let coming = coming.map(move |piece| {
            counter.fetch_add(1, Ordering::Relaxed);
            piece.map(Frame::data)
        });
        let coming = StreamBody::new(coming).boxed_unsync();
        let asked = self.call(request, coming, Some(content_length), taken);
        // After the timeout nobody takes the next piece, which ends the loop below.
        let sent = async move { tokio::time::timeout(LONGEST, async { whole(asked.await?).await }).await? };
        let sent = self.runtime.spawn(sent);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_trickles_ends_at_its_time() {
        let trickle = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"x"))), ()))
        });
        let mut answer = StreamBody::new(Box::pin(trickle));
        let until = Instant::now() + Duration::from_millis(200);
        let ended = loop {
            match piece(&mut answer, until).await {
                Ok(bytes) => assert_eq!(bytes.as_deref(), Some(&b"x"[..])),
                Err(error) => break error,
            }
            assert!(until.elapsed() < Duration::from_secs(5), "it goes on");
        };
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    }
}
