//! Reading the fields of a JSON body by rules, so that every body of the interface is judged the same way.
//!
//! A field is read with a presence ([`Fields::required`], [`Fields::optional`], [`Fields::nullable`]) and a rule (the
//! functions of [`rule`]). A broken rule becomes an issue and the field reads as absent; reading goes on, so that all
//! issues of a body are found at once.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::issue::{Fault, IssueCode, Issues, PathPart};

/// What a rule makes of a value.
pub type Judged<T> = Result<T, Fault>;

/// Parses a request body that must be a JSON object. Unreadable JSON is `bad_request`, another value
/// `invalid_request`.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(Fault::new(IssueCode::Type, "must be a JSON object").at(&[])),
        Err(error) => Err(ApiError::bad_request(format!("the body is not readable JSON: {error}"))),
    }
}

/// What a patch does to one field. An enum and not an option: the field may be one itself, and a format that writes
/// `Some(None)` as it writes `None` would lose the difference between "clear it" and "leave it".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change<T> {
    #[default]
    Keep,
    To(T),
}

impl<T> Change<T> {
    pub fn apply(self, field: &mut T) {
        if let Self::To(value) = self {
            *field = value;
        }
    }

    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T> From<Option<T>> for Change<T> {
    fn from(given: Option<T>) -> Self {
        given.map_or(Self::Keep, Self::To)
    }
}

/// One object of a body, where it stands in the body, and where its issues go.
#[derive(Clone)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: Vec<PathPart>,
    issues: &'a Issues,
}

impl<'a> Fields<'a> {
    /// The whole body.
    pub fn new(map: &'a Map<String, Value>, issues: &'a Issues) -> Self {
        Self { map, path: Vec::new(), issues }
    }

    /// A patch: an empty object is refused (supplement 1, rule 9).
    pub fn patch(map: &'a Map<String, Value>, issues: &'a Issues) -> Self {
        if map.is_empty() {
            issues.push(Vec::new(), Fault::new(IssueCode::Empty, "name at least one field to change"));
        }
        Self::new(map, issues)
    }

    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// The value as it is, without a rule.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    /// Notes an issue at a field.
    pub fn refuse(&self, key: &str, fault: Fault) {
        self.issues.push(self.path_to(key), fault);
    }

    /// A field that must be there. `null` breaks its rule.
    pub fn required<T>(&self, key: &str, rule: impl FnOnce(&Value) -> Judged<T>) -> Option<T> {
        if !self.has(key) {
            self.refuse(key, Fault::new(IssueCode::Required, "is required"));
        }
        self.optional(key, rule)
    }

    /// A field that may be left out, but not be `null`.
    pub fn optional<T>(&self, key: &str, rule: impl FnOnce(&Value) -> Judged<T>) -> Option<T> {
        self.judge(self.path_to(key), rule(self.map.get(key)?))
    }

    /// A field that may be left out (`None`), or be `null` (`Some(None)`).
    pub fn nullable<T>(&self, key: &str, rule: impl FnOnce(&Value) -> Judged<T>) -> Option<Option<T>> {
        match self.map.get(key)? {
            Value::Null => Some(None),
            _ => self.optional(key, rule).map(Some),
        }
    }

    /// A list with at least one and at most `most` items; each item's issues bear its index.
    pub fn list<T>(&self, key: &str, most: usize, rule: impl Fn(&Value) -> Judged<T>) -> Option<Vec<T>> {
        let Value::Array(items) = self.map.get(key)? else {
            self.refuse(key, rule::wrong_type("a list"));
            return None;
        };
        if items.is_empty() {
            self.refuse(key, Fault::new(IssueCode::Empty, "at least 1 item"));
            return None;
        }
        if items.len() > most {
            self.refuse(key, Fault::new(IssueCode::TooMany, format!("at most {most} items")));
            return None;
        }
        let judge = |(index, item)| {
            let mut path = self.path_to(key);
            path.push(PathPart::Index(index));
            self.judge(path, rule(item))
        };
        // Every item is judged before the list is given up, so that all of them are reported.
        let judged: Vec<Option<T>> = items.iter().enumerate().map(judge).collect();
        judged.into_iter().collect()
    }

    /// As [`list`](Self::list), for a field that must be there.
    pub fn required_list<T>(&self, key: &str, most: usize, rule: impl Fn(&Value) -> Judged<T>) -> Option<Vec<T>> {
        if !self.has(key) {
            self.refuse(key, Fault::new(IssueCode::Required, "is required"));
        }
        self.list(key, most, rule)
    }

