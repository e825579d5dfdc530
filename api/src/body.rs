//! Reading a JSON body: its type, its size, its shape.

use std::time::Duration;

use model::error::{ApiError, JSON_LIMIT_BYTES};
use model::field;
use salvo::Request;
use salvo::http::ParseError;
use salvo::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::{Map, Value};

/// How long a body may take to arrive. A client that dribbles holds a connection, not a worker, but not for ever.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The body as a JSON object.
///
/// # Errors
/// `bad_request` for another content type or unreadable JSON, `payload_too_large` above 1 MiB (of which no more is
/// read), `invalid_request` for JSON that is no object.
pub async fn object(request: &mut Request) -> Result<Map<String, Value>, ApiError> {
    if !is_json(request) {
        return Err(ApiError::bad_request("send a JSON body with the header Content-Type: application/json"));
    }
    field::parse_object(bytes(request).await?)
}

/// The body as a JSON object, or an empty one when there is no body at all.
///
/// # Errors
/// As [`object`].
pub async fn optional_object(request: &mut Request) -> Result<Map<String, Value>, ApiError> {
    let may_be_empty = is_json(request) || !request.headers().contains_key(CONTENT_TYPE);
    if may_be_empty && bytes(request).await?.is_empty() {
        return Ok(Map::new());
    }
    object(request).await
}

fn is_json(request: &Request) -> bool {
    let text = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.is_some_and(is_json_type)
}

/// `application/json`, with or without parameters.
fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

async fn bytes(request: &mut Request) -> Result<&[u8], ApiError> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > JSON_LIMIT_BYTES) {
        return Err(ApiError::payload_too_large());
    }
    let limit = usize::try_from(JSON_LIMIT_BYTES).unwrap_or(usize::MAX);
    match tokio::time::timeout(ARRIVAL_TIMEOUT, request.payload_with_max_size(limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(ParseError::PayloadTooLarge)) => Err(ApiError::payload_too_large()),
        Ok(Err(_)) => Err(ApiError::bad_request("the body broke off")),
        Err(_) => Err(ApiError::bad_request("the body did not arrive in 30 seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
