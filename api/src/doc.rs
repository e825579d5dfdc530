//! What a route says of itself, in few words; the rest follows from its kind, its path and its parsers.

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

/// What the document says of the deployment that serves it: some rules of bodies follow from its configuration.
pub struct Deployment<'a> {
    pub suffixes: &'a Suffixes,
    /// Which URLs may be called.
    pub target_policy: &'a TargetPolicy,
    /// How long media is kept.
    pub media_days: u64,
}

/// A port's document as it is sent.
pub struct Document {
    pub text: Packed,
    pub etag: HeaderValue,
    /// The tag of its compressed forms.
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

/// The part of a route's declaration that the document shows.
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
    /// The operation's id: the name of the function in generated clients.
    pub id: &'static str,
    pub summary: &'static str,
    pub about: &'static str,
    pub body: Option<BodyDoc>,
    pub query: Option<Box<dyn Fn() -> Vec<Parameter> + Send + Sync>>,
    pub headers: Vec<HeaderDoc>,
    pub answers: Vec<Answer>,
    pub errors: Vec<ErrorCode>,
    /// A public route that reads the caller's token by itself.
    pub bearer: bool,
}

/// A request's body.
pub struct BodyDoc {
    pub required: bool,
    pub content: Vec<BodyContent>,
}

/// Makes the JSON Schema of a body.
pub type BodySchema = Box<dyn Fn(&Deployment<'_>) -> Value + Send + Sync>;

pub struct BodyContent {
    pub media_type: &'static str,
    pub schema: BodySchema,
    /// Names and values.
    pub examples: Vec<(&'static str, Value)>,
}

/// A request's header.
pub struct HeaderDoc {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Value,
}

/// An answer that is no error.
pub struct Answer {
    pub status: StatusCode,
    pub content: Content,
}

pub enum Content {
    None,
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Rows of a type under `data`, with `next_cursor` where the list is paged.
    List {
        row: fn(&mut SchemaGenerator) -> Schema,
        cursor: Cursor,
    },
    /// The envelope of an error.
    Error,
    /// Bytes or text of this type.
    Other(&'static str),
}

/// Whether a list bears `next_cursor`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    Never,
    Always,
    /// When a `limit` was given.
    Sometimes,
}

impl Doc {
    /// `id` in snake case, unique over all routes; `summary` is what the call does, in the imperative.
    pub fn new(id: &'static str, summary: &'static str) -> Self {
        Self { id, summary, ..Self::default() }
    }
}

/// The schema of bytes that are no text.
pub fn binary() -> Value {
    json!({ "type": "string", "format": "binary" })
}
