//! What is wrong with a body or a query: one [`Issue`] per broken rule, all of them reported at once.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{CallError, ErrorCode};

/// One step of the way to a value inside a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathPart {
    Index(usize),
    Key(String),
}

impl From<&str> for PathPart {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

/// The kinds of rule that a field can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IssueCode {
    Required,
    Type,
    TooShort,
    TooLong,
    TooSmall,
    TooBig,
    Format,
    Enum,
    Conflict,
    UnknownField,
    UrlBlocked,
    UrlScheme,
    Empty,
    TooMany,
}

/// One broken rule: where, which, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    pub path: Vec<PathPart>,
    pub code: IssueCode,
    pub message: String,
}

impl Issue {
    /// The path for people: `participants[0]`; `body` for the whole.
    pub fn path_text(&self) -> String {
        let mut text = String::new();
        for part in &self.path {
            match part {
                PathPart::Index(index) => text.push_str(&format!("[{index}]")),
                PathPart::Key(key) if text.is_empty() => text.push_str(key),
                PathPart::Key(key) => text.push_str(&format!(".{key}")),
            }
        }
        if text.is_empty() { "body".to_owned() } else { text }
    }
}

impl CallError {
    pub fn invalid_request(issues: &[Issue]) -> Self {
        let message = match issues {
            [issue] => format!("{}: {}", issue.path_text(), issue.message),
            issues => format!("{} fields break a rule; see details", issues.len()),
        };
        Self::new(ErrorCode::InvalidRequest, message).with_details(json!(issues))
    }

    /// The same, where what it judges stands inside a field of the body.
    pub fn inside(self, field: &str) -> Self {
        let issues = self.details.as_ref().filter(|_| self.code == ErrorCode::InvalidRequest);
        let Some(mut issues) = issues.and_then(|issues| Vec::<Issue>::deserialize(issues).ok()) else { return self };
        issues.iter_mut().for_each(|issue| issue.path.insert(0, field.into()));
        Self::invalid_request(&issues)
    }
}

/// Why one value is refused, before it is known where the value stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    pub code: IssueCode,
    pub message: String,
    /// The JSON Schema of what is taken in its place, where a rule says so.
    wants: Option<Box<Value>>,
}

impl Violation {
    pub fn new(code: IssueCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), wants: None }
    }

    /// With the JSON Schema of what is taken instead.
    pub fn wanting(self, schema: Value) -> Self {
        Self { wants: Some(Box::new(schema)), ..self }
    }

    /// With `keywords` over those of the JSON Schema that is there already.
    pub fn also_wanting(self, keywords: &Value) -> Self {
        let mut schema = self.wants().cloned().unwrap_or_else(|| Value::Object(Map::new()));
        if let (Value::Object(schema), Value::Object(keywords)) = (&mut schema, keywords) {
            schema.extend(keywords.clone());
        }
        self.wanting(schema)
    }

    /// What a rule that was asked about `null` takes.
    pub fn wants(&self) -> Option<&Value> {
        self.wants.as_deref()
    }

    /// The refusal of a request in which this is the only fault.
    pub fn at(self, path: &[&str]) -> CallError {
        let issues = Issues::new();
        issues.push(path.iter().map(|key| PathPart::from(*key)).collect(), self);
        issues.into_error()
    }
}

/// Collects the issues of one request. Readers of parts of a body share it, hence the inner mutability.
#[derive(Debug, Default)]
pub struct Issues(RefCell<Vec<Issue>>);

impl Issues {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&self, path: Vec<PathPart>, violation: Violation) {
        self.0.borrow_mut().push(Issue { path, code: violation.code, message: violation.message });
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// `invalid_request` with all issues.
    pub fn into_error(self) -> CallError {
        CallError::invalid_request(&self.0.into_inner())
    }

    /// The parsed value, when nothing was wrong.
    ///
    /// `build` is called only without issues, and yields `None` only where a required field is missing, which is
    /// itself an issue; so that `?` on each field reads well.
    pub fn finish<T>(self, build: impl FnOnce() -> Option<T>) -> Result<T, CallError> {
        if !self.is_empty() { Err(self.into_error()) } else { build().ok_or_else(|| self.into_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_the_list_of_issues() {
        let issues = Issues::new();
        issues.push(
            vec!["participants".into(), PathPart::Index(0)],
            Violation::new(IssueCode::TooShort, "at least 3 characters"),
        );
        let error = issues.into_error();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert_eq!(error.message, "participants[0]: at least 3 characters");
        assert_eq!(
            error.details,
            Some(json!([{ "path": ["participants", 0], "code": "too_short", "message": "at least 3 characters" }]))
        );
    }

    #[test]
    fn what_is_refused_inside_a_field_says_where_it_stands_in_the_body() {
        let refused = Violation::new(IssueCode::Conflict, "cannot be forwarded").at(&["message_key"]).inside("body");
        assert_eq!(refused.message, "body.message_key: cannot be forwarded");
        let path = refused.details.as_ref().map(|details| details[0]["path"].clone());
        assert_eq!(path, Some(json!(["body", "message_key"])));
        let other = CallError::message_not_found("3EB0");
        assert_eq!(other.clone().inside("body"), other);
    }

    #[test]
    fn a_clean_request_yields_its_value() {
        assert_eq!(Issues::new().finish(|| Some(7)).ok(), Some(7));
        let issues = Issues::new();
        issues.push(vec![], Violation::new(IssueCode::Empty, "name at least one field"));
        assert_eq!(issues.finish(|| Some(7)).err().map(|error| error.code), Some(ErrorCode::InvalidRequest));
    }
}
