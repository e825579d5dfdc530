//! The custom headers that an endpoint receives with each delivery.

use serde_json::{Value, json};

use crate::field::{Judged, rule};
use crate::issue::{IssueCode, Violation};

/// Names and values, in the given order.
pub type StaticHeaders = Vec<(String, String)>;

const MOST: usize = 10;
const LONGEST_NAME: usize = 128;
const LONGEST_VALUE: usize = 1024;

/// Headers that the gateway sets itself, or that would change how the request is parsed.
const TAKEN: &str = "host user-agent connection keep-alive proxy-authenticate proxy-authorization te trailer \
    transfer-encoding upgrade expect webhook-id webhook-timestamp webhook-signature";
const TAKEN_PREFIXES: [&str; 2] = ["content-", "x-gateway-"];

/// The rule for `headers`: an object of at most ten strings.
pub fn static_headers(value: &Value) -> Judged<StaticHeaders> {
    let wants = || {
        json!({
            "type": "object",
            "maxProperties": MOST,
            "propertyNames": { "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", "maxLength": LONGEST_NAME },
            "additionalProperties": { "type": "string", "pattern": "^[ -~\t]*$", "maxLength": LONGEST_VALUE },
        })
    };
    let map = value.as_object().ok_or_else(|| rule::wrong_type("an object of names and values").wanting(wants()))?;
    if map.len() > MOST {
        return Err(Violation::new(IssueCode::TooMany, format!("at most {MOST} headers")));
    }
    let mut seen = Vec::new();
    for (name, value) in map {
        let value = value.as_str().ok_or_else(|| rule::wrong_type("an object whose values are strings"))?;
        judge_name(name)?;
        judge_value(name, value)?;
        let lower = name.to_ascii_lowercase();
        if seen.contains(&lower) {
            return Err(Violation::new(IssueCode::Conflict, format!("{name} is given twice")));
        }
        seen.push(lower);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    Ok(map.iter().map(|(name, value)| (name.clone(), text(value))).collect())
}

fn judge_name(name: &str) -> Judged<()> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(Violation::new(IssueCode::Format, format!("{name:?} is not the name of a header")));
    }
    if name.len() > LONGEST_NAME {
        return Err(Violation::new(IssueCode::TooLong, format!("names of at most {LONGEST_NAME} characters")));
    }
    let lower = name.to_ascii_lowercase();
    if TAKEN.split_ascii_whitespace().any(|taken| taken == lower)
        || TAKEN_PREFIXES.iter().any(|prefix| lower.starts_with(prefix))
    {
        return Err(Violation::new(IssueCode::Conflict, format!("{name} is set by the gateway")));
    }
    Ok(())
}

fn judge_value(name: &str, value: &str) -> Judged<()> {
    if value.len() > LONGEST_VALUE {
        let longest = format!("{name}: at most {LONGEST_VALUE} characters");
        return Err(Violation::new(IssueCode::TooLong, longest));
    }
    if value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        Ok(())
    } else {
        Err(Violation::new(IssueCode::Format, format!("{name}: the value must be of visible ASCII characters")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_header_may_be_anything_that_the_gateway_does_not_set() {
        let good = static_headers(&json!({ "Authorization": "Bearer x", "X-Team": " a b " })).unwrap();
        let expected = [("Authorization", "Bearer x"), ("X-Team", "a b")];
        assert_eq!(good, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let many: serde_json::Map<_, _> = (0..11).map(|n| (format!("x-{n}"), json!("v"))).collect();
        let table = [
            (json!([]), IssueCode::Type),
            (json!({ "a": 1 }), IssueCode::Type),
            (json!({ "": "v" }), IssueCode::Format),
            (json!({ "a b": "v" }), IssueCode::Format),
            (json!({ "a": "x\r\nHost: y" }), IssueCode::Format),
            (json!({ "a": "ü" }), IssueCode::Format),
            (json!({ "a": "x".repeat(1025) }), IssueCode::TooLong),
            (json!({ "HOST": "v" }), IssueCode::Conflict),
            (json!({ "Content-Length": "5" }), IssueCode::Conflict),
            (json!({ "X-Gateway-Event": "v" }), IssueCode::Conflict),
            (json!({ "a": "v", "A": "v" }), IssueCode::Conflict),
            (Value::Object(many), IssueCode::TooMany),
        ];
        for (value, code) in table {
            assert_eq!(static_headers(&value).unwrap_err().code, code, "{value}");
        }
        assert!(static_headers(&json!({})).unwrap().is_empty());
    }
}
