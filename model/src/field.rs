//! Reads the fields of a JSON body by rules, so that all bodies of the API are validated in the same way.
//!
//! A field is read with a presence ([`Fields::required`], [`Fields::optional`], [`Fields::nullable`]) and a rule (the
//! functions of [`rule`]). A violation becomes an issue and the field reads as absent; reading goes on, so that all
//! issues of a body are reported at once.
//!
//! A parser also documents its body: [`Body::outline`] runs it without a body, and it records the fields that it asks
//! for together with the schemas of their rules.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::CallError;
use crate::issue::{IssueCode, Issues, PathPart, Violation};

mod outline;
pub mod rule;

use outline::{Outline, Times};

/// The result of a rule.
pub type Judged<T> = Result<T, Violation>;

/// Maximum number of JSON values in a body: twice the length of the API's longest list. A value of a few bytes may take
/// hundreds of bytes in memory.
const MOST_VALUES: usize = 10_000;

/// The body of a request, which is a JSON object.
#[derive(Debug, Default)]
pub struct Body {
    map: Map<String, Value>,
    /// Set while the parser is run to record which fields it reads.
    outline: Option<Arc<Outline>>,
}

impl Body {
    /// Parses the bytes of a body.
    ///
    /// # Errors
    /// `bad_request` for unreadable JSON; `invalid_request` for a value other than an object, and for too many values.
    pub fn parse(bytes: &[u8]) -> Result<Self, CallError> {
        if bytes.len() > MOST_VALUES && values_in(bytes) > MOST_VALUES {
            let message = format!("a body has at most {MOST_VALUES} values, those of its lists and objects included");
            return Err(Violation::new(IssueCode::TooMany, message).at(&[]));
        }
        serde_json::from_slice::<Value>(bytes)
            .map_err(|error| CallError::bad_request(format!("the body is not readable JSON: {error}")))?
            .try_into()
    }

    /// Runs `read` on the fields.
    ///
    /// # Errors
    /// `invalid_request` with all violations.
    pub fn read<T>(&self, read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, CallError> {
        let issues = Issues::new();
        let value = read(&Fields::new(self, &issues));
        issues.finish(|| value)
    }

    /// Runs `read` on the fields of a patch, which must not be empty.
    ///
    /// # Errors
    /// See [`Body::read`].
    pub fn read_patch<T>(&self, read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, CallError> {
        let issues = Issues::new();
        let value = read(&Fields::patch(self, &issues));
        issues.finish(|| value)
    }

    /// The JSON Schema of the bodies that `parser` accepts.
    pub fn outline<T>(parser: impl FnOnce(&Self) -> T) -> Value {
        let outline = Arc::new(Outline::default());
        parser(&Self { map: Map::new(), outline: Some(outline.clone()) });
        outline.schema()
    }
}

/// Counts the values in a JSON text without allocating them. For invalid JSON the number is meaningless.
fn values_in(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in json.iter().copied() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

impl Deref for Body {
    type Target = Map<String, Value>;
    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl TryFrom<Value> for Body {
    type Error = CallError;

    fn try_from(value: Value) -> Result<Self, CallError> {
        match value {
            Value::Object(map) => Ok(Self { map, outline: None }),
            _ => Err(Violation::new(IssueCode::Type, "must be a JSON object").at(&[])),
        }
    }
}

/// What a patch does to one field. Not an `Option`: the field itself may be one, and a format that writes `Some(None)`
/// like `None` would lose the difference between "clear" and "keep".
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

    /// Maps the new value with `make`.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Change<U>, E> {
        match self {
            Self::Keep => Ok(Change::Keep),
            Self::To(value) => make(value).map(Change::To),
        }
    }
}

impl<T> From<Option<T>> for Change<T> {
    fn from(given: Option<T>) -> Self {
        given.map_or(Self::Keep, Self::To)
    }
}

/// One object of a body, with its path in the body and the collector of issues.
#[derive(Clone)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: Vec<PathPart>,
    issues: &'a Issues,
    /// Records the requested fields while there is no body to read.
    outline: Option<Arc<Outline>>,
}

impl<'a> Fields<'a> {
    /// The fields of the whole body.
    pub fn new(body: &'a Body, issues: &'a Issues) -> Self {
        Self { map: &body.map, path: Vec::new(), issues, outline: body.outline.clone() }
    }