    /// The objects of a list with at least one and at most `most` of them, each with its own place for issues.
    pub fn objects(&self, key: &str, most: usize) -> Option<Vec<Fields<'a>>> {
        self.list(key, most, |value| value.as_object().map(|_| ()).ok_or_else(|| rule::wrong_type("an object")))?;
        let fields = |(index, item): (usize, &'a Value)| {
            let mut path = self.path_to(key);
            path.push(PathPart::Index(index));
            Some(Fields { map: item.as_object()?, path, issues: self.issues })
        };
        self.map.get(key)?.as_array()?.iter().enumerate().map(fields).collect()
    }

    /// The fields of an object inside this one, when it is there.
    pub fn object(&self, key: &str) -> Option<Fields<'a>> {
        match self.map.get(key)? {
            Value::Object(map) => Some(Fields { map, path: self.path_to(key), issues: self.issues }),
            _ => {
                self.refuse(key, rule::wrong_type("an object"));
                None
            }
        }
    }

    fn path_to(&self, key: &str) -> Vec<PathPart> {
        let mut path = self.path.clone();
        path.push(key.into());
        path
    }

    fn judge<T>(&self, path: Vec<PathPart>, judged: Judged<T>) -> Option<T> {
        judged.map_err(|fault| self.issues.push(path, fault)).ok()
    }
}

/// The rules that a single value can be held against.
pub mod rule {
    use std::ops::RangeInclusive;
    use std::str::FromStr;

    use serde_json::{Map, Value};

    use super::Judged;
    use crate::address::{Address, Suffixes};
    use crate::issue::{Fault, IssueCode};
    use crate::target::LONGEST_URL;
    use crate::time::Timestamp;

    /// A value of another JSON type than `expected`, such as "a string".
    pub fn wrong_type(expected: &str) -> Fault {
        Fault::new(IssueCode::Type, format!("must be {expected}"))
    }

    fn string(value: &Value) -> Judged<&str> {
        value.as_str().ok_or_else(|| wrong_type("a string"))
    }

    /// A string whose length in Unicode scalar values lies in `length`; as received, without normalisation.
    pub fn text(length: RangeInclusive<usize>) -> impl Fn(&Value) -> Judged<String> {
        move |value| {
            let text = string(value)?;
            let count = text.chars().count();
            if count < *length.start() {
                return Err(Fault::new(IssueCode::TooShort, format!("at least {}", characters(*length.start()))));
            }
            if count > *length.end() {
                return Err(Fault::new(IssueCode::TooLong, format!("at most {}", characters(*length.end()))));
            }
            Ok(text.to_owned())
        }
    }

    fn characters(count: usize) -> String {
        if count == 1 { "1 character".to_owned() } else { format!("{count} characters") }
    }

    pub fn boolean(value: &Value) -> Judged<bool> {
        value.as_bool().ok_or_else(|| wrong_type("true or false"))
    }

    /// A whole number in `range`. `1.0` counts as whole, as JSON does not tell it from `1`.
    pub fn integer(range: RangeInclusive<u64>) -> impl Fn(&Value) -> Judged<u64> {
        move |value| {
            let number = value.as_f64().filter(|n| n.fract() == 0.0).ok_or_else(|| wrong_type("a whole number"))?;
            if number < *range.start() as f64 {
                return Err(Fault::new(IssueCode::TooSmall, format!("at least {}", range.start())));
            }
            if number > *range.end() as f64 {
                return Err(Fault::new(IssueCode::TooBig, format!("at most {}", range.end())));
            }
            Ok(value.as_u64().unwrap_or(number as u64))
        }
    }

    /// A number in `range`.
    pub fn number(range: RangeInclusive<f64>) -> impl Fn(&Value) -> Judged<f64> {
        move |value| {
            let number = value.as_f64().ok_or_else(|| wrong_type("a number"))?;
            if number < *range.start() {
                return Err(Fault::new(IssueCode::TooSmall, format!("at least {}", range.start())));
            }
            if number > *range.end() {
                return Err(Fault::new(IssueCode::TooBig, format!("at most {}", range.end())));
            }
            Ok(number)
        }
    }

    /// An absolute `http` or `https` URL of at most 2,048 characters. Whether it may be fetched is judged elsewhere.
    pub fn web_url(value: &Value) -> Judged<String> {
        let text = text(1..=LONGEST_URL)(value)?;
        let url = url::Url::parse(&text)
            .map_err(|_| Fault::new(IssueCode::Format, "must be an absolute URL such as https://example.com/a"))?;
        match url.scheme() {
            "http" | "https" => Ok(text),
            _ => Err(Fault::new(IssueCode::UrlScheme, "must be an http or https URL")),
        }
    }

