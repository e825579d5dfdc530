//! The operation of a route in the document: parameters, responses, security.

use std::collections::BTreeSet;

use model::error::ErrorCode;
use model::scope::Resource;
use serde_json::{Map, Value, json};

use super::{Parts, answers, parameters};
use crate::doc::{BodyDoc, Doc};
use crate::route::{Action, EVENTS_PATH, Grant, Route, resource_of};

/// Builds an Operation Object.
pub fn of(route: &Route, doc: &Doc, parts: &mut Parts<'_>) -> Value {
    let errors = errors(route, doc);
    let mut operation = json!({
        "operationId": doc.id,
        "summary": doc.summary,
        "tags": [tag(route.path)],
        "security": security(route, doc),
        "responses": answers::of(route, &doc.answers, &errors, parts),
    });
    let about = about(route, doc);
    if !about.is_empty() {
        operation["description"] = json!(about);
    }
    let parameters = parameters_of(route, doc);
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(body) = &doc.body {
        operation["requestBody"] = request_body(doc.id, body, parts);
    }
    operation
}

/// The description of a route, and what it requires of a key.
fn about(route: &Route, doc: &Doc) -> String {
    let needs = match (&route.action, route.rules.grant) {
        (Action::Public(_) | Action::Operator(_), _) => String::new(),
        (_, Grant::Scope(resource, access)) => {
            format!("Needs the scope `{}.{}`.", resource.as_str(), access.as_str())
        }
        (_, Grant::Account(_)) => "Needs an unrestricted key, or a dashboard session.".to_owned(),
        (_, Grant::Session) => "Needs a dashboard session; a key will not do.".to_owned(),
    };
    [doc.about, needs.as_str()].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn security(route: &Route, doc: &Doc) -> Value {
    match &route.action {
        Action::Public(_) if !doc.bearer => json!([]),
        // The only route that a browser can open without a header.
        Action::Account(_) if route.path == EVENTS_PATH => {
            json!([{ "bearer": [] }, { "ticket": [] }])
        }
        _ => json!([{ "bearer": [] }]),
    }
}

fn parameters_of(route: &Route, doc: &Doc) -> Vec<Value> {
    let mut all = Vec::new();
    for name in parameters::names(route.path) {
        let (schema, about) = parameters::of_path(route.path, name).unwrap_or((json!({ "type": "string" }), ""));
        all.push(json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema }));
    }
    for parameter in doc.query.iter().flat_map(|query| query()) {
        let mut shown = json!({ "name": parameter.name, "in": "query", "schema": parameter.schema });
        if parameter.required {
            shown["required"] = json!(true);
        }
        if parameter.schema["type"] == "array" {
            shown["style"] = json!("form");
            shown["explode"] = json!(parameter.repeated);
        }
        all.push(shown);
    }
    for header in &doc.headers {
        all.push(json!({
            "name": header.name, "in": "header", "description": header.about, "schema": header.schema,
        }));
    }
    all
}

fn request_body(operation: &str, body: &BodyDoc, parts: &mut Parts<'_>) -> Value {
    let mut content = Map::new();
    for kind in &body.content {
        let mut schema = (kind.schema)(parts.deployment);
        name_shapes(&mut schema, parts);
        parts.texts.describe(operation, &mut schema);
        let mut shown = json!({ "schema": schema });
        if !kind.examples.is_empty() {
            let named = kind.examples.iter().map(|(name, value)| ((*name).to_owned(), json!({ "value": value })));
            shown["examples"] = Value::Object(named.collect());
            // An object has no order, so the page takes the first example from here.
            if let [(first, _), _, ..] = kind.examples.as_slice() {
                shown["x-first-example"] = json!(first);
            }
        }
        content.insert(kind.media_type.to_owned(), shown);
    }
    json!({ "required": body.required, "content": content })
}