    /// The fields of a patch. An empty object is an issue.
    pub fn patch(body: &'a Body, issues: &'a Issues) -> Self {
        if let Some(outline) = &body.outline {
            outline.patch();
        } else if body.is_empty() {
            issues.push(Vec::new(), Violation::new(IssueCode::Empty, "name at least one field to change"));
        }
        Self::new(body, issues)
    }

    /// Whether the field is present. Always true while the outline is recorded.
    pub fn has(&self, key: &str) -> bool {
        self.outline.is_some() || self.map.contains_key(key)
    }

    /// Records the schema of a field that its rules cannot express. `schema` is JSON Schema.
    pub fn tell(&self, key: &str, schema: impl FnOnce() -> Value) {
        if let Some(outline) = &self.outline {
            outline.tell(key, schema());
        }
    }

    /// Records constraints between fields, which no rule of a single field can express, as `keywords` of JSON Schema.
    pub fn between(&self, keywords: impl FnOnce() -> Value) {
        if let Some(outline) = &self.outline {
            outline.between(keywords());
        }
    }

    /// The raw value, without a rule.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    /// Adds an issue at a field.
    pub fn refuse(&self, key: &str, violation: Violation) {
        self.issues.push(self.path_to(key), violation);
    }

    /// A field that must be present. `null` violates its rule.
    pub fn required<T>(&self, key: &str, rule: impl FnOnce(&Value) -> Judged<T>) -> Option<T> {
        self.require(key);
        self.optional(key, rule)
    }

    fn require(&self, key: &str) {
        if let Some(outline) = &self.outline {
            outline.require(key);
        } else if !self.has(key) {
            self.refuse(key, Violation::new(IssueCode::Required, "is required"));
        }
    }

    /// A field that may be absent, but not `null`.
    pub fn optional<T>(&self, key: &str, rule: impl FnOnce(&Value) -> Judged<T>) -> Option<T> {
        if let Some(outline) = &self.outline {
            outline.note(key, Times::Once, false, rule);
            return None;
        }
        // Hot path: most fields are absent and nearly all values are valid, so only a violation builds the path.
        rule(self.map.get(key)?).map_err(|violation| self.refuse(key, violation)).ok()
    }

    /// A field that may be absent (`None`) or `null` (`Some(None)`).
    pub fn nullable<T>(&self, key: &str, rule: impl FnOnce(&Value) -> Judged<T>) -> Option<Option<T>> {
        if let Some(outline) = &self.outline {
            outline.note(key, Times::Once, true, rule);
            return None;
        }
        match self.map.get(key)? {
            Value::Null => Some(None),
            _ => self.optional(key, rule).map(Some),
        }
    }

    /// A field that must be present and may be `null` (`Some(None)`).
    pub fn required_nullable<T>(&self, key: &str, rule: impl FnOnce(&Value) -> Judged<T>) -> Option<Option<T>> {
        self.require(key);
        self.nullable(key, rule)
    }

    /// A list with 1 to `most` items; the path of an item's issue contains its index.
    pub fn list<T>(&self, key: &str, most: usize, rule: impl Fn(&Value) -> Judged<T>) -> Option<Vec<T>> {
        self.read_list(key, 1, most, rule)
    }

    fn read_list<T>(&self, key: &str, least: usize, most: usize, rule: impl Fn(&Value) -> Judged<T>) -> Option<Vec<T>> {
        if let Some(outline) = &self.outline {
            outline.note(key, Times::List { least, most }, false, rule);
            return None;
        }
        let Value::Array(items) = self.map.get(key)? else {
            self.refuse(key, rule::wrong_type("a list"));
            return None;
        };
        if items.len() < least {
            self.refuse(key, Violation::new(IssueCode::Empty, "at least 1 item"));
            return None;
        }
        if items.len() > most {
            self.refuse(key, Violation::new(IssueCode::TooMany, format!("at most {most} items")));
            return None;
        }
        let judge = |(index, item)| {
            let mut path = self.path_to(key);
            path.push(PathPart::Index(index));
            rule(item).map_err(|violation| self.issues.push(path, violation)).ok()
        };
        // All items are validated before the list is rejected, so that all issues are reported.
        let judged: Vec<Option<T>> = items.iter().enumerate().map(judge).collect();
        judged.into_iter().collect()
    }

