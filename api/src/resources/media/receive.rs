//! Receives the body of an upload: a form with the part `file`, or the bare bytes.
//!
//! Only a few chunks of it are in memory at a time. A client that disconnects or stalls leaves nothing behind.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{BoxStream, try_unfold};
use model::error::CallError;
use model::id::CustomerId;
use model::issue::{IssueCode, Violation};
use model::media::LARGEST_MEDIA;
use multer::{Field, Multipart};
use percent_encoding::percent_decode;
use salvo::Request;
use salvo::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use salvo::http::{HeaderMap, HeaderName, ReqBody};
use shard::media::sniff;
use shard::media::spool::{For, Spool, Spooled};
use shard::media::store::MediaStore;
use tokio::time::{Instant, timeout, timeout_at};

use super::upload::{judged_filename, judged_mime_type};
use crate::error::http_status;

/// The most bytes of a form besides its file.
const OVERHEAD: u64 = 64 * 1024;

/// The most bytes before the first part of a form begins, or before a part's headers are complete. The parser buffers
/// all of them, and scans them again with each chunk.
const MOST_HEAD: u64 = 16 * 1024;

/// The longest text of a form's other parts, in bytes. Valid ones are much shorter.
const LONGEST_TEXT: usize = 4096;

/// How long a body may pause, and how long it may take as a whole.
const PAUSE: Duration = Duration::from_secs(30);
const WHOLE: Duration = Duration::from_secs(600);

/// After the grace period, a body must have had at least this average speed, in bytes per second, because it holds one
/// of few permits. The slowest phone connections are faster.
const GRACE: Duration = Duration::from_secs(10);
const SLOWEST: u64 = 8 * 1024;

/// How many bytes of an oversized body are read and discarded, and for how long. Most clients send the whole body
/// before they read, and would see a broken connection instead of the response.
const DISCARDED_BYTES: u64 = 16 * 1024 * 1024;
const DISCARDING: Duration = Duration::from_secs(10);

const FILENAME: HeaderName = HeaderName::from_static("x-filename");

/// A completely received file, with the type and the name that its sender declared.
pub struct Received {
    pub spooled: Spooled,
    pub declared: Option<String>,
    pub filename: Option<String>,
}

/// Receives the body of a request.
///
/// # Errors
/// `media_too_large`, `payload_too_large`, `invalid_request`; `bad_request` for a body that breaks off or stalls.
pub async fn file(customer: CustomerId, request: &mut Request, media: &MediaStore) -> Result<Received, CallError> {
    let body = request.take_body();
    let headers = request.headers();
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(Violation::new(IssueCode::Format, "send the bytes as they are").at(&["Content-Encoding"]));
    }
    let expects_continue = headers.contains_key(EXPECT);
    let arriving = Arriving::new(body);
    let receiving = async {
        match text(headers, &CONTENT_TYPE) {
            Some(kind) if is_form(kind) => form(customer, kind, &arriving, media).await,
            _ => bare(customer, headers, &arriving, media).await,
        }
    };
    let received = timeout(WHOLE, receiving).await.unwrap_or_else(|_| Err(too_slow()));
    // With `Expect: 100-continue` the client has sent no body yet, so there is nothing to discard.
    if matches!(&received, Err(error) if matches!(http_status(error.code), 413 | 503)) && !expects_continue {
        let _ = timeout(DISCARDING, arriving.discard()).await;
    }
    received
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_form(content_type: &str) -> bool {
    sniff::essence(content_type).eq_ignore_ascii_case("multipart/form-data")
}

fn too_slow() -> CallError {
    CallError::bad_request(
        "the body did not arrive in time: send at least 8 KiB a second, without a pause of 30 seconds, and all of it within 600",
    )
}

