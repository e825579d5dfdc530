//! Conditional and range requests (RFC 9110, sections 13 and 14).

use std::ops::Range;

use salvo::http::header::{IF_NONE_MATCH, IF_RANGE, RANGE};
use salvo::http::{HeaderMap, Method};

/// The response that a request gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// 304: the client's copy is current.
    NotModified,
    /// 200.
    Whole,
    /// 206.
    Part(Range<u64>),
    /// 416.
    OutOfRange,
}

/// Decides the response to a request for `size` bytes with this `etag` (including its quotes).
pub fn wanted(method: &Method, headers: &HeaderMap, etag: &str, size: u64) -> Wanted {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let names_it =
        |list: &str| list.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag);
    if text(IF_NONE_MATCH).is_some_and(names_it) {
        return Wanted::NotModified;
    }
    // Only `GET` has ranges; `HEAD` asks for the size of the whole.
    if method != Method::GET {
        return Wanted::Whole;
    }
    // A range of other bytes would be worse than the whole. A date in `If-Range` never matches: it names no bytes.
    if text(IF_RANGE).is_some_and(|tag| tag.trim() != etag) {
        return Wanted::Whole;
    }
    text(RANGE).map_or(Wanted::Whole, |range| part(range, size))
}

/// Parses a single byte range. Several ranges or another unit get the whole, which RFC 9110 allows.
fn part(range: &str, size: u64) -> Wanted {
    let Some((first, last)) = range.trim().strip_prefix("bytes=").and_then(|range| range.trim().split_once('-')) else {
        return Wanted::Whole;
    };
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(Some(digits.parse().unwrap_or(u64::MAX))),
        _ => None,
    };
    let (start, end) = match (number(first), number(last)) {
        (Some(Some(first)), Some(Some(last))) if first <= last => (first, last.saturating_add(1).min(size)),
        (Some(Some(first)), Some(None)) => (first, size),
        (Some(None), Some(Some(last))) => (size.saturating_sub(last), size),
        _ => return Wanted::Whole,
    };
    if start < end { Wanted::Part(start..end) } else { Wanted::OutOfRange }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use salvo::http::HeaderValue;

    use super::*;

    fn asked(headers: &[(salvo::http::HeaderName, &str)]) -> Wanted {
        asked_by(&Method::GET, headers)
    }

    fn asked_by(method: &Method, headers: &[(salvo::http::HeaderName, &str)]) -> Wanted {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name, HeaderValue::from_str(value).unwrap());
        }
        wanted(method, &map, "\"abc\"", 100)
    }

    #[test]
    fn one_range_is_served_and_what_is_none_is_ignored() {
        let table = [
            ("bytes=0-9", Wanted::Part(0..10)),
            ("bytes=90-", Wanted::Part(90..100)),
            ("bytes=-10", Wanted::Part(90..100)),
            ("bytes=-1000", Wanted::Part(0..100)),
            ("bytes=99-500", Wanted::Part(99..100)),
            ("bytes=0-99999999999999999999999", Wanted::Part(0..100)),
            ("bytes=100-", Wanted::OutOfRange),
            ("bytes=100-200", Wanted::OutOfRange),
            ("bytes=-0", Wanted::OutOfRange),
            ("bytes=9-0", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
        ];
        for (range, expected) in table {
            assert_eq!(asked(&[(RANGE, range)]), expected, "{range}");
        }
    }

    #[test]
    fn a_tag_that_fits_needs_no_bytes() {
        for tag in ["\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "*"] {
            assert_eq!(asked(&[(IF_NONE_MATCH, tag), (RANGE, "bytes=0-1")]), Wanted::NotModified, "{tag}");
        }
        assert_eq!(asked(&[(IF_NONE_MATCH, "\"x\"")]), Wanted::Whole);
    }

    #[test]
    fn a_head_is_of_the_whole_whatever_part_it_names() {
        for range in ["bytes=0-9", "bytes=100-"] {
            assert_eq!(asked_by(&Method::HEAD, &[(RANGE, range)]), Wanted::Whole, "{range}");
        }
        assert_eq!(asked_by(&Method::HEAD, &[(IF_NONE_MATCH, "\"abc\"")]), Wanted::NotModified);
    }

    #[test]
    fn a_part_of_other_bytes_is_not_served() {
        assert_eq!(asked(&[(IF_RANGE, "\"abc\""), (RANGE, "bytes=0-0")]), Wanted::Part(0..1));
        for other in ["\"x\"", "W/\"abc\"", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(asked(&[(IF_RANGE, other), (RANGE, "bytes=0-0")]), Wanted::Whole, "{other}");
        }
    }
}
