//! Responses: successes with their headers, and errors by their codes.

use std::collections::{BTreeMap, BTreeSet};

use model::error::ErrorCode;
use model::limit::LimitScope;
use schemars::Schema;
use serde_json::{Map, Value, json};

use super::Parts;
use crate::doc::{Answer, Content, Cursor, binary};
use crate::error::{REFUSED_BY_NETWORK, http_status};
use crate::route::{Action, Route};

const EVENT_STREAM: &str = "text/event-stream";

/// All responses of a route, by status.
pub fn of(route: &Route, answers: &[Answer], errors: &[ErrorCode], parts: &mut Parts<'_>) -> Map<String, Value> {
    let mut all = Map::new();
    for answer in answers {
        let entry = all.entry(answer.status.as_str()).or_insert_with(|| {
            let text = answer.status.canonical_reason().unwrap_or_default();
            json!({ "description": text, "headers": success_headers(route) })
        });
        add_content(entry, &answer.content, parts);
    }
    for (status, codes) in by_status(errors) {
        let name = refused(route, status, codes, parts);
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        // Some routes, such as probes that are not ready, have their own response for a status of errors.
        all.entry(status.to_string()).or_insert(reference);
    }
    all
}

fn add_content(answer: &mut Value, content: &Content, parts: &mut Parts<'_>) {
    match content {
        Content::None => {}
        Content::Json(schema) => {
            let schema = schema(&mut parts.schemas);
            add_json(answer, schema, parts);
        }
        Content::List { row, cursor } => {
            let row = row(&mut parts.schemas);
            add_json(answer, list(&row, *cursor), parts);
        }
        Content::Error => {
            answer["content"]["application/json"] = json!({ "schema": { "$ref": "#/components/schemas/Error" } });
        }
        Content::Other(media_type) => {
            let schema = match media_type {
                // Some clients read the stream as text, and some frame by frame, so it has no type.
                stream if stream.starts_with(EVENT_STREAM) => {
                    json!({ "description": "Frames with `id`, `event` and `data`, a JSON text." })
                }
                text if text.starts_with("text/") => json!({ "type": "string" }),
                // JSON that is no response of a call, such as the document itself, is not described further.
                document if *document == "application/json" => json!({ "type": "object" }),
                _ => binary(),
            };
            answer["content"][media_type] = json!({ "schema": schema });
        }
    }
}

/// Adds a JSON schema. A response with several shapes is any of them.
fn add_json(answer: &mut Value, schema: Schema, parts: &Parts<'_>) {
    let mut schema = schema.to_value();
    parts.texts.describe("", &mut schema);
    let place = &mut answer["content"]["application/json"]["schema"];
    if place.is_null() {
        *place = schema;
    } else if let Some(Value::Array(shapes)) = place.get_mut("anyOf") {
        shapes.push(schema);
    } else {
        *place = json!({ "anyOf": [place.take(), schema] });
    }
}

fn list(row: &Schema, cursor: Cursor) -> Schema {
    let mut list = json!({
        "type": "object",
        "properties": { "data": { "type": "array", "items": row } },
        "required": ["data"],
    });
    if cursor != Cursor::Never {
        list["properties"]["next_cursor"] = json!({ "type": ["string", "null"] });
    }
    if cursor == Cursor::Always {
        list["required"] = json!(["data", "next_cursor"]);
    }
    Schema::try_from(list).unwrap_or_default()
}

fn by_status(codes: &[ErrorCode]) -> BTreeMap<u16, BTreeSet<&'static str>> {
    let mut by_status: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    for code in codes {
        let also = (*code == ErrorCode::Other).then_some(REFUSED_BY_NETWORK);
        for status in [Some(http_status(*code)), also].into_iter().flatten() {
            by_status.entry(status).or_default().insert(code.as_str());
        }
    }
    by_status
}

/// The response for the errors of one status. Routes with the same errors share an entry, whose name is returned.
fn refused(route: &Route, status: u16, codes: BTreeSet<&str>, parts: &mut Parts<'_>) -> String {
    let texts: Vec<&str> = codes.into_iter().collect();
    let counted = is_counted(route);
    let kind = if counted { "" } else { ".uncounted" };
    let name = format!("{status}{kind}.{}", texts.join("."));
    if !parts.responses.contains_key(&name) {
        let example = |code: &str| {
            let error = json!({ "code": code, "message": code.replace('_', " ") });
            json!({ "value": { "error": error, "request_id": "req_0197c0de5eed7000a000c0ffee000001" } })
        };
        let examples: Map<String, Value> = texts.iter().map(|code| ((*code).to_owned(), example(code))).collect();
        let response = json!({
            "description": texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", "),
            "headers": error_headers(status, counted),
            "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/Error" }, "examples": examples },
            },
        });
        parts.responses.insert(name.clone(), response);
    }
    name
}

/// Whether a bucket of an account is charged for the route's calls.
fn is_counted(route: &Route) -> bool {
    matches!(route.action, Action::Account(_) | Action::Channel(_))
}

const RATE_LIMIT: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Scope"];

fn success_headers(route: &Route) -> Value {
    let mut headers = references(&["X-Request-Id"]);
    if is_counted(route) {
        headers.extend(references(&RATE_LIMIT));
    }
    Value::Object(headers)
}

fn error_headers(status: u16, counted: bool) -> Value {
    let mut headers = references(&["X-Request-Id"]);
    match status {
        401 => headers.extend(references(&["WWW-Authenticate"])),
        429 => headers.extend(references(&RATE_LIMIT)),
        _ => {}
    }
    if matches!(status, 429 | 503) {
        headers.extend(references(&["Retry-After"]));
    }
    // Refusals before a bucket is charged, such as for an unconfirmed address, have no rate limit headers.
    if counted && matches!(status, 400 | 402 | 404 | 409 | 413 | 422 | 501) {
        headers.extend(references(&RATE_LIMIT));
    }
    Value::Object(headers)
}

fn references(names: &[&str]) -> Map<String, Value> {
    let reference = |name: &str| (name.to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
    names.iter().map(|name| reference(name)).collect()
}

/// The response headers: the request's id, and the levels of the buckets.
pub fn headers() -> Value {
    let header = |about: &str, schema: Value| json!({ "description": about, "required": true, "schema": schema });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let id = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{8,64}$" });
    json!({
        "X-Request-Id": header("The id of the request, for support and logs.", id),
        "X-RateLimit-Limit": header("The capacity of the bucket that decides.", count()),
        "X-RateLimit-Remaining": header("The tokens that are left in it.", count()),
        "X-RateLimit-Scope": header("Which bucket it is.", json!({ "type": "string", "enum": LimitScope::WORDS })),
        "Retry-After": header("After how many seconds to try again.", json!({ "type": "integer", "minimum": 1 })),
        "WWW-Authenticate": header("`Bearer`.", json!({ "type": "string" })),
    })
}

/// The body of every error: the code with its message and details, and the request's id.
pub fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error", "request_id"],
        "properties": {
            "error": {
                "type": "object",
                "title": "ErrorBody",
                "required": ["code", "message"],
                "properties": {
                    "code": {
                        "type": "string",
                        "description": "A stable code, for programs. The list is open: have a default branch.",
                        "examples": ErrorCode::WORDS,
                    },
                    "message": { "type": "string", "description": "An explanation for people; it may change." },
                    "details": {
                        "description": "Facts that go with the code. With `invalid_request`, a list of issues with `path`, `code` and `message`.",
                    },
                },
            },
            "request_id": { "type": "string" },
        },
    })
}
