//! Bounds the size of a request's head over HTTP/2, and the number of query parameters over both versions.
//!
//! Over HTTP/1.1 the server bounds the head while it reads, and its refusal is replaced on its way out
//! (`listener::refusal`). Over HTTP/2 the server's own refusal has no body that could be replaced, so the bound is
//! checked here.

use model::error::{CallError, ErrorCode};
use model::issue::{IssueCode, Violation};
use salvo::Request;
use salvo::http::Version;

/// The longest head, in bytes as HTTP/2 counts them, with the path. A connection has up to 200 heads at a time.
const MOST_HEAD: usize = 32 * 1024;

const TOO_LONG: &str = "the path and its query have more than 32 KiB, the most over HTTP/2";
const TOO_LARGE: &str = "the headers have more than 32 KiB with the path, the most over HTTP/2";

/// The HTTP/2 server's limit, above [`MOST_HEAD`]: an oversized head arrives here and gets an error body.
pub const MOST_HTTP2_LIST: u32 = 256 * 1024;

/// Overhead that HTTP/2 counts for each header (RFC 9113, section 6.5.2).
const OF_EACH: usize = 32;

/// The most parameters of a query, several times what the longest lists of the interface need. A parameter, however
/// short, takes hundreds of bytes of memory for as long as its request lasts.
const MOST_PARAMETERS: usize = 1_000;

/// Checks the number of query parameters and, over HTTP/2, the size of the head.
///
/// # Errors
/// `uri_too_long` or `headers_too_large`; `invalid_request` for too many parameters.
pub fn judge(request: &Request) -> Result<(), CallError> {
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').count() > MOST_PARAMETERS {
        let message = format!("at most {MOST_PARAMETERS} parameters");
        return Err(Violation::new(IssueCode::TooMany, message).at(&["query"]));
    }
    if request.version() != Version::HTTP_2 {
        return Ok(());
    }
    let uri = request.uri();
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    // HTTP/2 sends the method and the host as headers, like the path.
    let first_line = request.method().as_str().len() + uri.authority().map_or(0, |host| host.as_str().len());
    let of_headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + OF_EACH);
    let headers: usize = of_headers.sum::<usize>() + first_line;
    if path > MOST_HEAD {
        return Err(CallError::new(ErrorCode::UriTooLong, TOO_LONG));
    }
    if path + headers > MOST_HEAD {
        return Err(CallError::new(ErrorCode::HeadersTooLarge, TOO_LARGE));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use salvo::http::{HeaderValue, Method};

    use super::*;

    #[test]
    fn a_query_has_so_many_parameters_over_either_version() {
        let judged = |version, parameters: usize| {
            let mut request = Request::new();
            *request.version_mut() = version;
            request.set_uri(format!("/v1/channels?{}", vec!["a"; parameters].join("&")).parse().unwrap());
            judge(&request).map_err(|error| error.code)
        };
        for version in [Version::HTTP_11, Version::HTTP_2] {
            assert_eq!(judged(version, MOST_PARAMETERS), Ok(()));
            assert_eq!(judged(version, MOST_PARAMETERS + 1), Err(ErrorCode::InvalidRequest));
        }
    }

    #[test]
    fn all_that_stands_in_the_head_of_a_request_over_http2_counts() {
        let judged = |version, [method, host, path, header]: [usize; 4]| {
            let mut request = Request::new();
            *request.version_mut() = version;
            *request.method_mut() = Method::from_bytes("M".repeat(method).as_bytes()).unwrap();
            request.set_uri(format!("https://{}/{}", "h".repeat(host), "p".repeat(path)).parse().unwrap());
            request.headers_mut().insert("x-long", HeaderValue::from_str(&"v".repeat(header)).unwrap());
            judge(&request).map_err(|error| error.code)
        };
        const LONG: usize = MOST_HEAD + 1;
        let too_large = Err(ErrorCode::HeadersTooLarge);
        assert_eq!(judged(Version::HTTP_2, [3, 9, 9, 9]), Ok(()));
        assert_eq!(judged(Version::HTTP_2, [LONG, 9, 9, 9]), too_large);
        assert_eq!(judged(Version::HTTP_2, [3, LONG, 9, 9]), too_large);
        assert_eq!(judged(Version::HTTP_2, [3, 9, LONG, 9]), Err(ErrorCode::UriTooLong));
        assert_eq!(judged(Version::HTTP_2, [3, 9, 9, LONG]), too_large);
        assert_eq!(judged(Version::HTTP_11, [LONG, 9, 9, LONG]), Ok(()), "the server bounds it");
    }
}
