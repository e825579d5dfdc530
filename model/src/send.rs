//! The body of a send: two accepted shapes, one normal form (supplement 5.2).

use serde_json::{Map, Value};

use crate::address::{Address, Suffixes};
use crate::error::ApiError;
use crate::field::{Fields, rule};
use crate::issue::{Fault, IssueCode, Issues};
use crate::message::Content;

/// The longest text of a message, in Unicode scalar values (interface 8.2).
pub const LONGEST_TEXT: usize = 4096;

/// The longest `client_ref`.
pub const LONGEST_CLIENT_REF: usize = 128;

/// A send, well formed. Whether `to` can be reached is for the owner of the channel to say.
#[derive(Clone, Debug, PartialEq)]
pub struct SendRequest {
    pub to: Address,
    pub content: Content,
    pub client_ref: Option<String>,
}

/// The types that the interface knows and this gateway does not send yet.
const NOT_BUILT: &[&str] = &[
    "image", "video", "audio", "document", "sticker", "reaction", "edit", "delete", "location", "contact", "poll",
    "forward", "pin", "unpin", "star", "unstar", "voice", "product", "catalog",
];

impl SendRequest {
    /// Parses the flat shape or the nested one. `to` stands at the top in both, the fields of the type where `type`
    /// stands, and `client_ref` at either level of the nested one.
    pub fn parse(body: &Map<String, Value>, suffixes: &Suffixes) -> Result<Self, ApiError> {
        let issues = Issues::new();
        let top = Fields::new(body, &issues);
        let inner = match nested_fields(&top) {
            Ok(inner) => inner,
            Err(fault) => return Err(fault.at(&["type"])),
        };
        let client_ref = read_client_ref(&top, inner.as_ref());
        let variant = inner.unwrap_or_else(|| top.clone());

        let message_type = variant.required("type", rule::text(1..=usize::MAX));
        let read_content = match message_type.as_deref() {
            Some("text") => read_text,
            Some(known) if NOT_BUILT.contains(&known) => {
                return Err(ApiError::not_implemented(&format!("messages.{known}")));
            }
            Some(_) => {
                variant.refuse(
                    "type",
                    Fault::new(IssueCode::Enum, format!("must be text or one of {}", NOT_BUILT.join(", "))),
                );
                return Err(issues.into_error());
            }
            None => return Err(issues.into_error()),
        };
        let content = read_content(&variant);
        let to = top.required("to", rule::address(suffixes));
        issues.finish(|| Some(Self { to: to?, content: content?, client_ref }))
    }
}

/// The fields inside `body`, when the body of the request is of the nested shape.
fn nested_fields<'a>(top: &Fields<'a>) -> Result<Option<Fields<'a>>, Fault> {
    let nested = top.get("body").is_some_and(|body| body.get("type").is_some());
    if nested && top.has("type") {
        return Err(Fault::new(IssueCode::Conflict, "give the type at the top or inside body, not both"));
    }
    Ok(if nested { top.object("body") } else { None })
}

/// A label of the caller's. In the nested shape it stands at the top or inside `body`, not both.
fn read_client_ref(top: &Fields<'_>, inner: Option<&Fields<'_>>) -> Option<String> {
    const KEY: &str = "client_ref";
    let level = match inner {
        Some(inner) if inner.has(KEY) && top.has(KEY) => {
            inner.refuse(KEY, Fault::new(IssueCode::Conflict, "give client_ref at the top or inside body, not both"));
            return None;
        }
        Some(inner) if inner.has(KEY) => inner,
        _ => top,
    };
    level.optional(KEY, rule::text(0..=LONGEST_CLIENT_REF))
}

