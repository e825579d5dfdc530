//! `GET /v1/media/{token}`: bytes for whoever holds a link. Only the address's bucket counts it.

use model::error::CallError;
use salvo::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, ETAG,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo::http::{HeaderValue, Method, StatusCode};
use shard::media::record::MediaRow;
use shard::media::sniff;

use super::range::{Wanted, wanted};
use crate::error::ApiError;
use crate::failure;
use crate::reply::{Outcome, Reply};
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
    let (status, range) = match wanted(call.http.headers(), &etag, size) {
        Wanted::NotModified => return Ok(shared(Reply::empty(StatusCode::NOT_MODIFIED))),
        Wanted::OutOfRange => {
            let message = format!("the range lies outside of the {size} bytes");
            let envelope = ApiError::from(CallError::bad_request(message)).envelope(&call.request_id.0);
            let reply = Reply::json(StatusCode::RANGE_NOT_SATISFIABLE, &envelope);
            return Ok(reply.with(CONTENT_RANGE, value(&format!("bytes */{size}"))));
        }
        Wanted::Whole => (StatusCode::OK, 0..size),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
    };
    let served_as = served_type(&row);
    let mut reply = if *call.http.method() == Method::HEAD {
        Reply::empty(status).typed(value(served_as))
    } else {
        let bytes = media.open(&row, Some(range.clone())).await?;
        Reply::stream(status, value(served_as), bytes)
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

/// What a browser would run is served as plain bytes.
fn served_type(row: &MediaRow) -> &str {
    if sniff::is_active(&row.mime_type) { sniff::UNKNOWN } else { &row.mime_type }
}

/// Pictures, sound and film are shown; all else is saved.
fn disposition(mime_type: &str, filename: Option<&str>) -> String {
    let kind = sniff::essence(mime_type).split('/').next().unwrap_or_default().to_ascii_lowercase();
    let shown = matches!(kind.as_str(), "image" | "audio" | "video");
    let disposition = if shown { "inline" } else { "attachment" };
    match filename {
        Some(filename) => format!("{disposition}; filename*=UTF-8''{}", percent_encoded(filename)),
        None => disposition.to_owned(),
    }
}

/// All but the characters of RFC 8187 that need no escape.
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

/// A header made of visible ASCII; what were not is left empty rather than break the answer.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

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
