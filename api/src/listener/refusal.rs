//! Replaces the HTTP server's own refusals. The server answers them before any route runs, with a status and no body,
//! and offers no hook to change them. So they are recognised by their form, and replaced on their way out.

use model::error::{CallError, ErrorCode};
use model::id::RequestId;
use model::issue::{IssueCode, Violation};
use salvo::http::StatusCode;

use crate::error::{envelope, status_of};

/// The longest refusal of the server's own, in bytes.
const LONGEST: usize = 512;

/// The server's limits. Those of the path and of the number of headers are fixed in the library that parses them.
const TOO_LARGE: &str = "there are more than 100 headers, or more than 128 KiB of them with the path";
const TOO_LONG: &str = "the path and its query have more than 65,534 bytes";

/// The response to send in place of `answer`. `None` for the gateway's own responses, which have a body or a request
/// id. `in_first_line` tells that the request ended before its headers.
pub fn instead_of(answer: &[u8], in_first_line: bool) -> Option<Vec<u8>> {
    if answer.len() > LONGEST || !answer.starts_with(b"HTTP/1.1 4") || !answer.ends_with(b"\r\n\r\n") {
        return None;
    }
    let head = std::str::from_utf8(answer).ok()?.to_ascii_lowercase();
    if !head.contains("\r\ncontent-length: 0\r\n") || head.contains("\r\nx-request-id:") {
        return None;
    }
    let error = match head.get(9..12)? {
        "400" => Violation::new(IssueCode::Format, "the request is not well-formed HTTP").at(&["headers"]),
        "431" if !in_first_line => CallError::new(ErrorCode::HeadersTooLarge, TOO_LARGE),
        "414" | "431" => CallError::new(ErrorCode::UriTooLong, TOO_LONG),
        _ => return None,
    };
    Some(written(&error))
}

/// The response as bytes. It closes the connection, because nobody knows where the next request would begin.
fn written(error: &CallError) -> Vec<u8> {
    let id = RequestId::mint();
    let body = envelope(error, &id.0).to_string();
    let status = status_of(error);
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("x-request-id", id.0),
        ("content-length", body.len().to_string()),
        ("connection", "close".to_owned()),
    ];
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} {reason}\r\n{headers}\r\n{body}").into_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn bare(status: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n").into_bytes()
    }

    #[test]
    fn a_refusal_of_the_servers_own_gets_the_envelope() {
        let table = [
            ("400 Bad Request", false, 400, "invalid_request", "well-formed"),
            ("414 URI Too Long", true, 414, "uri_too_long", "65,534 bytes"),
            ("431 Request Header Fields Too Large", false, 431, "headers_too_large", "100 headers"),
            ("431 Request Header Fields Too Large", true, 414, "uri_too_long", "65,534 bytes"),
        ];
        for (line, in_first_line, status, code, says) in table {
            let text = String::from_utf8(instead_of(&bare(line), in_first_line).unwrap()).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
            assert_eq!(body["error"]["code"], code);
            assert!(body["error"]["message"].as_str().unwrap().contains(says), "{body}");
            assert!(text.contains(&format!("x-request-id: {}\r\n", body["request_id"].as_str().unwrap())));
        }
    }

    #[test]
    fn what_the_gateway_says_itself_is_left_alone() {
        let own = [
            b"HTTP/1.1 404 Not Found\r\nx-request-id: req_1\r\ncontent-length: 0\r\n\r\n".to_vec(),
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 9\r\n\r\n".to_vec(),
            b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n".to_vec(),
            b"HTTP/1.1 400 half of a head".to_vec(),
        ];
        for answer in own {
            assert_eq!(instead_of(&answer, false), None, "{}", String::from_utf8_lossy(&answer));
        }
    }
}
