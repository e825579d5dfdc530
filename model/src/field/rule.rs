//! Rules for single values.
//!
//! No rule accepts `null`: its violation for `null` carries the JSON Schema of the accepted values
//! ([`Violation::wants`]), so that a rule documents itself. [`described`] adds what the rule alone cannot tell.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::Judged;
use crate::address::{Address, LONGEST_ADDRESS, Suffixes};
use crate::issue::{IssueCode, Violation};
use crate::target::LONGEST_URL;
use crate::time::Timestamp;

/// The violation of a value whose JSON type is not `expected`, such as "a string".
pub fn wrong_type(expected: &str) -> Violation {
    Violation::new(IssueCode::Type, format!("must be {expected}"))
}

/// A string; the caller adds `keywords` of JSON Schema for what else it requires.
pub fn string(value: &Value, keywords: impl FnOnce() -> Value) -> Judged<&str> {
    value.as_str().ok_or_else(|| wrong_type("a string").wanting(json!({ "type": "string" })).also_wanting(&keywords()))
}

/// The JSON Schema of the values that a rule accepts.
pub fn wants<T>(rule: impl FnOnce(&Value) -> Judged<T>) -> Value {
    rule(&Value::Null).err().and_then(|violation| violation.wants().cloned()).unwrap_or(Value::Bool(true))
}

/// Extends the schema of a rule: `keywords` of JSON Schema override those of the rule itself.
pub fn described<T>(keywords: impl Fn() -> Value, rule: impl Fn(&Value) -> Judged<T>) -> impl Fn(&Value) -> Judged<T> {
    move |value| {
        rule(value).map_err(|violation| if value.is_null() { violation.also_wanting(&keywords()) } else { violation })
    }
}

/// A string whose length, in Unicode scalar values, is in `length`; counted as received, without normalization.
pub fn text(length: RangeInclusive<usize>) -> impl Fn(&Value) -> Judged<String> {
    move |value| {
        let text = string(value, || json!({ "minLength": length.start(), "maxLength": length.end() }))?;
        let count = text.chars().count();
        if count < *length.start() {
            return Err(Violation::new(IssueCode::TooShort, format!("at least {}", characters(*length.start()))));
        }
        if count > *length.end() {
            return Err(Violation::new(IssueCode::TooLong, format!("at most {}", characters(*length.end()))));
        }
        Ok(text.to_owned())
    }
}

fn characters(count: usize) -> String {
    if count == 1 { "1 character".to_owned() } else { format!("{count} characters") }
}

pub fn boolean(value: &Value) -> Judged<bool> {
    value.as_bool().ok_or_else(|| wrong_type("true or false").wanting(json!({ "type": "boolean" })))
}

/// A whole number in `range`. `1.0` is accepted, since JSON does not distinguish it from `1`.
pub fn integer(range: RangeInclusive<u64>) -> impl Fn(&Value) -> Judged<u64> {
    move |value| {
        let wants = || json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() });
        let whole = value.as_f64().filter(|n| n.fract() == 0.0);
        let number = whole.ok_or_else(|| wrong_type("a whole number").wanting(wants()))?;
        within(number, &range, |bound| bound as f64)?;
        Ok(value.as_u64().unwrap_or(number as u64))
    }
}

/// A number in `range`.
pub fn number(range: RangeInclusive<f64>) -> impl Fn(&Value) -> Judged<f64> {
    move |value| {
        let wants = || json!({ "type": "number", "minimum": range.start(), "maximum": range.end() });
        let number = value.as_f64().ok_or_else(|| wrong_type("a number").wanting(wants()))?;
        within(number, &range, |bound| bound)
    }
}

fn within<N: Copy + Display>(number: f64, range: &RangeInclusive<N>, wide: impl Fn(N) -> f64) -> Judged<f64> {
    if number < wide(*range.start()) {
        return Err(Violation::new(IssueCode::TooSmall, format!("at least {}", range.start())));
    }
    if number > wide(*range.end()) {
        return Err(Violation::new(IssueCode::TooBig, format!("at most {}", range.end())));
    }
    Ok(number)
}

/// An absolute `http` or `https` URL of at most 2,048 characters. Whether it may be fetched is checked elsewhere.
pub fn web_url(value: &Value) -> Judged<String> {
    let wants = || json!({ "format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?:" });
    let text = described(wants, text(1..=LONGEST_URL))(value)?;
    let url = url::Url::parse(&text)
        .map_err(|_| Violation::new(IssueCode::Format, "must be an absolute URL such as https://example.com/a"))?;
    match url.scheme() {
        "http" | "https" => Ok(text),
        _ => Err(Violation::new(IssueCode::UrlScheme, "must be an http or https URL")),
    }
}

