//! The size of a request's head over HTTP/2. Over HTTP/1.1 the server bounds it while it reads, and its refusal is
//! exchanged on its way out (`listener::refusal`); over HTTP/2 a refusal of the server's own has no body that could be.

use model::error::{CallError, ErrorCode};
use salvo::Request;
use salvo::http::Version;

/// What the headers of a request, its path among them, may have together, in bytes as HTTP/2 counts them. A connection
/// has up to 200 of them at a time.
const MOST_HEAD: usize = 32 * 1024;

const TOO_LONG: &str = "the path and its query have more than 32 KiB, the most over HTTP/2";
const TOO_LARGE: &str = "the headers have more than 32 KiB with the path, the most over HTTP/2";

/// Up to so much is read over HTTP/2, so that what is too large is answered here.
pub const MOST_HTTP2_LIST: u32 = 256 * 1024;

/// What HTTP/2 adds to each header (RFC 9113, section 6.5.2).
const OF_EACH: usize = 32;

/// # Errors
/// `uri_too_long` or `headers_too_large`.
pub fn judge(request: &Request) -> Result<(), CallError> {
    if request.version() != Version::HTTP_2 {
        return Ok(());
    }
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let of_headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + OF_EACH);
    let headers: usize = of_headers.sum();
    if path > MOST_HEAD {
        return Err(CallError::new(ErrorCode::UriTooLong, TOO_LONG));
    }
    if path + headers > MOST_HEAD {
        return Err(CallError::new(ErrorCode::HeadersTooLarge, TOO_LARGE));
    }
    Ok(())
}