    /// An identifier of any uuid-backed kind.
    pub fn uuid<T: FromStr>(value: &Value) -> Judged<T> {
        string(value)?.parse().map_err(|_| Fault::new(IssueCode::Format, "must be a uuid"))
    }

    pub fn time(value: &Value) -> Judged<Timestamp> {
        Timestamp::parse_iso(string(value)?).ok_or_else(|| {
            Fault::new(IssueCode::Format, "must be an ISO 8601 date-time such as 2026-01-01T00:00:00.000Z")
        })
    }

    /// One of a fixed set of words; `parse` knows them, `words` shows them.
    pub fn one_of<T>(words: &[&str], parse: impl Fn(&str) -> Option<T>) -> impl Fn(&Value) -> Judged<T> {
        move |value| {
            let text = string(value)?;
            parse(text).ok_or_else(|| Fault::new(IssueCode::Enum, format!("must be one of {}", words.join(", "))))
        }
    }

    /// An address, or the bare digits of a phone.
    pub fn address(suffixes: &Suffixes) -> impl Fn(&Value) -> Judged<Address> {
        move |value| {
            let text = string(value)?;
            if text.chars().count() < 3 {
                return Err(Fault::new(IssueCode::TooShort, "at least 3 characters"));
            }
            Address::parse_or_digits(text, suffixes).map_err(|_| {
                let why = if text.starts_with('+') {
                    "write the number without the leading +"
                } else {
                    "must be the digits of a number or an address <local>@<domain>"
                };
                Fault::new(IssueCode::Format, why)
            })
        }
    }