/// An identifier of any UUID-backed type.
pub fn uuid<T: FromStr>(value: &Value) -> Judged<T> {
    let text = string(value, || json!({ "format": "uuid", "maxLength": LONGEST_UUID }))?;
    text.parse().map_err(|_| Violation::new(IssueCode::Format, "must be a uuid"))
}

/// Length of a hyphenated UUID.
pub const LONGEST_UUID: usize = 36;

/// Longest accepted time, in characters: nobody needs more digits of a second.
pub const LONGEST_TIME: usize = 64;

pub fn time(value: &Value) -> Judged<Timestamp> {
    let text = string(value, || json!({ "format": "date-time", "maxLength": LONGEST_TIME }))?;
    Some(text).filter(|text| text.len() <= LONGEST_TIME).and_then(Timestamp::parse_iso).ok_or_else(|| {
        Violation::new(IssueCode::Format, "must be an ISO 8601 date-time such as 2026-01-01T00:00:00.000Z")
    })
}

/// One of a fixed set of words: `parse` recognizes them, `words` lists them for people.
pub fn one_of<T>(words: &[&str], parse: impl Fn(&str) -> Option<T>) -> impl Fn(&Value) -> Judged<T> {
    move |value| {
        let text = string(value, || json!({ "enum": words }))?;
        parse(text).ok_or_else(|| Violation::new(IssueCode::Enum, format!("must be one of {}", words.join(", "))))
    }
}

/// The pattern that [`address`] accepts, as a regular expression.
pub const ADDRESS_OR_DIGITS: &str = "^([0-9]{3,15}|[A-Za-z0-9_-]+@[A-Za-z0-9_.-]+)$";

/// An address, or a phone number as bare digits.
pub fn address(suffixes: &Suffixes) -> impl Fn(&Value) -> Judged<Address> {
    move |value| {
        let wants = || json!({ "minLength": 3, "maxLength": LONGEST_ADDRESS, "pattern": ADDRESS_OR_DIGITS });
        let text = string(value, wants)?;
        if text.chars().count() < 3 {
            return Err(Violation::new(IssueCode::TooShort, "at least 3 characters"));
        }
        if text.len() > LONGEST_ADDRESS {
            return Err(Violation::new(IssueCode::TooLong, format!("at most {LONGEST_ADDRESS} characters")));
        }
        Address::parse_or_digits(text, suffixes).map_err(|_| {
            let why = if text.starts_with('+') {
                "write the number without the leading +"
            } else {
                "must be the digits of a number or an address <local>@<domain>"
            };
            Violation::new(IssueCode::Format, why)
        })
    }
}

/// Largest metadata, in bytes of JSON.
pub const MOST_METADATA_BYTES: usize = 4 * 1024;

/// Free-form metadata: at most 4 KiB of JSON and 50 keys, of at most 64 characters each.
pub fn metadata(value: &Value) -> Judged<Map<String, Value>> {
    const MOST_KEYS: usize = 50;
    const LONGEST_KEY: usize = 64;
    let wants = || {
        json!({
            "type": "object",
            "maxProperties": MOST_KEYS,
            "propertyNames": { "maxLength": LONGEST_KEY },
            "description": "Free-form keys and values, at most 4 KiB of JSON.",
        })
    };
    let map = value.as_object().ok_or_else(|| wrong_type("an object").wanting(wants()))?;
    let too_big = |message: String| Err(Violation::new(IssueCode::TooBig, message));
    if map.len() > MOST_KEYS {
        return too_big(format!("at most {MOST_KEYS} keys"));
    }
    if map.keys().any(|key| key.chars().count() > LONGEST_KEY) {
        return too_big(format!("keys of at most {LONGEST_KEY} characters"));
    }
    if value.to_string().len() > MOST_METADATA_BYTES {
        return too_big(format!("at most {MOST_METADATA_BYTES} bytes of JSON"));
    }
    if let Some((key, _)) = map.iter().find(|(_, value)| has_number_beyond_64_bits(value)) {
        return too_big(format!(
            "{key}: a number of more than 64 bits does not come back as it is; write it as a string"
        ));
    }
    Ok(map.clone())
}

/// Whether a whole number in the value was rounded to a float. `1e30` cannot be told from such a number.
fn has_number_beyond_64_bits(value: &Value) -> bool {
    /// 2 to the power of 63. Whole numbers from here on are read as floats, except those that fit into `u64`.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|number| number.abs() >= BEYOND),
        Value::Array(items) => items.iter().any(has_number_beyond_64_bits),
        Value::Object(map) => map.values().any(has_number_beyond_64_bits),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
