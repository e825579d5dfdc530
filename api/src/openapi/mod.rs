//! The OpenAPI 3.1 document of a port, generated from the routes' declarations.
//!
//! - `operation`: one route, from its documentation ([`Doc`](crate::doc::Doc)). `events`: webhooks. `answers`:
//!   successes, errors and their headers. `parameters`: path parameters. `fields`: descriptions of fields. `pages`: the
//!   public routes.

mod answers;
mod events;
mod fields;
mod operation;
mod pages;
mod parameters;

pub use crate::doc::{Deployment, binary};
pub use events::{example as event_example, schema as event_schema};
pub use pages::{document_of, routes};
pub use parameters::{judge as judge_parameter, names as parameters_of};

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::route::{EVENT_TYPES_PATH, Route};

/// The version of the interface.
const VERSION: &str = "v1";

const ABOUT: &str = "\
Every response has an `X-Request-Id`; a caller's own (8 to 64 of `A-Z a-z 0-9 _ -`) is kept. Errors have the shape of \
`Error`: check `error.code`, and expect codes that are not listed here. Unknown fields of bodies and unknown \
parameters are ignored. On 429 and 503 wait for `Retry-After`.";

/// The state that the parts of a document share while it is built.
struct Parts<'a> {
    deployment: &'a Deployment<'a>,
    schemas: SchemaGenerator,
    responses: Map<String, Value>,
    /// Named shapes of bodies.
    shapes: Map<String, Value>,
    texts: fields::Texts,
}

/// The settings of the schema generator.
fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        settings.transforms.push(Box::new(RecursiveTransform(fold_words)));
        settings.transforms.push(Box::new(RecursiveTransform(open)));
    })
}

/// Builds the document of a port.
pub fn document(title: &str, routes: &[Route], deployment: &Deployment<'_>) -> Value {
    let mut parts = Parts {
        deployment,
        schemas: settings().into_generator(),
        responses: Map::new(),
        shapes: Map::new(),
        texts: fields::Texts::default(),
    };
    let mut paths = Map::new();
    for route in routes {
        let Some(doc) = &route.doc else { continue };
        let operation = operation::of(route, doc, &mut parts);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let tells_events = routes.iter().any(|route| route.path == EVENT_TYPES_PATH);
    let webhooks = tells_events.then(|| events::webhooks(&mut parts));
    let mut schemas = parts.schemas.take_definitions(true);
    if let Some(received) = schemas.get("ReceivedBody") {
        parts.texts.learn(received);
    }
    schemas.extend(parts.shapes);
    schemas.insert("Error".to_owned(), answers::error_schema());
    schemas.iter_mut().for_each(|(name, schema)| parts.texts.describe(name, schema));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": VERSION,
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": operation::tags(routes),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": parts.responses,
            "headers": answers::headers(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, or the token of a dashboard session; the operator token on the operator's port.",
                },
                "ticket": {
                    "type": "apiKey",
                    "in": "query",
                    "name": "ticket",
                    "description": "A ticket of POST /v1/events/tickets, for browsers. It works once.",
                },
            },
        },
    });
    if let Some(webhooks) = webhooks {
        document["webhooks"] = Value::Object(webhooks);
        document["components"]["parameters"] = Value::Object(events::headers());
    }
    document
}

/// Replaces the schema `true` by the equal `{}`, since some client generators do not read `true`.
fn open(schema: &mut Schema) {
    if schema.as_bool() == Some(true) {
        *schema = Schema::default();
    }
}

/// Folds a choice of documented constants into one list of words, which generated clients handle better.
fn fold_words(schema: &mut Schema) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    let word = |choice: &Value| match (choice.get("const"), choice.get("enum")) {
        (Some(word @ Value::String(_)), None) => Some(vec![word.clone()]),
        (None, Some(Value::Array(words))) if words.iter().all(Value::is_string) => Some(words.clone()),
        _ => None,
    };
    let words: Option<Vec<Vec<Value>>> = choices.iter().map(word).collect();
    let Some(words) = words else { return };
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), json!(words.concat()));
}

#[cfg(test)]
mod tests;
