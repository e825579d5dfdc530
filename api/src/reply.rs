//! The result of a handler, and how it becomes a response.

use bytes::Bytes;
use futures::stream::BoxStream;
use model::error::CallError;
use model::id::RequestId;
use model::page::Room;
use salvo::Response;
use salvo::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, STRICT_TRANSPORT_SECURITY, VARY,
    WWW_AUTHENTICATE, X_FRAME_OPTIONS,
};
use salvo::http::{HeaderName, HeaderValue, ResBody, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{envelope, status_of};

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const NO_DEVICES: HeaderValue = HeaderValue::from_static("camera=(), microphone=(), geolocation=(), usb=()");

/// HSTS: for a year, browsers must not use the port without TLS.
pub const HTTPS_ALONE: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The result of a handler. An error becomes the common error envelope.
pub type Outcome = Result<Reply, CallError>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A body that is produced in chunks.
pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

enum Body {
    None,
    Whole(Bytes),
    Stream(ByteStream),
}

/// A successful response: status, body and additional headers.
pub struct Reply {
    pub status: StatusCode,
    content_type: Option<HeaderValue>,
    body: Body,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    /// 200, for a read, or for an update with the resource.
    pub fn ok<T: Serialize>(body: &T) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// 201, for a created resource.
    pub fn created<T: Serialize>(body: &T) -> Self {
        Self::json(StatusCode::CREATED, body)
    }

    /// 202, for something that was started.
    pub fn accepted<T: Serialize>(body: &T) -> Self {
        Self::json(StatusCode::ACCEPTED, body)
    }

    /// 204, for a change without anything to show.
    pub fn no_content() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    /// A status without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, content_type: None, body: Body::None, headers: Vec::new() }
    }

    /// A body that is read as the client takes it.
    pub fn stream(status: StatusCode, content_type: HeaderValue, body: ByteStream) -> Self {
        Self { content_type: Some(content_type), body: Body::Stream(body), ..Self::empty(status) }
    }

    /// Sets the content type that a `GET` of the same resource would have.
    pub fn typed(self, content_type: HeaderValue) -> Self {
        Self { content_type: Some(content_type), ..self }
    }

    /// 200 with a body that is not JSON.
    pub fn content(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { body: Body::Whole(body.into()), ..Self::empty(StatusCode::OK) }
            .typed(HeaderValue::from_static(content_type))
    }

    pub fn json<T: Serialize>(status: StatusCode, body: &T) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => Self { content_type: Some(JSON), body: Body::Whole(body.into()), ..Self::empty(status) },
            Err(error) => {
                tracing::error!(%error, "an answer could not be written as JSON");
                Self::json(StatusCode::INTERNAL_SERVER_ERROR, &envelope(&CallError::internal_error(), ""))
            }
        }
    }

    /// The error envelope, with the headers that belong to its code.
    pub fn error(error: &CallError, request_id: &RequestId) -> Self {
        let status = StatusCode::from_u16(status_of(error)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut reply = Self::json(status, &envelope(error, &request_id.0));
        if let Some(seconds) = error.retry_after {
            reply = reply.with(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            reply = reply.with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        reply
    }

    /// Length of a body that is held in memory, in bytes; 0 for streams.
    pub fn length(&self) -> usize {
        if let Body::Whole(bytes) = &self.body { bytes.len() } else { 0 }
    }

    /// Whether the body may also be requested in ranges. Such bodies are not compressed, since their length and ETag
    /// would then not be those by which clients request the rest.
    pub fn has_ranges(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == ACCEPT_RANGES)
    }

    /// Adds a header.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Forbids all caching, because the response holds a secret or is outdated within seconds.
    pub fn uncached(self) -> Self {
        self.with(CACHE_CONTROL, HeaderValue::from_static("no-store"))
    }

    /// Adds the headers of pages and their files: other origins may not frame or read them, they send no referrer, and
    /// use no devices. Browsers that know the `frame-ancestors` of a content policy ignore `X-Frame-Options`. HSTS is
    /// set by the scheme of `base_url`, since a balancer may speak TLS for the port.
    pub fn guarded(self, base_url: &str) -> Self {
        let reply = self
            .with(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
            .with(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
            .with(OPENER_POLICY, SAME_ORIGIN)
            .with(RESOURCE_POLICY, SAME_ORIGIN)
            .with(PERMISSIONS_POLICY, NO_DEVICES);
        if base_url.starts_with("https://") { reply.with(STRICT_TRANSPORT_SECURITY, HTTPS_ALONE) } else { reply }
    }

    /// Writes the reply into a response. The server drops the body of a `HEAD`, after it has set the length.
    pub fn write(self, response: &mut Response) {
        response.status_code(self.status);
        let headers = response.headers_mut();
        if let Some(content_type) = self.content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        for (name, value) in self.headers {
            // A response may vary by origin and by encoding. Of other headers the last value wins.
            if name == VARY {
                headers.append(name, value);
            } else {
                headers.insert(name, value);
            }
        }
        match self.body {
            Body::None => {}
            Body::Whole(bytes) => drop(response.replace_body(ResBody::Once(bytes))),
            Body::Stream(bytes) => drop(response.replace_body(ResBody::stream(bytes))),
        }
    }
}

/// Builds a view from a record: first the fields that are copied under their own names, then the computed ones. With
/// `move` the fields are moved, so values computed from the whole record must be computed before.
macro_rules! view_of {
    (move $record:ident => $($same:ident),+ $(; $($made:ident $(: $value:expr)?),+)?) => {
        Self { $($same: $record.$same,)+ $($($made $(: $value)?,)+)? }
    };
    ($record:ident => $($same:ident),+ $(; $($made:ident $(: $value:expr)?),+)?) => {
        Self { $($same: Clone::clone(&$record.$same),)+ $($($made $(: $value)?,)+)? }
    };
}

pub(crate) use view_of;

/// The object `{ "data": [...] }`, with `next_cursor` if the list is paged.
#[derive(Serialize, Deserialize)]
pub struct List<T> {
    pub data: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Option<String>>,
}

impl<T> List<T> {
    /// A list that is never paged.
    pub fn whole(data: Vec<T>) -> Self {
        Self { data, next_cursor: None }
    }

    /// A page; `next_cursor` is `null` on the last page.
    pub fn page(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { data, next_cursor: Some(next_cursor) }
    }

    /// The page of rows that begin with the page's first. There is a next page if there are more than `limit`.
    pub fn first(data: Vec<T>, limit: usize, cursor: impl FnOnce(&T) -> String) -> Self {
        Self::first_of(data, limit, None, cursor)
    }

    /// Like [`first`](Self::first), for a search that ended at `stopped_at`, where a page that is not full continues.
    pub fn first_of(
        mut data: Vec<T>,
        limit: usize,
        stopped_at: Option<String>,
        cursor: impl FnOnce(&T) -> String,
    ) -> Self {
        let more = data.len() > limit;
        data.truncate(limit);
        let next = data.last().filter(|_| more).map(cursor);
        Self::page(data, next.or(stopped_at))
    }

    /// A list without a `limit`. It has a cursor only if it is too large for one response.
    pub fn cut(mut data: Vec<T>, cursor: impl FnOnce(&T) -> String) -> Self
    where
        T: Serialize,
    {
        let next = cut(&mut data, usize::MAX, false, cursor);
        Self { data, next_cursor: next.map(Some) }
    }

    /// The same list, with its rows mapped.
    pub fn map<U>(self, show: impl FnMut(T) -> U) -> List<U> {
        List { data: self.data.into_iter().map(show).collect(), next_cursor: self.next_cursor }
    }
}

/// Truncates rows to what one response holds, at most `limit`. Returns the cursor of the last remaining row, if rows
/// were cut off or `more` follow.
pub fn cut<T: Serialize>(
    data: &mut Vec<T>,
    limit: usize,
    more: bool,
    cursor: impl FnOnce(&T) -> String,
) -> Option<String> {
    let fitting = Room::of_page().rows(&data[..data.len().min(limit)]);
    let more = more || fitting < data.len();
    data.truncate(fitting);
    data.last().filter(|_| more).map(cursor)
}

/// A whole list, and the number of its rows.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Counted{T}")]
pub struct Counted<T> {
    pub data: Vec<T>,
    pub count: usize,
    /// The `cursor` of the next page; absent unless the list is too large for one response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A page of a list, and the number of rows in the whole list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CountedPageOf{T}")]
pub struct CountedPage<T> {
    pub data: Vec<T>,
    pub count: usize,
    /// The `cursor` of the next page; `null` at the end.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use model::limit::LimitScope;

    #[test]
    fn an_error_says_when_to_come_back_and_how_to_authenticate() {
        let request_id = RequestId("req_1".into());
        let reply = Reply::error(&CallError::rate_limited(LimitScope::Ip, 30, 2), &request_id);
        let mut response = Response::new();
        reply.write(&mut response);
        assert_eq!(response.status_code, Some(StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(response.headers()["retry-after"], "2");

        let mut response = Response::new();
        Reply::error(&CallError::auth_missing(), &request_id).write(&mut response);
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
    }

    #[test]
    fn an_answer_says_all_that_it_varies_by() {
        let by = HeaderValue::from_static;
        let reply = Reply::empty(StatusCode::OK).with(VARY, by("Accept-Encoding")).with(VARY, by("Origin"));
        let mut response = Response::new();
        reply.write(&mut response);
        let varies: Vec<&str> = response.headers().get_all(VARY).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(varies, ["Accept-Encoding", "Origin"]);
    }

    #[test]
    fn a_list_that_is_not_paged_bears_a_cursor_where_it_is_too_large_for_one_answer() {
        let list = |rows: usize| List::cut(vec!["x".repeat(1024 * 1024); rows], |row| row.len().to_string());
        let small = list(3);
        assert_eq!((small.data.len(), small.next_cursor), (3, None));
        let large = list(5);
        assert_eq!((large.data.len(), large.next_cursor), (3, Some(Some("1048576".to_owned()))));
    }

    #[test]
    fn only_pages_bear_a_cursor() {
        let text = |list: List<u8>| serde_json::to_string(&list).unwrap();
        assert_eq!(text(List::whole(vec![1])), r#"{"data":[1]}"#);
        assert_eq!(text(List::page(vec![1], None)), r#"{"data":[1],"next_cursor":null}"#);
        assert_eq!(text(List::page(vec![1], Some("x".into()))), r#"{"data":[1],"next_cursor":"x"}"#);
    }
}