fn read_text(fields: &Fields<'_>) -> Option<Content> {
    Some(Content::Text { text: fields.required("text", rule::text(1..=LONGEST_TEXT))? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(body: Value) -> Result<SendRequest, ApiError> {
        SendRequest::parse(body.as_object().unwrap(), &Suffixes::simulated())
    }

    fn text_to(to: &str, text: &str, client_ref: Option<&str>) -> SendRequest {
        let content = Content::Text { text: text.into() };
        SendRequest { to: Address::parse(to).unwrap(), content, client_ref: client_ref.map(Into::into) }
    }

    #[test]
    fn both_shapes_mean_the_same() {
        let expected = text_to("15551234567@s.example", "hi", Some("order-17"));
        for body in [
            json!({ "type": "text", "to": "15551234567", "text": "hi", "client_ref": "order-17" }),
            json!({ "type": "text", "to": "15551234567@s.example", "text": "hi", "client_ref": "order-17" }),
            json!({ "to": "15551234567", "client_ref": "order-17", "body": { "type": "text", "text": "hi" } }),
            json!({ "to": "15551234567", "body": { "type": "text", "text": "hi", "client_ref": "order-17" } }),
            json!({ "type": "text", "to": "15551234567", "text": "hi", "client_ref": "order-17", "body": "ignored" }),
        ] {
            assert_eq!(parse(body.clone()).unwrap(), expected, "{body}");
        }
        let to_group = json!({ "type": "text", "to": "12036@g.example", "text": "hi" });
        assert_eq!(parse(to_group).unwrap(), text_to("12036@g.example", "hi", None));
    }

    #[test]
    fn every_rule_has_its_issue() {
        let long = "x".repeat(4097);
        let table = [
            (json!({}), vec![r#"["type"] required"#]),
            (json!({ "type": 5 }), vec![r#"["type"] type"#]),
            (json!({ "type": null }), vec![r#"["type"] type"#]),
            (json!({ "type": "telegram", "to": "15551234567" }), vec![r#"["type"] enum"#]),
            (json!({ "type": "text" }), vec![r#"["text"] required"#, r#"["to"] required"#]),
            (json!({ "type": "text", "to": "15551234567", "text": "" }), vec![r#"["text"] too_short"#]),
            (json!({ "type": "text", "to": "15551234567", "text": long }), vec![r#"["text"] too_long"#]),
            (json!({ "type": "text", "to": "15551234567", "text": 5 }), vec![r#"["text"] type"#]),
            (json!({ "type": "text", "to": 15551234567_u64, "text": "hi" }), vec![r#"["to"] type"#]),
            (json!({ "type": "text", "to": "12", "text": "hi" }), vec![r#"["to"] too_short"#]),
            (json!({ "type": "text", "to": "+15551234567", "text": "hi" }), vec![r#"["to"] format"#]),
            (json!({ "type": "text", "to": "anna", "text": "hi" }), vec![r#"["to"] format"#]),
            (json!({ "type": "text", "to": "@s.example", "text": "hi" }), vec![r#"["to"] format"#]),
            (
                json!({ "type": "text", "to": "15551234567", "text": "hi", "client_ref": "x".repeat(129) }),
                vec![r#"["client_ref"] too_long"#],
            ),
            (
                json!({ "type": "text", "to": "15551234567", "text": "hi", "client_ref": 17 }),
                vec![r#"["client_ref"] type"#],
            ),
            (
                json!({ "type": "text", "to": "15551234567", "body": { "type": "text", "text": "hi" } }),
                vec![r#"["type"] conflict"#],
            ),
            (json!({ "to": "15551234567", "body": { "type": "telegram" } }), vec![r#"["body","type"] enum"#]),
            (json!({ "to": "15551234567", "body": { "text": "hi" } }), vec![r#"["type"] required"#]),
            (json!({ "to": "15551234567", "body": { "type": "text" } }), vec![r#"["body","text"] required"#]),
            (json!({ "body": { "type": "text", "text": "hi", "to": "15551234567" } }), vec![r#"["to"] required"#]),
            (
                json!({ "to": "15551234567", "client_ref": "a", "body": { "type": "text", "text": "hi", "client_ref": "a" } }),
                vec![r#"["body","client_ref"] conflict"#],
            ),
            (
                json!({ "to": "x", "client_ref": 1, "body": { "type": "text", "text": "" } }),
                vec![r#"["client_ref"] type"#, r#"["body","text"] too_short"#, r#"["to"] too_short"#],
            ),
        ];
        for (body, expected) in table {
            let error = parse(body.clone()).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidRequest, "{body}");
            let details = error.details.unwrap();
            let line = |issue: &Value| format!("{} {}", issue["path"], issue["code"].as_str().unwrap());
            assert_eq!(details.as_array().unwrap().iter().map(line).collect::<Vec<_>>(), expected, "{body}");
        }
    }

    #[test]
    fn a_known_type_that_is_not_built_says_so() {
        for name in NOT_BUILT {
            let error = parse(json!({ "to": "15551234567", "type": name })).unwrap_err();
            assert_eq!(error.code, ErrorCode::NotImplemented);
            assert_eq!(error.details.unwrap(), json!({ "feature": format!("messages.{name}") }));
        }
    }

    #[test]
    fn lengths_count_scalar_values() {
        let send = |text: String| parse(json!({ "type": "text", "to": "15551234567", "text": text }));
        assert!(send("😀".repeat(4096)).is_ok());
        assert!(send("😀".repeat(4097)).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(Value::from),
            "(text|image|15551234567|\\PC{0,6})".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let key = "(type|to|text|body|client_ref)";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Whatever comes: an error of one of two kinds, or a send that keeps the rules.
        #[test]
        fn any_body_is_refused_or_well_formed(body in any_json()) {
            let Value::Object(map) = body else { return Ok(()) };
            match SendRequest::parse(&map, &Suffixes::simulated()) {
                Ok(SendRequest { content, .. }) => {
                    let length = content.text().map(|text| text.chars().count());
                    prop_assert!(length.is_some_and(|length| (1..=LONGEST_TEXT).contains(&length)));
                }
                Err(error) => {
                    prop_assert!(matches!(error.code, ErrorCode::InvalidRequest | ErrorCode::NotImplemented));
                }
            }
        }
    }
}
