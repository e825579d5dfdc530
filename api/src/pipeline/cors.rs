//! CORS: lets browser scripts of the configured origins read responses. Off unless origins are configured.
//!
//! Credentials are bearer tokens, which a browser never adds by itself, so no response allows credentials.

use salvo::Request;
use salvo::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use salvo::http::{HeaderValue, Method, StatusCode};

use crate::config::CorsOrigins;
use crate::reply::Reply;
use crate::route::PathRoutes;

/// Response headers that scripts may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Scope, Retry-After, ETag, \
     X-Gateway-Restart-Required",
);

/// Request headers that scripts may send.
const ACCEPTED: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, Range, X-Filename, X-Request-Id",
);

/// How long a browser may cache the response to a preflight, in seconds: a changed configuration takes effect soon.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

impl CorsOrigins {
    /// Decides which CORS headers the responses to this request get. An allowed origin is echoed.
    pub fn judge(&self, request: &Request) -> Judgement {
        let origin = request.headers().get(ORIGIN);
        let allowed = match self {
            Self::Nobody => return Judgement { varies: false, allowed: None },
            Self::Anybody => origin.map(|_| HeaderValue::from_static("*")),
            Self::These(origins) => {
                origin.filter(|origin| origins.iter().any(|known| known.as_bytes() == origin.as_bytes())).cloned()
            }
        };
        Judgement { varies: matches!(self, Self::These(_)), allowed }
    }
}

/// The CORS decision for one request.
pub struct Judgement {
    /// Whether the response depends on the origin, so that caches must store one per origin.
    varies: bool,
    allowed: Option<HeaderValue>,
}

impl Judgement {
    /// The response to a preflight request from an allowed origin; `None` for every other request.
    pub fn preflight(&self, request: &Request, paths: &PathRoutes) -> Option<Reply> {
        let asks = request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !asks || self.allowed.is_none() {
            return None;
        }
        let methods = HeaderValue::from_str(&paths.allowed()).ok()?;
        let reply = Reply::empty(StatusCode::NO_CONTENT)
            .with(ACCESS_CONTROL_ALLOW_METHODS, methods)
            .with(ACCESS_CONTROL_ALLOW_HEADERS, ACCEPTED)
            .with(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        Some(reply)
    }

    /// Adds the CORS headers to a response.
    pub fn write(self, mut reply: Reply) -> Reply {
        if self.varies {
            reply = reply.with(VARY, HeaderValue::from_static("Origin"));
        }
        match self.allowed {
            Some(origin) => {
                reply.with(ACCESS_CONTROL_ALLOW_ORIGIN, origin).with(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED)
            }
            None => reply,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn only_an_origin_that_is_configured_letter_for_letter_is_allowed() {
        let these = CorsOrigins::These(vec!["https://app.example.com".to_owned()]);
        let table = [
            (&CorsOrigins::Nobody, Some("https://app.example.com"), None, false),
            (&CorsOrigins::Anybody, Some("https://any.example"), Some("*"), false),
            (&CorsOrigins::Anybody, None, None, false),
            (&these, Some("https://app.example.com"), Some("https://app.example.com"), true),
            (&these, Some("https://app.example.com.evil.example"), None, true),
            (&these, Some("http://app.example.com"), None, true),
            (&these, Some("null"), None, true),
            (&these, None, None, true),
        ];
        for (origins, origin, allowed, varies) in table {
            let mut request = Request::new();
            if let Some(origin) = origin {
                request.headers_mut().insert(ORIGIN, origin.parse().unwrap());
            }
            let judged = origins.judge(&request);
            let told = judged.allowed.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!((told, judged.varies), (allowed, varies), "{origins:?} {origin:?}");
        }
    }
}
