//! What a route declares.
//!
//! A declaration reads like a line of the interface: method, path and handler. Its constructor decides who may call the
//! route, and what the handler gets:
//!
//! | constructor | checks before the handler | the handler gets |
//! |---|---|---|
//! | `public` | per-IP bucket | [`RequestContext`] |
//! | `account` | also key, customer bucket, scope, plan | [`AccountCall`] |
//! | `channel` | also channel bucket, channel lookup, key binding | [`ChannelCall`] |
//! | `operator` | operator token and its role | [`OperatorCall`] |
//!
//! Then `.doc(...)` and later calls add what the port's OpenAPI document (`GET /openapi.json`) needs beyond that:
//!
//! ```text
//! Route::channel(POST, "/v1/channels/{id}/labels", labels::create)
//!     .doc("create_label", "Create a label")                // operation id (unique), summary
//!     .body(CreateLabel::parse, json!({ "name": "Lead" }))  // the parser is the schema; an example
//!     .created::<LabelView>()                               // the answer: a type with JsonSchema
//!     .errors(&[ErrorCode::NotConnected]),                  // codes of this route's own
//! Route::channel(GET, "/v1/channels/{id}/labels", labels::list)
//!     .doc("list_labels", "List labels")
//!     .query(|query| Filter::read(query, ListId::only()))
//!     .page::<LabelView>(),
//! ```
//!
//! - Common error codes are added automatically: those of keys, scopes and buckets by the constructor;
//!   `invalid_request`, `bad_request` and `payload_too_large` with a body; `invalid_request` with a query; 402 with
//!   `plan_blocks`; `channel_not_found` with `channel`; and the code for a path that names nothing
//!   (`openapi/parameters.rs`). Name the rest; `Other` stands for the network's 422 and 502.
//! - A body's parser takes `&Body` and reads [`Fields`](model::field::Fields). It is also run without a body to collect
//!   the fields that it reads, so it must read every field whatever the others contain. Pass further arguments in a
//!   closure: `.body(|body| CreateKey::parse(body, Timestamp(0)), example)`. A custom rule starts with a rule of
//!   [`rule`](model::field::rule), or with `rule::string(value, || json!({ "pattern": ... }))?`, so that its schema is
//!   known. The example must pass the parser.
//! - A query's parser takes a [`&Query`](crate::query::Query) in the same way. It is a function of its own, because the
//!   handler ([`asked`](RequestContext::asked)) and the document share it.
//! - Responses: `ok`, `created`, `accepted`, `no_content`; `list` and `page` for `{ "data": [...] }`; `content` for
//!   bytes. Types derive `schemars::JsonSchema` under the interface's name: their own if no other type has it, or else
//!   by `#[schemars(rename = "Label")]`. A `&'static str` of few words gets `#[schemars(extend("enum" = ["a", "b"]))]`.
//! - A new name of a path parameter (`{label_id}`) is declared in `openapi/parameters.rs`.