    /// Like [`list`](Self::list), for a field that must be present.
    pub fn required_list<T>(&self, key: &str, most: usize, rule: impl Fn(&Value) -> Judged<T>) -> Option<Vec<T>> {
        self.require(key);
        self.list(key, most, rule)
    }

    /// Like [`list`](Self::list), for a list that may be empty.
    pub fn list_or_empty<T>(&self, key: &str, most: usize, rule: impl Fn(&Value) -> Judged<T>) -> Option<Vec<T>> {
        self.read_list(key, 0, most, rule)
    }

    /// Like [`list_or_empty`](Self::list_or_empty), for a field that must be present.
    pub fn required_list_or_empty<T>(
        &self,
        key: &str,
        most: usize,
        rule: impl Fn(&Value) -> Judged<T>,
    ) -> Option<Vec<T>> {
        self.require(key);
        self.list_or_empty(key, most, rule)
    }

    /// The objects of a list of 1 to `most` objects, each with its own path for issues.
    pub fn objects(&self, key: &str, most: usize) -> Option<Vec<Fields<'a>>> {
        if let Some(outline) = &self.outline {
            let inner = outline.object(key, Times::List { least: 1, most }, false);
            return Some(vec![Fields { outline: Some(inner), ..self.clone() }]);
        }
        self.list(key, most, |value| value.as_object().map(|_| ()).ok_or_else(|| rule::wrong_type("an object")))?;
        let fields = |(index, item): (usize, &'a Value)| {
            let mut path = self.path_to(key);
            path.push(PathPart::Index(index));
            Some(Fields { map: item.as_object()?, path, issues: self.issues, outline: None })
        };
        self.map.get(key)?.as_array()?.iter().enumerate().map(fields).collect()
    }

