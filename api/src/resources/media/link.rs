//! `GET /v1/media/{token}`: serves bytes to holders of a link. Charges only the bucket of the client's address.

use futures::{StreamExt, stream};
use model::error::CallError;
use salvo::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, ETAG,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo::http::{HeaderValue, Method, StatusCode};
use shard::media::sniff;
use shard::shares::Share;

use super::range::{Wanted, wanted};
use crate::error::envelope;
use crate::failure;
use crate::reply::{ByteStream, Outcome, Reply};
use crate::request_context::RequestContext;

pub async fn serve(call: &mut RequestContext) -> Outcome {
    let media = call.cluster().media();
    let token = media.read_token(call.parameter("token"))?;
    let row = call.cluster().linked_media(&token, &call.context()).await?;
    call.recognise(Some(row.customer));
    let (Some(sha256), Some(size)) = (row.kept(), row.size) else {
        return Err(failure::internal("media is ready without bytes", &row.id));
    };
    let etag = format!("\"{}\"", sha256.0);
    let max_age = token.expires_at().since(call.now).as_secs();
    let shared = |reply: Reply| {
        let reply = reply.with(CACHE_CONTROL, value(&format!("private, max-age={max_age}")));
        reply.with(ETAG, value(&etag)).with(ACCEPT_RANGES, HeaderValue::from_static("bytes"))
    };
    let (status, range) = match wanted(call.http.method(), call.http.headers(), &etag, size) {
        Wanted::NotModified => return Ok(shared(Reply::empty(StatusCode::NOT_MODIFIED))),
        Wanted::OutOfRange => {
            let message = format!("the range lies outside of the {size} bytes");
            let body = envelope(&CallError::bad_request(message), &call.request_id.0);
            let reply = Reply::json(StatusCode::RANGE_NOT_SATISFIABLE, &body);
            return Ok(reply.with(CONTENT_RANGE, value(&format!("bytes */{size}"))));
        }
        Wanted::Whole => (StatusCode::OK, 0..size),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
    };
    let served_as = served_type(&row.mime_type);
    let mut reply = if *call.http.method() == Method::HEAD {
        Reply::empty(status).typed(value(served_as))
    } else {
        let place = call.app.readers.try_take(row.customer).ok_or_else(CallError::worker_at_capacity)?;
        let bytes = media.open(&row, Some(range.clone())).await?;
        Reply::stream(status, value(served_as), with_place(bytes, place))
    };
    if status == StatusCode::PARTIAL_CONTENT {
        reply = reply.with(CONTENT_RANGE, value(&format!("bytes {}-{}/{size}", range.start, range.end - 1)));
    }
    Ok(shared(reply)
        .with(CONTENT_LENGTH, (range.end - range.start).into())
        .with(CONTENT_DISPOSITION, value(&disposition(served_as, row.filename.as_deref())))
        .with(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
        .with(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"))
        .with(REFERRER_POLICY, HeaderValue::from_static("no-referrer")))
}

/// Ties the permit of a reader to the bytes, until they end or are dropped.
fn with_place(bytes: ByteStream, place: Share) -> ByteStream {
    let next = |(mut bytes, place): (ByteStream, Share)| async move {
        let piece = bytes.next().await?;
        Some((piece, (bytes, place)))
    };
    stream::unfold((bytes, place), next).boxed()
}

/// The served content type: plain bytes for types that a browser would run, and for invalid ones, as senders may lie.
fn served_type(mime_type: &str) -> &str {
    if sniff::is_active(mime_type) || !sniff::is_mime_type(mime_type) { sniff::UNKNOWN } else { mime_type }
}

/// The `Content-Disposition`. Pictures, audio and video are shown; everything else is saved.
fn disposition(mime_type: &str, filename: Option<&str>) -> String {
    let kind = sniff::essence(mime_type).split('/').next().unwrap_or_default().to_ascii_lowercase();
    let shown = matches!(kind.as_str(), "image" | "audio" | "video");
    let disposition = if shown { "inline" } else { "attachment" };
    match filename {
        Some(filename) => format!("{disposition}; filename*=UTF-8''{}", percent_encoded(filename)),
        None => disposition.to_owned(),
    }
}

/// Escapes all characters except those that RFC 8187 allows.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A header value of visible ASCII; empty for other text, so that the response does not fail.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use bytes::Bytes;
    use model::id::CustomerId;
    use shard::shares::Shares;

    use super::*;

    #[tokio::test]
    async fn a_reader_has_a_place_until_it_reads_no_more() {
        let (readers, account) = (Shares::new(1, 1), CustomerId::random());
        let place = readers.try_take(account).unwrap();
        let bytes = stream::iter(["a", "b"].map(|piece| Ok(Bytes::from_static(piece.as_bytes())))).boxed();
        let mut bytes = with_place(bytes, place);
        assert_eq!(bytes.next().await.unwrap().unwrap(), "a");
        assert!(readers.try_take(account).is_none());
        drop(bytes);
        assert!(readers.try_take(account).is_some());
    }

    #[test]
    fn bytes_are_served_under_a_type_that_is_one_and_runs_nothing() {
        let table = [
            ("audio/ogg; codecs=opus", "audio/ogg; codecs=opus"),
            ("Text/HTML", sniff::UNKNOWN),
            ("größe/pdf", sniff::UNKNOWN),
            ("pdf", sniff::UNKNOWN),
            ("", sniff::UNKNOWN),
        ];
        for (declared, served) in table {
            assert_eq!(served_type(declared), served, "{declared}");
        }
    }

    #[test]
    fn only_what_can_be_shown_is_shown() {
        let table = [
            ("image/png", Some("a b.png"), "inline; filename*=UTF-8''a%20b.png"),
            ("Audio/ogg; codecs=opus", None, "inline"),
            ("application/pdf", Some("Größe\".pdf"), "attachment; filename*=UTF-8''Gr%C3%B6%C3%9Fe%22.pdf"),
            ("application/octet-stream", None, "attachment"),
        ];
        for (mime_type, filename, expected) in table {
            assert_eq!(disposition(mime_type, filename), expected);
        }
    }
}
