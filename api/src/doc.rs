//! What a route says of itself, in few words; the rest follows from its kind, its path and its parsers.

use model::address::Suffixes;
use model::error::ErrorCode;
use model::field::Body;
use model::target::TargetPolicy;
use salvo::http::HeaderValue;
use salvo::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::packed::Packed;
use crate::query::{Parameter, Query};

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
/// Route::channel(POST, "/v1/channels/{id}/labels", create).doc(
///     Doc::new("create_label", "Create a label")
///         .body(CreateLabel::parse, json!({ "name": "Lead" }))
///         .created::<LabelView>()
///         .errors(&[ErrorCode::NotConnected]),
/// )
/// ```
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
type BodySchema = Box<dyn Fn(&Deployment<'_>) -> Value + Send + Sync>;

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

fn json_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Doc {
    /// `id` in snake case, unique over all routes; `summary` is what the call does, in the imperative.
    pub fn new(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            about: "",
            body: None,
            query: None,
            headers: Vec::new(),
            answers: Vec::new(),
            errors: Vec::new(),
            bearer: false,
        }
    }

    /// What a caller should know beyond the summary.
    pub fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// A JSON body; its schema is what `parser` reads.
    pub fn body<T>(self, parser: impl Fn(&Body) -> T + Send + Sync + 'static, example: Value) -> Self {
        self.json_body(true, Box::new(move |_| Body::outline(&parser)), vec![("example", example)])
    }

    /// As [`body`](Self::body), for a parser whose rules follow from the configuration.
    pub fn body_here<T>(
        self,
        parser: impl Fn(&Body, &Deployment<'_>) -> T + Send + Sync + 'static,
        example: Value,
    ) -> Self {
        let schema = move |here: &Deployment<'_>| Body::outline(|body| parser(body, here));
        self.json_body(true, Box::new(schema), vec![("example", example)])
    }

    /// As [`body`](Self::body), for a route that works without one.
    pub fn optional_body<T>(self, parser: impl Fn(&Body) -> T + Send + Sync + 'static, example: Value) -> Self {
        self.json_body(false, Box::new(move |_| Body::outline(&parser)), vec![("example", example)])
    }

    /// A JSON body whose schema stands beside its parser; examples have names.
    pub fn body_schema(self, schema: fn(&Deployment<'_>) -> Value, examples: Vec<(&'static str, Value)>) -> Self {
        self.json_body(true, Box::new(schema), examples)
    }

    fn json_body(self, required: bool, schema: BodySchema, examples: Vec<(&'static str, Value)>) -> Self {
        let content = BodyContent { media_type: "application/json", schema, examples };
        Self { body: Some(BodyDoc { required, content: vec![content] }), ..self }
    }

    /// A body that is not JSON, or one beside the JSON: types with their schemas.
    pub fn content_body(mut self, types: Vec<(&'static str, Value)>) -> Self {
        let body = self.body.get_or_insert_with(|| BodyDoc { required: true, content: Vec::new() });
        body.content.extend(types.into_iter().map(|(media_type, schema)| BodyContent {
            media_type,
            schema: Box::new(move |_| schema.clone()),
            examples: Vec::new(),
        }));
        self
    }

    /// The parameters of the query: what `parser` reads.
    pub fn query<T>(self, parser: impl Fn(&Query<'static>) -> T + Send + Sync + 'static) -> Self {
        Self { query: Some(Box::new(move || Query::outline(&parser))), ..self }
    }

    /// A header that the route reads; `schema` is JSON Schema.
    pub fn header(mut self, name: &'static str, about: &'static str, schema: Value) -> Self {
        self.headers.push(HeaderDoc { name, about, schema });
        self
    }

    /// 200 with a resource.
    pub fn ok<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::OK, Content::Json(json_of::<T>))
    }

    /// 201 with what was made.
    pub fn created<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::CREATED, Content::Json(json_of::<T>))
    }

    /// 202 with what was set going.
    pub fn accepted<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::ACCEPTED, Content::Json(json_of::<T>))
    }

    /// 204.
    pub fn no_content(self) -> Self {
        self.empty(StatusCode::NO_CONTENT)
    }

    /// A status and no body.
    pub fn empty(self, status: StatusCode) -> Self {
        self.answer(status, Content::None)
    }

    /// A status other than those above, with JSON.
    pub fn json<T: JsonSchema>(self, status: StatusCode) -> Self {
        self.answer(status, Content::Json(json_of::<T>))
    }

    /// 200 with a list that is never paged.
    pub fn list<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::OK, Content::List { row: json_of::<T>, cursor: Cursor::Never })
    }

    /// 200 with a page of a list.
    pub fn page<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::OK, Content::List { row: json_of::<T>, cursor: Cursor::Always })
    }

    /// 200 with a list that is paged when a `limit` is given.
    pub fn list_or_page<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::OK, Content::List { row: json_of::<T>, cursor: Cursor::Sometimes })
    }

    /// 200 with bytes or text of a type.
    pub fn content(self, media_type: &'static str) -> Self {
        self.answer(StatusCode::OK, Content::Other(media_type))
    }

    /// As [`content`](Self::content), with another status.
    pub fn content_as(self, status: StatusCode, media_type: &'static str) -> Self {
        self.answer(status, Content::Other(media_type))
    }

    /// The error envelope under a status that no code has.
    pub fn refusal(self, status: StatusCode) -> Self {
        self.answer(status, Content::Error)
    }

    fn answer(mut self, status: StatusCode, content: Content) -> Self {
        self.answers.push(Answer { status, content });
        self
    }

    /// A public route that reads the caller's token by itself.
    pub fn bearer(self) -> Self {
        Self { bearer: true, ..self }
    }

    /// The network has a part in it.
    pub fn on_network(self) -> Self {
        self.errors(&[ErrorCode::NotConnected, ErrorCode::ChannelUnavailable, ErrorCode::Other])
    }

    /// The codes of this route's own. Those of its kind (key, limits, body, channel, plan) come by themselves; `other`
    /// stands for the network's refusals and silence.
    pub fn errors(mut self, codes: &[ErrorCode]) -> Self {
        self.errors.extend(codes);
        self
    }
}

/// The schema of bytes that are no text.
pub fn binary() -> Value {
    json!({ "type": "string", "format": "binary" })
}