    /// Like [`objects`](Self::objects), for a field that must be present.
    pub fn required_objects(&self, key: &str, most: usize) -> Option<Vec<Fields<'a>>> {
        self.require(key);
        self.objects(key, most)
    }

    /// The fields of a nested object, if it is present.
    pub fn object(&self, key: &str) -> Option<Fields<'a>> {
        self.read_object(key, false).flatten()
    }

    /// Like [`object`](Self::object), for a field that must be present.
    pub fn required_object(&self, key: &str) -> Option<Fields<'a>> {
        self.require(key);
        self.object(key)
    }

    /// The fields of a nested object that may be absent (`None`) or `null` (`Some(None)`).
    pub fn nullable_object(&self, key: &str) -> Option<Option<Fields<'a>>> {
        self.read_object(key, true)
    }

    fn read_object(&self, key: &str, nullable: bool) -> Option<Option<Fields<'a>>> {
        if let Some(outline) = &self.outline {
            let inner = outline.object(key, Times::Once, nullable);
            return Some(Some(Fields { outline: Some(inner), ..self.clone() }));
        }
        match self.map.get(key)? {
            Value::Null if nullable => Some(None),
            Value::Object(map) => {
                Some(Some(Fields { map, path: self.path_to(key), issues: self.issues, outline: None }))
            }
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

    /// The issues of reading `body`, each as `path code`.
    fn issues_of(body: Value, read: impl FnOnce(&Fields<'_>)) -> Vec<String> {
        let issues = Issues::new();
        read(&Fields::new(&Body::try_from(body).unwrap(), &issues));
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
                json!({ "k": "x".repeat(rule::MOST_METADATA_BYTES) }),
                "[f] too_big",
            ),
            (
                &|f| {
                    f.optional("f", rule::metadata);
                },
                serde_json::from_str(r#"{ "a": [{ "b": 18446744073709551616 }] }"#).unwrap(),
                "[f] too_big",
            ),
            (
                &|f| {
                    f.optional("f", rule::time);
                },
                json!(format!("2026-01-01T00:00:00.{}Z", "0".repeat(64))),
                "[f] format",
            ),
            (
                &|f| {
                    f.optional("f", rule::address(&suffixes));
                },
                json!(format!("{}@s.example", "1".repeat(119))),
                "[f] too_long",
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
    fn metadata_comes_back_as_it_was_up_to_its_bounds() {
        let of_bytes = |bytes: usize| json!({ "k": "x".repeat(bytes - r#"{"k":""}"#.len()) });
        let numbers = json!({ "a": u64::MAX, "b": i64::MIN, "c": 0.5, "d": 9_007_199_254_740_993_u64 });
        for value in [of_bytes(rule::MOST_METADATA_BYTES), numbers] {
            assert_eq!(rule::metadata(&value).map(Value::Object), Ok(value));
        }
        assert!(rule::metadata(&of_bytes(rule::MOST_METADATA_BYTES + 1)).is_err());
    }

    #[test]
    fn a_fraction_is_read_as_it_was_written() {
        for written in ["0.1", "94.52706955539223", "-23.308445025757262", "1.4559974924812313"] {
            let body = Body::parse(format!("{{\"f\":{written}}}").as_bytes()).unwrap();
            assert_eq!(body["f"].to_string(), written);
        }
    }

    #[test]
    fn an_address_of_128_bytes_is_the_longest() {
        let suffixes = Suffixes::simulated();
        let address = |bytes: usize| json!(format!("{}@s.example", "1".repeat(bytes - "@s.example".len())));
        assert!(rule::address(&suffixes)(&address(128)).is_ok());
        assert_eq!(rule::address(&suffixes)(&address(129)).unwrap_err().code, IssueCode::TooLong);
    }

    #[test]
    fn null_is_a_value_of_nullable_fields_only() {
        let body = json!({ "a": null, "b": "x" });
        let issues = Issues::new();
        let body = Body::try_from(body).unwrap();
        let fields = Fields::new(&body, &issues);
        assert_eq!(fields.nullable("a", rule::text(1..=9)), Some(None));
        assert_eq!(fields.nullable("b", rule::text(1..=9)), Some(Some("x".to_owned())));
        assert_eq!(fields.nullable("c", rule::text(1..=9)), None);
        assert!(issues.is_empty());
    }

    #[test]
    fn a_body_holds_so_many_values_of_whatever_kind_and_a_text_is_one() {
        let code =
            |json: String| Body::parse(json.as_bytes()).err().map(|error| error.details.unwrap()[0]["code"].clone());
        let listed = |items: &str, count: usize| format!("{{\"f\":[{}]}}", vec![items; count].join(","));
        assert_eq!(code(listed("0", MOST_VALUES - 2)), None);
        assert_eq!(code(listed("0", MOST_VALUES - 1)), Some(json!("too_many")));
        assert_eq!(code(listed("{\"a\":0}", MOST_VALUES / 2)), Some(json!("too_many")));
        let text = ",[{\\\"".repeat(MOST_VALUES);
        assert_eq!(code(format!("{{\"f\":\"{text}\"}}")), None);
    }

    #[test]
    fn a_body_is_a_readable_json_object() {
        assert_eq!(Body::parse(b"{").err().unwrap().code, ErrorCode::BadRequest);
        assert_eq!(Body::parse(b"").err().unwrap().code, ErrorCode::BadRequest);
        assert_eq!(Body::parse(b"[1]").err().unwrap().code, ErrorCode::InvalidRequest);
        assert_eq!(Body::parse(b"{\"a\":1}").unwrap().len(), 1);
    }

    #[test]
    fn an_empty_patch_is_refused() {
        let issues = Issues::new();
        Fields::patch(&Body::default(), &issues);
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
            let _ = Body::parse(&bytes);
        }
    }
}
