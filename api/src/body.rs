//! Reads JSON bodies, and checks their type and size.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use model::error::{CallError, JSON_LIMIT_BYTES};
use salvo::Request;
use salvo::http::header::CONTENT_TYPE;
use salvo::hyper::body::Frame;
use shard::media::sniff::essence;

/// Timeout for the arrival of a body. A slow client holds only a connection, but may not hold it forever.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the arrival of a channel's session of up to 48 MiB. `gateway channel import` waits two minutes in all.
const OCTETS_TIMEOUT: Duration = Duration::from_secs(90);

/// The largest JSON body of an unauthenticated caller, such as one that logs in. A thousand slow ones hold 16 MiB. The
/// longest useful body has a refresh token of 8 KiB.
pub const STRANGERS_LIMIT_BYTES: u64 = 16 * 1024;

/// How many bytes of a body that is too large are read and discarded. Most clients send the whole body before they
/// read, and would see a broken connection instead of the response. A body beyond this is cut off.
pub const DISCARDED_BYTES: u64 = 16 * JSON_LIMIT_BYTES;

/// Reads a JSON body of at most `limit` bytes.
///
/// # Errors
/// `bad_request` for another content type or a late body, `payload_too_large` for more bytes (which are not kept).
pub async fn json(request: &mut Request, limit: u64) -> Result<Bytes, CallError> {
    require_json(request)?;
    bytes(request, limit, ARRIVAL_TIMEOUT).await
}

/// Like [`json`], but `None` for an empty body of any content type: many clients name a type for those, too.
///
/// # Errors
/// As [`json`].
pub async fn optional_json(request: &mut Request, limit: u64) -> Result<Option<Bytes>, CallError> {
    let bytes = bytes(request, limit, ARRIVAL_TIMEOUT).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    require_json(request)?;
    Ok(Some(bytes))
}

/// Reads a body of any content type, of at most `limit` bytes.
///
/// # Errors
/// As [`json`], except for the content type.
pub async fn octets(request: &mut Request, limit: u64) -> Result<Bytes, CallError> {
    bytes(request, limit, OCTETS_TIMEOUT).await
}

fn require_json(request: &Request) -> Result<(), CallError> {
    let text = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let advice = "send a JSON body with the header Content-Type: application/json";
    text.filter(|text| is_json_type(text)).map(drop).ok_or_else(|| CallError::bad_request(advice))
}

/// Matches `application/json`, with or without parameters.
fn is_json_type(content_type: &str) -> bool {
    essence(content_type).eq_ignore_ascii_case("application/json")
}

async fn bytes(request: &mut Request, limit: u64, within: Duration) -> Result<Bytes, CallError> {
    let body = request.take_body();
    match tokio::time::timeout(within, read(body, limit)).await {
        Ok(read) => read,
        Err(_) => Err(CallError::bad_request(format!("the body did not arrive in {} seconds", within.as_secs()))),
    }
}

async fn read<E>(
    mut body: impl Stream<Item = Result<Frame<Bytes>, E>> + Unpin,
    limit: u64,
) -> Result<Bytes, CallError> {
    let mut kept = BytesMut::new();
    let mut arrived = 0;
    while let Some(frame) = body.next().await {
        let frame = frame.map_err(|_| CallError::bad_request("the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        arrived += data.len() as u64;
        if arrived <= limit {
            kept.extend_from_slice(&data);
        } else {
            kept = BytesMut::new();
        }
        if arrived > limit.max(DISCARDED_BYTES) {
            break;
        }
    }
    if arrived <= limit { Ok(kept.freeze()) } else { Err(CallError::payload_too_large_over(limit)) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use model::error::{ErrorCode, SEND_LIMIT_BYTES};
    use salvo::http::ReqBody;

    #[tokio::test]
    async fn a_body_is_kept_up_to_its_limit_and_no_further() {
        for limit in [STRANGERS_LIMIT_BYTES, JSON_LIMIT_BYTES, SEND_LIMIT_BYTES] {
            let of = |bytes: u64| ReqBody::Once(vec![b'x'; usize::try_from(bytes).unwrap()].into());
            assert_eq!(read(of(limit), limit).await.unwrap().len() as u64, limit);
            let refused = read(of(limit + 1), limit).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::PayloadTooLarge);
            assert_eq!(refused.details.unwrap()["limit_bytes"], limit);
        }
        let large = 3 * DISCARDED_BYTES;
        let pieces =
            (0..large / JSON_LIMIT_BYTES).map(|_| Frame::data(Bytes::from(vec![b'x'; JSON_LIMIT_BYTES as usize])));
        let body = futures::stream::iter(pieces.map(Ok::<_, std::io::Error>));
        assert_eq!(read(body, large).await.unwrap().len() as u64, large, "what is taken is read to its end");
        assert!(read(ReqBody::None, JSON_LIMIT_BYTES).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_body_of_no_bytes_is_none_whatever_its_type() {
        let read = async |kind: &'static str, body: &'static str| {
            let mut request = Request::new();
            request.headers_mut().insert(CONTENT_TYPE, kind.parse().unwrap());
            *request.body_mut() = ReqBody::Once(body.into());
            optional_json(&mut request, JSON_LIMIT_BYTES).await.map_err(|error| error.code)
        };
        let form = "application/x-www-form-urlencoded";
        assert_eq!(read(form, "").await, Ok(None));
        assert_eq!(read("application/json", "").await, Ok(None));
        assert_eq!(read("application/json", "{}").await, Ok(Some("{}".into())));
        assert_eq!(read(form, "reason=x").await, Err(ErrorCode::BadRequest));
    }

    #[test]
    fn only_json_is_json() {
        for text in ["application/json", "application/json; charset=utf-8", "Application/JSON ;x=y"] {
            assert!(is_json_type(text), "{text}");
        }
        for text in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
            assert!(!is_json_type(text), "{text}");
        }
    }
}