/// Receives a body that is the file itself.
async fn bare(
    customer: CustomerId,
    headers: &HeaderMap,
    arriving: &Arriving,
    media: &MediaStore,
) -> Result<Received, CallError> {
    let declared = text(headers, &CONTENT_TYPE).map(|kind| judged_mime_type(kind.trim().to_owned()));
    let declared = declared.transpose().map_err(|violation| violation.at(&["Content-Type"]))?;
    let filename = headers.get(FILENAME).map(|name| judged_filename(&percent_decoded(name.as_bytes())));
    let filename = filename.transpose().map_err(|violation| violation.at(&["X-Filename"]))?;
    let announced: Option<u64> = text(headers, &CONTENT_LENGTH).and_then(|length| length.parse().ok());
    if let Some(size) = announced.filter(|size| *size > LARGEST_MEDIA) {
        return Err(CallError::media_too_large(size));
    }
    let mut spool = media.spool(For::Account(customer)).await?;
    while let Some(piece) = arriving.next().await {
        spool.write(&piece.map_err(broken)?).await?;
    }
    Ok(Received { spooled: spool.finish().await?, declared, filename })
}

/// Receives a form with the parts `file`, `filename` and `mime_type` in any order. Other parts are ignored.
async fn form(
    customer: CustomerId,
    content_type: &str,
    arriving: &Arriving,
    media: &MediaStore,
) -> Result<Received, CallError> {
    let boundary = multer::parse_boundary(content_type).map_err(of_form)?;
    let mut form = Multipart::new(arriving.yielding(), boundary);
    let (mut file, mut filename, mut mime_type) = (None, None, None);
    while let Some(mut part) = next_part(&mut form, arriving).await? {
        match part.name() {
            Some("file") if file.is_some() => {
                return Err(Violation::new(IssueCode::TooMany, "at most 1 file").at(&["file"]));
            }
            Some("file") => {
                let named = part.file_name().filter(|name| !name.is_empty()).map(judged_filename);
                let named = named.transpose().map_err(|violation| violation.at(&["file"]))?;
                let declared = part.content_type().map(ToString::to_string);
                let place = media.spool(For::Account(customer)).await?;
                file = Some((spool(&mut part, place, arriving).await?, declared, named));
            }
            Some("filename") => {
                let text = short_text(&mut part, arriving).await?;
                filename = Some(judged_filename(&text).map_err(|violation| violation.at(&["filename"]))?);
            }
            Some("mime_type") => {
                let text = short_text(&mut part, arriving).await?;
                mime_type = Some(judged_mime_type(text).map_err(|violation| violation.at(&["mime_type"]))?);
            }
            _ => while piece(&mut part, arriving).await?.is_some() {},
        }
    }
    let Some((spooled, declared, named)) = file else {
        return Err(Violation::new(IssueCode::Required, "is required").at(&["file"]));
    };
    // An invalid type of the part is ignored, since clients fill in some type for files that they do not know.
    let declared = declared.filter(|declared| sniff::is_mime_type(declared));
    Ok(Received { spooled, declared: mime_type.or(declared), filename: filename.or(named) })
}