use futures::future::BoxFuture;
use model::address::Suffixes;
use model::error::ErrorCode;
use model::field::Body;
use model::scope::{Access, Resource};
use salvo::http::{Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::doc::{Answer, BodyContent, BodyDoc, BodySchema, Content, Cursor, Deployment, Doc, HeaderDoc};
use crate::query::Query;
use crate::reply::Outcome;
use crate::request_context::{AccountCall, ChannelCall, OperatorCall, RequestContext};

/// The path where event streams are opened.
pub const EVENTS_PATH: &str = "/v1/events";

/// The path that lists the event types.
pub const EVENT_TYPES_PATH: &str = "/v1/event-types";

/// The methods of routes.
pub const GET: Method = Method::GET;
pub const POST: Method = Method::POST;
pub const PUT: Method = Method::PUT;
pub const PATCH: Method = Method::PATCH;
pub const DELETE: Method = Method::DELETE;

/// A handler: an `async fn(&mut Call) -> Outcome`.
pub trait Endpoint<C>: Send + Sync {
    fn call<'a>(&'a self, call: &'a mut C) -> BoxFuture<'a, Outcome>;
}

/// Names the future of a handler for one lifetime, which a bound on the function itself cannot.
pub trait AsyncEndpoint<'a, C: 'a>: Send + Sync {
    type Answer: Future<Output = Outcome> + Send + 'a;
    fn start(&self, call: &'a mut C) -> Self::Answer;
}

impl<'a, C: 'a, F, Answer> AsyncEndpoint<'a, C> for F
where
    F: Fn(&'a mut C) -> Answer + Send + Sync,
    Answer: Future<Output = Outcome> + Send + 'a,
{
    type Answer = Answer;
    fn start(&self, call: &'a mut C) -> Answer {
        self(call)
    }
}

impl<C: 'static, F> Endpoint<C> for F
where
    F: for<'a> AsyncEndpoint<'a, C>,
{
    fn call<'a>(&'a self, call: &'a mut C) -> BoxFuture<'a, Outcome> {
        Box::pin(self.start(call))
    }
}

/// Chains the routes of modules.
macro_rules! routes_of {
    ($($module:ident)*) => { [$($module::routes()),*].into_iter().flatten() };
}

pub(crate) use routes_of;

/// Who may call a route, and its handler.
pub enum Action {
    Public(Box<dyn Endpoint<RequestContext>>),
    Account(Box<dyn Endpoint<AccountCall>>),
    Channel(Box<dyn Endpoint<ChannelCall>>),
    Operator(Box<dyn Endpoint<OperatorCall>>),
}

/// What a route requires of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    Scope(Resource, Access),
    /// No resource of the scopes: requires an unrestricted key, or a dashboard session.
    Account(Access),
    /// Requires a dashboard session; no key is enough.
    Session,
}

/// The part of a declaration that the checks need.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub grant: Grant,
    /// Keys that are bound to a channel are refused with `channel_scoped_key`.
    pub multi_channel: bool,
    /// An expired trial (`trial_expired`) or an overdue payment (`payment_overdue`) blocks the route.
    pub plan_blocks: bool,
    /// The route also works while the directory has no leader, from the node's last copy or on this node alone.
    pub old_directory: bool,
    /// The access that the operator's role needs.
    pub operator_access: Access,
}

/// One route: a method on a path.
pub struct Route {
    pub method: Method,
    /// The path as the interface writes it, with `{name}` for parameters.
    pub path: &'static str,
    pub rules: Rules,
    pub action: Action,
    /// The route's documentation in the port's document. A test requires it of every route.
    pub doc: Option<Doc>,
}

impl Route {
    pub fn public(method: Method, path: &'static str, endpoint: impl Endpoint<RequestContext> + 'static) -> Self {
        Self::new(method, path, Action::Public(Box::new(endpoint)))
    }

    pub fn account(method: Method, path: &'static str, endpoint: impl Endpoint<AccountCall> + 'static) -> Self {
        Self::new(method, path, Action::Account(Box::new(endpoint)))
    }

    pub fn channel(method: Method, path: &'static str, endpoint: impl Endpoint<ChannelCall> + 'static) -> Self {
        Self::new(method, path, Action::Channel(Box::new(endpoint)))
    }

    /// An operator's route. Reads work without a majority of the directory's voters, so that operators can see why.
    pub fn operator(method: Method, path: &'static str, endpoint: impl Endpoint<OperatorCall> + 'static) -> Self {
        let mut route = Self::new(method, path, Action::Operator(Box::new(endpoint)));
        route.rules.old_directory = route.method == Method::GET;
        route
    }

    fn new(method: Method, path: &'static str, action: Action) -> Self {
        let access = Access::of_method(method.as_str());
        let grant = resource_of(path).map_or(Grant::Account(access), |resource| Grant::Scope(resource, access));
        let rules =
            Rules { grant, multi_channel: false, plan_blocks: false, old_directory: false, operator_access: access };
        Self { method, path, rules, action, doc: None }
    }

    /// Refuses keys that are bound to a channel.
    pub fn multi_channel(mut self) -> Self {
        self.rules.multi_channel = true;
        self
    }

    /// Refuses keys; only a member with a dashboard session may call the route.
    pub fn session(mut self) -> Self {
        self.rules.grant = Grant::Session;
        self
    }

    /// Refuses accounts with an expired trial or an overdue payment.
    pub fn plan_blocks(mut self) -> Self {
        self.rules.plan_blocks = true;
        self
    }

    /// Allows operators with read access, since the route changes nothing, whatever its method is.
    pub fn looks(mut self) -> Self {
        self.rules.operator_access = Access::Read;
        self
    }

    /// Requires write access of operators, since the route hands out the data of all customers.
    pub fn hands_out(mut self) -> Self {
        self.rules.operator_access = Access::Write;
        self
    }

    /// Marks a route that acts on this node alone and does not need the directory.
    pub fn alone(mut self) -> Self {
        self.rules.old_directory = true;
        self
    }
}

/// The parts of a route's documentation, for `GET /openapi.json`.
impl Route {
    /// Starts the documentation; must come before the other calls. `id` is in snake case and unique over all routes;
    /// `summary` says what the call does, in the imperative.
    pub fn doc(self, id: &'static str, summary: &'static str) -> Self {
        Self { doc: Some(Doc::new(id, summary)), ..self }
    }

    /// Applies documentation that several routes share.
    pub fn also(self, more: impl FnOnce(Self) -> Self) -> Self {
        more(self)
    }

    fn say(mut self, say: impl FnOnce(&mut Doc)) -> Self {
        say(self.doc.as_mut().expect("a route says first what it does"));
        self
    }

    /// What callers should know beyond the summary.
    pub fn about(self, about: &'static str) -> Self {
        self.say(|doc| doc.about = about)
    }

    /// A JSON body. Its schema is what `parser` reads.
    pub fn body<T>(self, parser: impl Fn(&Body) -> T + Send + Sync + 'static, example: Value) -> Self {
        self.json_body(true, Box::new(move |_| Body::outline(&parser)), vec![("example", example)])
    }

    /// Like [`body`](Self::body), for a parser whose rules depend on the configuration.
    pub fn body_here<T>(
        self,
        parser: impl Fn(&Body, &Deployment<'_>) -> T + Send + Sync + 'static,
        example: Value,
    ) -> Self {
        let schema = move |here: &Deployment<'_>| Body::outline(|body| parser(body, here));
        self.json_body(true, Box::new(schema), vec![("example", example)])
    }

    /// Like [`body`](Self::body), for a parser that reads addresses.
    pub fn addressed_body<T>(
        self,
        parser: impl Fn(&Body, &Suffixes) -> T + Send + Sync + 'static,
        example: Value,
    ) -> Self {
        self.body_here(move |body, here| parser(body, here.suffixes), example)
    }

    /// Like [`body`](Self::body), for an optional body.
    pub fn optional_body<T>(self, parser: impl Fn(&Body) -> T + Send + Sync + 'static, example: Value) -> Self {
        self.json_body(false, Box::new(move |_| Body::outline(&parser)), vec![("example", example)])
    }

    /// A JSON body whose schema is written beside its parser, with named examples.
    pub fn body_schema(self, schema: fn(&Deployment<'_>) -> Value, examples: Vec<(&'static str, Value)>) -> Self {
        self.json_body(true, Box::new(schema), examples)
    }

    fn json_body(self, required: bool, schema: BodySchema, examples: Vec<(&'static str, Value)>) -> Self {
        let content = BodyContent { media_type: "application/json", schema, examples };
        self.say(|doc| doc.body = Some(BodyDoc { required, content: vec![content] }))
    }

    /// A body that is not JSON, or an alternative to the JSON body: media types with their schemas.
    pub fn content_body(self, types: Vec<(&'static str, Value)>) -> Self {
        let contents = types.into_iter().map(|(media_type, schema)| BodyContent {
            media_type,
            schema: Box::new(move |_| schema.clone()),
            examples: Vec::new(),
        });
        self.say(|doc| {
            let body = doc.body.get_or_insert_with(|| BodyDoc { required: true, content: Vec::new() });
            body.content.extend(contents);
        })
    }

    /// The query parameters that `parser` reads.
    pub fn query<T>(self, parser: impl Fn(&Query<'static>) -> T + Send + Sync + 'static) -> Self {
        self.say(|doc| doc.query = Some(Box::new(move || Query::outline(&parser))))
    }

    /// A header that the route reads; `schema` is JSON Schema.
    pub fn header(self, name: &'static str, about: &'static str, schema: Value) -> Self {
        self.say(|doc| doc.headers.push(HeaderDoc { name, about, schema }))
    }

    /// 200 with a resource.
    pub fn ok<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::OK, Content::Json(json_of::<T>))
    }

    /// 201 with the created resource.
    pub fn created<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::CREATED, Content::Json(json_of::<T>))
    }

    /// 202 with what was started.
    pub fn accepted<T: JsonSchema>(self) -> Self {
        self.answer(StatusCode::ACCEPTED, Content::Json(json_of::<T>))
    }

    /// 204.
    pub fn no_content(self) -> Self {
        self.empty(StatusCode::NO_CONTENT)
    }

    /// A status without a body.
    pub fn empty(self, status: StatusCode) -> Self {
        self.answer(status, Content::None)
    }

    /// JSON with another status than those above.
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

    /// 200 with bytes or text of a media type.
    pub fn content(self, media_type: &'static str) -> Self {
        self.answer(StatusCode::OK, Content::Other(media_type))
    }

    /// Like [`content`](Self::content), with another status.
    pub fn content_as(self, status: StatusCode, media_type: &'static str) -> Self {
        self.answer(status, Content::Other(media_type))
    }

    /// The error envelope with a status that no error code has.
    pub fn refusal(self, status: StatusCode) -> Self {
        self.answer(status, Content::Error)
    }

    fn answer(self, status: StatusCode, content: Content) -> Self {
        self.say(|doc| doc.answers.push(Answer { status, content }))
    }

    /// Declares that a public route reads the caller's token itself.
    pub fn bearer(self) -> Self {
        self.say(|doc| doc.bearer = true)
    }

    /// Adds the error codes of routes that call the network.
    pub fn on_network(self) -> Self {
        self.errors(&[ErrorCode::NotConnected, ErrorCode::ChannelUnavailable, ErrorCode::Other])
    }

    /// Adds the route's own error codes. Those of its kind (key, limits, body, channel, plan) are added automatically.
    /// `other` stands for refusals and timeouts of the network.
    pub fn errors(self, codes: &[ErrorCode]) -> Self {
        self.say(|doc| doc.errors.extend(codes))
    }
}

fn json_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The scope resource of a path: the first segment after the channel id, `channels` if there is none, and for some
/// paths a resource of another name. `None` if no resource of the scopes fits.
pub fn resource_of(path: &str) -> Option<Resource> {
    let mut segments = path.trim_start_matches("/v1/").split('/');
    match segments.next()? {
        "channels" => match segments.nth(1) {
            None => Some(Resource::Channels),
            Some("contacts") if matches!(segments.nth(1), Some("catalog" | "business-profile")) => {
                Some(Resource::Business)
            }
            Some("chats") if segments.nth(1) == Some("labels") => Some(Resource::Labels),
            // Other calls, such as lifecycle calls, belong to the channel itself.
            Some(part) => Resource::parse(part).or(Some(Resource::Channels)),
        },
        "webhook-endpoints" | "webhook-deliveries" | "event-types" => Some(Resource::Webhooks),
        "api-keys" => Some(Resource::Keys),
        other => Resource::parse(other),
    }
}

/// All methods of one path.
pub struct PathRoutes {
    pub path: &'static str,
    pub routes: Vec<Route>,
}

impl PathRoutes {
    /// The route of a method; `HEAD` is answered as `GET`.
    pub fn find(&self, method: &Method) -> Option<&Route> {
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        self.routes.iter().find(|route| route.method == *wanted)
    }

    /// The value of the `Allow` header.
    pub fn allowed(&self) -> String {
        let mut methods: Vec<&str> = self.routes.iter().map(|route| route.method.as_str()).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.join(", ")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn the_scope_follows_from_the_path() {
        let table = [
            ("/v1/channels", Some(Resource::Channels)),
            ("/v1/channels/{id}", Some(Resource::Channels)),
            ("/v1/channels/{id}/qr", Some(Resource::Channels)),
            ("/v1/channels/{id}/status-history", Some(Resource::Channels)),
            ("/v1/channels/{id}/messages", Some(Resource::Messages)),
            ("/v1/channels/{id}/presences/{contact_id}", Some(Resource::Presences)),
            ("/v1/channels/{id}/stories", Some(Resource::Stories)),
            ("/v1/channels/{id}/business/products/{product_id}", Some(Resource::Business)),
            ("/v1/channels/{id}/contacts/{contact_id}/catalog", Some(Resource::Business)),
            ("/v1/channels/{id}/contacts/{contact_id}/business-profile", Some(Resource::Business)),
            ("/v1/channels/{id}/contacts/{contact_id}/picture", Some(Resource::Contacts)),
            ("/v1/channels/{id}/calls/{call_id}/accept", Some(Resource::Calls)),
            ("/v1/channels/{id}/labels/{label_id}/chats/{chat_id}", Some(Resource::Labels)),
            ("/v1/channels/{id}/chats/{chat_id}/labels", Some(Resource::Labels)),
            ("/v1/channels/{id}/chats/{chat_id}", Some(Resource::Chats)),
            ("/v1/messages", Some(Resource::Messages)),
            ("/v1/messages/{message_id}/deliveries", Some(Resource::Messages)),
            ("/v1/webhook-endpoints/{id}/signing-secret", Some(Resource::Webhooks)),
            ("/v1/webhook-deliveries", Some(Resource::Webhooks)),
            ("/v1/api-keys/{id}", Some(Resource::Keys)),
            ("/v1/limits", Some(Resource::Limits)),
            ("/v1/events", Some(Resource::Events)),
            ("/v1/metrics", Some(Resource::Metrics)),
            ("/v1/account", None),
            ("/v1/account/audit-log", None),
        ];
        for (path, resource) in table {
            assert_eq!(resource_of(path), resource, "{path}");
        }
    }

    #[test]
    fn head_is_get_and_other_methods_are_listed() {
        async fn nothing(_: &mut RequestContext) -> Outcome {
            Ok(crate::reply::Reply::no_content())
        }
        let routes = vec![Route::public(GET, "/healthz", nothing), Route::public(DELETE, "/healthz", nothing)];
        let paths = PathRoutes { path: "/healthz", routes };
        assert_eq!(paths.find(&Method::HEAD).unwrap().method, Method::GET);
        assert!(paths.find(&Method::POST).is_none());
        assert_eq!(paths.allowed(), "GET, DELETE, HEAD");
    }

    #[test]
    fn a_declaration_carries_its_rules() {
        async fn nothing(_: &mut AccountCall) -> Outcome {
            Ok(crate::reply::Reply::no_content())
        }
        let declared = Route::account(POST, "/v1/channels", nothing).multi_channel().plan_blocks();
        assert_eq!(declared.rules.grant, Grant::Scope(Resource::Channels, Access::Write));
        assert!(declared.rules.multi_channel && declared.rules.plan_blocks);
    }
}
