//! Errors in a body or a query: one [`Issue`] per violated rule, all reported at once.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{CallError, ErrorCode};

/// One step of the path to a value in a body.
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

/// The kinds of rules that a field can violate.
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

/// A violated rule: where, which, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    pub path: Vec<PathPart>,
    pub code: IssueCode,
    pub message: String,
}

impl Issue {
    /// The path as text, such as `participants[0]`; `body` for the whole body.
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

    /// The same error, with the paths moved into `field`, for a body nested in another one.
    pub fn inside(self, field: &str) -> Self {
        let issues = self.details.as_ref().filter(|_| self.code == ErrorCode::InvalidRequest);
        let Some(mut issues) = issues.and_then(|issues| Vec::<Issue>::deserialize(issues).ok()) else { return self };
        issues.iter_mut().for_each(|issue| issue.path.insert(0, field.into()));
        Self::invalid_request(&issues)
    }
}

/// Why a value is refused, independent of its place in the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    pub code: IssueCode,
    pub message: String,
    /// JSON Schema of the values that the rule accepts, if the rule states it.
    wants: Option<Box<Value>>,
}

impl Violation {
    pub fn new(code: IssueCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), wants: None }
    }

    /// Adds the JSON Schema of accepted values.
    pub fn wanting(self, schema: Value) -> Self {
        Self { wants: Some(Box::new(schema)), ..self }
    }

    /// Adds `keywords` to the JSON Schema of accepted values, overriding equal ones.
    pub fn also_wanting(self, keywords: &Value) -> Self {
        let mut schema = self.wants().cloned().unwrap_or_else(|| Value::Object(Map::new()));
        if let (Value::Object(schema), Value::Object(keywords)) = (&mut schema, keywords) {
            schema.extend(keywords.clone());
        }
        self.wanting(schema)
    }

    /// The JSON Schema of accepted values, which a rule states when it is applied to `null`.
    pub fn wants(&self) -> Option<&Value> {
        self.wants.as_deref()
    }

    /// The error of a request with this single violation.
    pub fn at(self, path: &[&str]) -> CallError {
        let issues = Issues::new();
        issues.push(path.iter().map(|key| PathPart::from(*key)).collect(), self);
        issues.into_error()
    }
}

/// Collects the issues of one request. Shared by the readers of a body's parts, hence the interior mutability.
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

    /// The parsed value, if there are no issues.
    ///
    /// `build` is called only without issues. It returns `None` only if a required field is missing, which is itself an
    /// issue; this allows `?` on each field.
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