/// Returns the next part of a form, once its headers have arrived.
async fn next_part(form: &mut Multipart<'static>, arriving: &Arriving) -> Result<Option<Field<'static>>, CallError> {
    arriving.allow(arriving.arrived() + MOST_HEAD);
    let part = form.next_field().await.map_err(of_form);
    arriving.allow(u64::MAX);
    part
}

async fn spool(part: &mut Field<'_>, mut spool: Spool, arriving: &Arriving) -> Result<Spooled, CallError> {
    while let Some(piece) = piece(part, arriving).await? {
        spool.write(&piece).await?;
    }
    Ok(spool.finish().await?)
}

/// Returns the next chunk of a part, as long as the form is within its bounds.
async fn piece(part: &mut Field<'_>, arriving: &Arriving) -> Result<Option<Bytes>, CallError> {
    let is_file = part.name() == Some("file");
    let piece = part.chunk().await.map_err(of_form)?;
    // The file has its own limit and error code.
    if !is_file && arriving.arrived() > LARGEST_MEDIA + OVERHEAD {
        return Err(CallError::payload_too_large_over(LARGEST_MEDIA + OVERHEAD));
    }
    Ok(piece)
}

async fn short_text(part: &mut Field<'_>, arriving: &Arriving) -> Result<String, CallError> {
    let mut bytes = Vec::new();
    while let Some(piece) = piece(part, arriving).await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > LONGEST_TEXT {
            let name = part.name().unwrap_or_default().to_owned();
            return Err(Violation::new(IssueCode::TooLong, "at most 255 characters").at(&[&name]));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// A body that is read chunk by chunk with timeouts, shared with the form parser, which owns its stream.
struct Arriving {
    body: Arc<tokio::sync::Mutex<ReqBody>>,
    arrived: Arc<AtomicU64>,
    /// When more bytes than this have arrived, the form parser gets an error instead of the next chunk.
    allowed: Arc<AtomicU64>,
    since: Instant,
}

impl Arriving {
    fn new(body: ReqBody) -> Self {
        Self {
            body: Arc::new(tokio::sync::Mutex::new(body)),
            arrived: Arc::default(),
            allowed: Arc::new(AtomicU64::new(u64::MAX)),
            since: Instant::now(),
        }
    }

    /// Sets how many bytes may have arrived until the form parser finds what it looks for.
    fn allow(&self, arrived: u64) {
        self.allowed.store(arrived, Ordering::Relaxed);
    }

    fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    async fn next(&self) -> Option<io::Result<Bytes>> {
        next(&self.body, &self.arrived, self.since).await
    }

    /// The body as a stream that yields after each chunk. Otherwise the form parser would read and buffer as long as
    /// data is available. The first chunk comes without a yield, since the parser looks for the first boundary only
    /// once before it takes the stream as ended.
    fn yielding(&self) -> BoxStream<'static, io::Result<Bytes>> {
        let (body, arrived, allowed) = (self.body.clone(), self.arrived.clone(), self.allowed.clone());
        try_unfold((body, arrived, allowed, self.since, false), async |(body, arrived, allowed, since, started)| {
            if started {
                tokio::task::yield_now().await;
            }
            if arrived.load(Ordering::Relaxed) > allowed.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let Some(piece) = next(&body, &arrived, since).await else { return Ok(None) };
            Ok(Some((piece?, (body, arrived, allowed, since, true))))
        })
        .boxed()
    }

    async fn discard(&self) {
        while self.arrived() < LARGEST_MEDIA + DISCARDED_BYTES && matches!(self.next().await, Some(Ok(_))) {}
    }
}

/// When a body with this many received bytes becomes too slow.
fn too_slow_from(since: Instant, arrived: u64) -> Instant {
    since + GRACE + Duration::from_millis(arrived.saturating_mul(1000) / SLOWEST)
}

async fn next(body: &tokio::sync::Mutex<ReqBody>, arrived: &AtomicU64, since: Instant) -> Option<io::Result<Bytes>> {
    let mut body = body.lock().await;
    loop {
        let until = too_slow_from(since, arrived.load(Ordering::Relaxed)).min(Instant::now() + PAUSE);
        let frame = match timeout_at(until, body.next()).await {
            Ok(frame) => frame?,
            Err(_) => return Some(Err(io::ErrorKind::TimedOut.into())),
        };
        match frame.map(salvo::hyper::body::Frame::into_data) {
            Ok(Ok(data)) => {
                arrived.fetch_add(data.len() as u64, Ordering::Relaxed);
                return Some(Ok(data));
            }
            // Trailers carry nothing of the file.
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

fn broken(error: io::Error) -> CallError {
    match error.kind() {
        io::ErrorKind::TimedOut => too_slow(),
        // Only `Arriving::yielding` makes this kind of error, for more bytes than `Arriving::allow` has set.
        io::ErrorKind::InvalidData => CallError::bad_request(format!(
            "the form has no part, or a part whose headers have more than {MOST_HEAD} bytes"
        )),
        _ => CallError::bad_request("the body broke off"),
    }
}

fn of_form(error: multer::Error) -> CallError {
    if let multer::Error::StreamReadFailed(source) = error {
        return match source.downcast::<io::Error>() {
            Ok(source) => broken(*source),
            Err(_) => CallError::bad_request("the body broke off"),
        };
    }
    CallError::bad_request(format!("the body is not readable multipart/form-data: {error}"))
}

/// Decodes a header's text: UTF-8, with `%XX` escapes.
fn percent_decoded(bytes: &[u8]) -> String {
    percent_decode(bytes).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::error::Error;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use model::error::ErrorCode;
    use salvo::hyper::body::{Body, Frame};

    use super::*;

    /// A body that never ends: a beginning, and then the same chunk again and again.
    struct Endless {
        begin: Option<Bytes>,
        rest: Bytes,
    }

    impl Body for Endless {
        type Data = Bytes;
        type Error = Box<dyn Error + Send + Sync>;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let piece = self.begin.take().unwrap_or_else(|| self.rest.clone());
            Poll::Ready(Some(Ok(Frame::data(piece))))
        }
    }

    fn arriving(begin: &'static str, rest: Vec<u8>) -> Arriving {
        let body = Endless { begin: Some(Bytes::from_static(begin.as_bytes())), rest: rest.into() };
        Arriving::new(ReqBody::Boxed { inner: Box::pin(body), fuse_config: None })
    }

    #[tokio::test]
    async fn no_more_is_held_of_a_form_that_never_comes_to_a_part_than_a_head_may_have() {
        const PIECE: usize = 4096;
        let begins = ["", "\r\n--other\r\n", "--b\r\nContent-Disposition: form-data; name=\"file\"\r\nX-Long: "];
        for begin in begins {
            let arriving = arriving(begin, vec![b'x'; PIECE]);
            let mut form = Multipart::new(arriving.yielding(), "b");
            let refused = next_part(&mut form, &arriving).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::BadRequest, "{begin:?}");
            assert!(arriving.arrived() <= MOST_HEAD + 2 * PIECE as u64, "{begin:?}: {}", arriving.arrived());
        }
    }

    #[tokio::test]
    async fn a_part_may_be_much_longer_than_its_head_and_the_next_head_has_its_own_bound() {
        let begin = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
        let next = [vec![b'x'; 3 * MOST_HEAD as usize], format!("\r\n{begin}").into_bytes()].concat();
        let arriving = arriving(begin, next);
        let mut form = Multipart::new(arriving.yielding(), "b");
        for _ in 0..3 {
            let mut part = next_part(&mut form, &arriving).await.unwrap().unwrap();
            let mut length = 0;
            while let Some(piece) = piece(&mut part, &arriving).await.unwrap() {
                length += piece.len() as u64;
            }
            assert_eq!(length, 3 * MOST_HEAD);
        }
    }

    #[test]
    fn a_name_in_a_header_may_be_escaped() {
        assert_eq!(percent_decoded(b"a.png"), "a.png");
        assert_eq!(percent_decoded(b"Gr%C3%B6%C3%9Fe.pdf"), "Größe.pdf");
        assert_eq!(percent_decoded("Größe.pdf".as_bytes()), "Größe.pdf");
        assert_eq!(percent_decoded(b"100%.txt"), "100%.txt");
    }

    #[test]
    fn a_body_that_dribbles_is_given_up_and_one_that_is_just_fast_enough_is_taken() {
        let since = Instant::now();
        // How many seconds a body with this many bytes per second is accepted.
        let given_up_after = |bytes: u64| {
            let second = |n: u64| since + Duration::from_secs(n);
            (1..=WHOLE.as_secs()).find(|n| too_slow_from(since, bytes * (n - 1)) < second(*n))
        };
        assert_eq!(given_up_after(SLOWEST), None);
        // Such a body falls behind by a fifth of a second per second, and has ten seconds of grace.
        assert_eq!(given_up_after(SLOWEST * 4 / 5 + 1), Some(47));
        assert_eq!(given_up_after(1), Some(11));
        assert_eq!(given_up_after(0), Some(11));
    }

    #[test]
    fn only_a_form_is_a_form() {
        assert!(is_form("multipart/form-data; boundary=x") && is_form("Multipart/Form-Data"));
        assert!(!is_form("image/png") && !is_form("multipart/mixed; boundary=x"));
    }
}