    /// Free-form metadata: at most 16 KiB of JSON, 50 keys, 64 characters a key (supplement 4.2).
    pub fn metadata(value: &Value) -> Judged<Map<String, Value>> {
        const MOST_BYTES: usize = 16 * 1024;
        const MOST_KEYS: usize = 50;
        const LONGEST_KEY: usize = 64;
        let map = value.as_object().ok_or_else(|| wrong_type("an object"))?;
        let too_big = |message: String| Err(Fault::new(IssueCode::TooBig, message));
        if map.len() > MOST_KEYS {
            return too_big(format!("at most {MOST_KEYS} keys"));
        }
        if map.keys().any(|key| key.chars().count() > LONGEST_KEY) {
            return too_big(format!("keys of at most {LONGEST_KEY} characters"));
        }
        if value.to_string().len() > MOST_BYTES {
            return too_big(format!("at most {MOST_BYTES} bytes of JSON"));
        }
        Ok(map.clone())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::address::Suffixes;
    use crate::error::ErrorCode;
    use crate::id::ChannelId;
    use proptest::prelude::*;
    use serde_json::json;

    /// The issues found when `read` reads `body`, as `path code`.
    fn issues_of(body: Value, read: impl FnOnce(&Fields<'_>)) -> Vec<String> {
        let issues = Issues::new();
        read(&Fields::new(body.as_object().unwrap(), &issues));
        let details = issues.into_error().details.unwrap();
        let line = |issue: &Value| format!("{} {}", issue["path"], issue["code"]).replace('"', "");
        details.as_array().unwrap().iter().map(line).collect()
    }

    #[test]
    fn each_rule_names_what_is_broken() {
        let suffixes = Suffixes::simulated();
        let cases: &[(Value, &str)] = &[
            (json!({}), "[f] required"),
            (json!({ "f": null }), "[f] type"),
            (json!({ "f": 1 }), "[f] type"),
            (json!({ "f": "" }), "[f] too_short"),
            (json!({ "f": "äöüßé" }), "[f] too_long"),
        ];
        for (body, expected) in cases {
            let found = issues_of(body.clone(), |fields| {
                fields.required("f", rule::text(1..=4));
            });
            assert_eq!(found, [*expected], "{body}");
        }
        type Read<'a> = &'a dyn Fn(&Fields<'_>);
        let cases: &[(Read<'_>, Value, &str)] = &[
            (
                &|f| {
                    f.optional("f", rule::boolean);
                },
                json!("true"),
                "[f] type",
            ),
            (
                &|f| {
                    f.optional("f", rule::uuid::<ChannelId>);
                },
                json!("7f2c"),
                "[f] format",
            ),
            (
                &|f| {
                    f.optional("f", rule::time);
                },
                json!("yesterday"),
                "[f] format",
            ),
            (
                &|f| {
                    f.optional("f", rule::integer(1..=10));
                },
                json!(0),
                "[f] too_small",
            ),
            (
                &|f| {
                    f.optional("f", rule::integer(1..=10));
                },
                json!(-3),
                "[f] too_small",
            ),
            (
                &|f| {
                    f.optional("f", rule::integer(1..=10));
                },
                json!(11),
                "[f] too_big",
            ),
            (
                &|f| {
                    f.optional("f", rule::integer(1..=10));
                },
                json!(1.5),
                "[f] type",
            ),
            (
                &|f| {
                    f.optional("f", rule::address(&suffixes));
                },
                json!("12"),
                "[f] too_short",
            ),
            (
                &|f| {
                    f.optional("f", rule::address(&suffixes));
                },
                json!("+15551234567"),
                "[f] format",
            ),
            (
                &|f| {
                    f.optional("f", rule::one_of(&["a"], |t| (t == "a").then_some(())));
                },
                json!("b"),
                "[f] enum",
            ),
            (
                &|f| {
                    f.optional("f", rule::metadata);
                },
                json!([]),
                "[f] type",
            ),
            (
                &|f| {
                    f.optional("f", rule::metadata);
                },
                json!({ "k".repeat(65): 1 }),
                "[f] too_big",
            ),
            (
                &|f| {
                    f.optional("f", rule::metadata);
                },
                json!({ "k": "x".repeat(17_000) }),
                "[f] too_big",
            ),
            (
                &|f| {
                    f.object("f");
                },
                json!(1),
                "[f] type",
            ),
            (
                &|f| {
                    f.list("f", 2, rule::boolean);
                },
                json!({}),
                "[f] type",
            ),
            (
                &|f| {
                    f.list("f", 2, rule::boolean);
                },
                json!([]),
                "[f] empty",
            ),
            (
                &|f| {
                    f.list("f", 2, rule::boolean);
                },
                json!([true, true, true]),
                "[f] too_many",
            ),
            (
                &|f| {
                    f.list("f", 2, rule::boolean);
                },
                json!([true, 1]),
                "[f,1] type",
            ),
        ];
        for (read, value, expected) in cases {
            assert_eq!(issues_of(json!({ "f": value }), read), [*expected], "{value}");
        }
    }

    #[test]
    fn all_issues_of_a_body_are_found_at_once() {
        let body = json!({ "name": "", "plan": { "limit": -1 }, "tags": [1, "a", 2] });
        let found = issues_of(body, |fields| {
            fields.required("name", rule::text(1..=120));
            fields.required("id", rule::uuid::<ChannelId>);
            fields.list("tags", 9, rule::text(1..=9));
            fields.object("plan").unwrap().optional("limit", rule::integer(0..=9));
        });
        assert_eq!(
            found,
            ["[name] too_short", "[id] required", "[tags,0] type", "[tags,2] type", "[plan,limit] too_small"]
        );
    }

    #[test]
    fn null_is_a_value_of_nullable_fields_only() {
        let body = json!({ "a": null, "b": "x" });
        let issues = Issues::new();
        let fields = Fields::new(body.as_object().unwrap(), &issues);
        assert_eq!(fields.nullable("a", rule::text(1..=9)), Some(None));
        assert_eq!(fields.nullable("b", rule::text(1..=9)), Some(Some("x".to_owned())));
        assert_eq!(fields.nullable("c", rule::text(1..=9)), None);
        assert!(issues.is_empty());
    }

    #[test]
    fn a_body_is_a_readable_json_object() {
        assert_eq!(parse_object(b"{").err().unwrap().code, ErrorCode::BadRequest);
        assert_eq!(parse_object(b"").err().unwrap().code, ErrorCode::BadRequest);
        assert_eq!(parse_object(b"[1]").err().unwrap().code, ErrorCode::InvalidRequest);
        assert_eq!(parse_object(b"{\"a\":1}").unwrap().len(), 1);
    }

    #[test]
    fn an_empty_patch_is_refused() {
        let issues = Issues::new();
        Fields::patch(&Map::new(), &issues);
        assert_eq!(issues.into_error().details.unwrap()[0]["code"], "empty");
    }

    proptest! {
        #[test]
        fn lengths_are_counted_in_scalar_values(text in "\\PC{0,12}") {
            let judged = rule::text(2..=8)(&Value::String(text.clone()));
            prop_assert_eq!(judged.is_ok(), (2..=8).contains(&text.chars().count()));
        }

        #[test]
        fn no_body_makes_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse_object(&bytes);
        }
    }
}