/// Moves titled shapes of a body to the document's types.
fn name_shapes(schema: &mut Value, parts: &mut Parts<'_>) {
    for shape in schema.get_mut("anyOf").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(name) = shape.get("title").and_then(Value::as_str).map(str::to_owned) else { continue };
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        parts.shapes.insert(name, std::mem::replace(shape, reference));
    }
}

/// The error codes of the route and of its kind.
pub fn errors(route: &Route, doc: &Doc) -> Vec<ErrorCode> {
    use ErrorCode as E;
    let mut codes = vec![E::InternalError, E::RateLimited, E::WorkerAtCapacity];
    if !matches!(route.action, Action::Public(_)) {
        codes.extend([E::AuthMissing, E::AuthMalformed, E::AuthInvalid, E::InsufficientScope]);
    }
    if matches!(route.action, Action::Account(_) | Action::Channel(_)) {
        codes.extend([E::AuthExpired, E::AuthRevoked, E::AuthNoEmail, E::AuthBackendUnavailable]);
    }
    if matches!(route.action, Action::Channel(_)) {
        codes.extend([E::ChannelNotFound, E::ChannelAccessDenied]);
    }
    if route.rules.multi_channel {
        codes.push(E::ChannelScopedKey);
    }
    if route.rules.plan_blocks {
        codes.extend([E::TrialExpired, E::PaymentOverdue]);
    }
    if doc.body.is_some() {
        codes.extend([E::InvalidRequest, E::BadRequest, E::PayloadTooLarge, E::StorageFull]);
    }
    if doc.query.is_some() || parameters::has_bounds(route.path) {
        codes.push(E::InvalidRequest);
    }
    codes.extend(parameters::names(route.path).filter_map(|name| parameters::missing(route.path, name)));
    codes.extend(&doc.errors);
    codes
}

/// The tags that come first in the document. The others follow in alphabetical order.
const FIRST_TAGS: [&str; 10] =
    ["Channels", "Messages", "Webhooks", "Events", "Media", "Contacts", "Chats", "Groups", "API Keys", "Account"];

/// The tag of a path: its feature area.
fn tag(path: &str) -> String {
    let mut segments = path.strip_prefix("/v1/").unwrap_or_default().split('/');
    let named = match (segments.next().unwrap_or_default(), resource_of(path)) {
        ("account" | "auth", _) => "Account",
        ("support", _) => "Support",
        ("admin", _) => operators_tag(segments.next().unwrap_or_default()),
        ("status", _) | (_, None) => "Status",
        (_, Some(Resource::Blacklist)) => "Contacts",
        (_, Some(Resource::Presences)) => "Presence",
        (_, Some(Resource::Keys)) => "API Keys",
        (_, Some(Resource::Limits | Resource::Metrics)) => "Rate limits",
        // All other tags are named like the scope.
        (_, Some(resource)) => {
            let (first, rest) = resource.as_str().split_at(1);
            return first.to_uppercase() + rest;
        }
    };
    named.to_owned()
}

/// The tag of an operator's path, by the segment after `/v1/admin/`.
fn operators_tag(segment: &str) -> &'static str {
    match segment {
        "customers" => "Customers",
        "channels" => "Channels",
        "messages" | "webhooks" => "Messages and webhooks",
        "nodes" => "Nodes",
        "layout" | "shards" | "replicas" | "format" => "Layout",
        "keys" | "tokens" | "secrets" => "Keys and secrets",
        "backup" => "Backups",
        "support" => "Support",
        _ => "Health and audit",
    }
}

/// The tags that the routes use, each once.
pub fn tags(routes: &[Route]) -> Value {
    let place = |name: &str| FIRST_TAGS.iter().position(|first| *first == name).unwrap_or(FIRST_TAGS.len());
    let used: BTreeSet<(usize, String)> =
        routes.iter().map(|route| tag(route.path)).map(|name| (place(&name), name)).collect();
    used.into_iter().map(|(_, name)| json!({ "name": name })).collect()
}
