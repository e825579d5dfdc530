//! What a route's documentation says beyond what follows from the route's kind, path and parsers.

use model::address::Suffixes;
use model::error::ErrorCode;
use model::target::TargetPolicy;
use salvo::http::HeaderValue;
use salvo::http::StatusCode;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::packed::Packed;
use crate::query::Parameter;

/// The configuration of the deployment that some schemas of bodies depend on.
pub struct Deployment<'a> {
    pub suffixes: &'a Suffixes,
    /// The URLs that webhooks and the like may call.
    pub target_policy: &'a TargetPolicy,
    /// Retention of media, in days.
    pub media_days: u64,
}

/// A port's OpenAPI document, ready to send.
pub struct Document {
    pub text: Packed,
    pub etag: HeaderValue,
    /// The ETag of its compressed forms.
    pub weak_etag: HeaderValue,
}

impl Document {
    pub fn new(document: &Value) -> Self {
        let text = document.to_string();
        let tag = format!("\"{}\"", Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).simple());
        let header = |tag: String| HeaderValue::try_from(tag).expect("hex digits in quotes are a header's value");
        Self { text: Packed::new(text), weak_etag: header(format!("W/{tag}")), etag: header(tag) }
    }
}

/// What a route's declaration says for the document.
///
/// ```text
/// Route::channel(POST, "/v1/channels/{id}/labels", create)
///     .doc("create_label", "Create a label")
///     .body(CreateLabel::parse, json!({ "name": "Lead" }))
///     .created::<LabelView>()
///     .errors(&[ErrorCode::NotConnected]),
/// ```
#[derive(Default)]
pub struct Doc {
    /// The operation id, which names the function in generated clients.
    pub id: &'static str,
    pub summary: &'static str,
    pub about: &'static str,
    pub body: Option<BodyDoc>,
    pub query: Option<Box<dyn Fn() -> Vec<Parameter> + Send + Sync>>,
    pub headers: Vec<HeaderDoc>,
    pub answers: Vec<Answer>,
    pub errors: Vec<ErrorCode>,
    /// Whether a public route reads the caller's token itself.
    pub bearer: bool,
}

/// The body of a request.
pub struct BodyDoc {
    pub required: bool,
    pub content: Vec<BodyContent>,
}

/// Builds the JSON Schema of a body.
pub type BodySchema = Box<dyn Fn(&Deployment<'_>) -> Value + Send + Sync>;

pub struct BodyContent {
    pub media_type: &'static str,
    pub schema: BodySchema,
    /// Pairs of name and value.
    pub examples: Vec<(&'static str, Value)>,
}

/// A header of a request.
pub struct HeaderDoc {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Value,
}

/// A response that is no error, or one with a status that no error code has.
pub struct Answer {
    pub status: StatusCode,
    pub content: Content,
}

pub enum Content {
    None,
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// An object with rows of one type under `data`, and `next_cursor` if the list is paged.
    List {
        row: fn(&mut SchemaGenerator) -> Schema,
        cursor: Cursor,
    },
    /// The error envelope.
    Error,
    /// Bytes or text of this media type.
    Other(&'static str),
}

/// Whether a list has `next_cursor`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    Never,
    Always,
    /// Only when a `limit` was given.
    Sometimes,
}

impl Doc {
    /// `id` is in snake case and unique over all routes; `summary` says what the call does, in the imperative.
    pub fn new(id: &'static str, summary: &'static str) -> Self {
        Self { id, summary, ..Self::default() }
    }
}

/// The schema of binary bytes.
pub fn binary() -> Value {
    json!({ "type": "string", "format": "binary" })
}
