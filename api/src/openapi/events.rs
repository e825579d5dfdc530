//! The events of webhooks and of the event stream: a schema and an example for each, generated from their types.

use model::event::{Event, EventName};
use schemars::Schema;
use serde_json::{Map, Value, json};

use super::{Parts, fields, settings};

/// The schema of a delivery's body.
fn envelope(name: EventName, data: Schema) -> Value {
    let mut data = data.to_value();
    data["description"] = json!("What has happened.");
    json!({
        "type": "object",
        "description": name.about(),
        "required": ["event", "event_id", "api_version", "channel_id", "occurred_at", "data"],
        "properties": {
            "event": { "type": "string", "const": name.as_str(), "description": "The event's name." },
            "event_id": {
                "type": "string",
                "pattern": "^evt_[0-9A-HJKMNP-TV-Z]{26}$",
                "description": "The same at every attempt: ignore events whose id you have seen before.",
            },
            "api_version": { "type": "string", "description": "The version of the events' shapes." },
            "channel_id": { "type": "string", "format": "uuid", "description": "The channel that it happened to." },
            "occurred_at": {
                "type": "string",
                "format": "date-time",
                "description": "When the gateway emitted it: sort by this.",
            },
            "test": {
                "type": "boolean",
                "const": true,
                "description": "Only in examples that were sent to try out a receiver: the event has not happened.",
            },
            "data": data,
        },
    })
}

/// An example of an event as it is sent.
pub fn example(name: EventName) -> Value {
    serde_json::from_slice(&Event::example(name).to_bytes()).expect("an event is written as JSON")
}

/// The schema of an event, with all referenced types inlined.
pub fn schema(name: EventName) -> Value {
    let mut schemas = settings().into_generator();
    let mut schema = envelope(name, name.schema(&mut schemas));
    let mut types = schemas.take_definitions(true);
    let texts = fields::Texts::default();
    types.iter_mut().for_each(|(name, schema)| texts.describe(name, schema));
    texts.describe(&type_name(name), &mut schema);
    put_inside(&mut schema, &types);
    schema
}

/// Replaces references in a schema by the types. Keywords beside a reference override the type's. Terminates, since no
/// type of an event contains itself.
fn put_inside(schema: &mut Value, types: &Map<String, Value>) {
    if let Value::Object(fields) = schema
        && let Some(Value::String(reference)) = fields.remove("$ref")
        && let Some(Value::Object(whole)) = reference.rsplit('/').next().and_then(|name| types.get(name))
    {
        let beside = std::mem::replace(fields, whole.clone());
        fields.extend(beside);
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(|inside| put_inside(inside, types)),
        Value::Array(items) => items.iter_mut().for_each(|inside| put_inside(inside, types)),
        _ => {}
    }
}

fn type_name(name: EventName) -> String {
    format!("{name:?}Event")
}

fn reference(name: EventName) -> String {
    format!("#/components/schemas/{}", type_name(name))
}

/// The `webhooks` of the document. The events' types are added to the other types.
pub fn webhooks(parts: &mut Parts<'_>) -> Map<String, Value> {
    let mut webhooks = Map::new();
    for name in EventName::ALL {
        let data = name.schema(&mut parts.schemas);
        parts.shapes.insert(type_name(name), envelope(name, data));
        webhooks.insert(name.as_str().to_owned(), json!({ "post": delivery(name) }));
    }
    let any: Vec<Value> = EventName::ALL.iter().map(|name| json!({ "$ref": reference(*name) })).collect();
    let mapping: Map<String, Value> =
        EventName::ALL.iter().map(|name| (name.as_str().to_owned(), json!(reference(*name)))).collect();
    let event = json!({
        "description": "The body of a webhook, and the data of a frame in the event stream.",
        "oneOf": any,
        "discriminator": { "propertyName": "event", "mapping": mapping },
    });
    parts.shapes.insert("Event".to_owned(), event);
    webhooks
}

/// The request that the gateway sends to an endpoint.
fn delivery(name: EventName) -> Value {
    let headers: Vec<Value> =
        HEADERS.iter().map(|(header, _, _)| json!({ "$ref": format!("#/components/parameters/{header}") })).collect();
    json!({
        "operationId": format!("on_{}", name.as_str().replace('.', "_")),
        "summary": name.about(),
        "tags": ["Events"],
        "security": [],
        "parameters": headers,
        "requestBody": {
            "required": true,
            "content": {
                "application/json": {
                    "schema": { "$ref": reference(name) },
                    "examples": { "example": { "value": example(name) } },
                },
            },
        },
        "responses": {
            "2XX": { "description": "It was accepted. After any other response, or none, it is sent again." },
        },
    })
}

/// The headers of a delivery: name, whether it is always present, and description.
const HEADERS: [(&str, bool, &str); 6] = [
    (
        "X-Gateway-Signature",
        true,
        "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>` under the endpoint's signing secret. Refuse what is older \
         than 300 s.",
    ),
    ("X-Gateway-Event", true, "The event's name, as in the body."),
    ("X-Gateway-Event-Id", true, "The event's id, as in the body."),
    ("X-Gateway-Delivery-Id", true, "The delivery's id, as in `GET /v1/webhook-deliveries`."),
    ("X-Gateway-Attempt", true, "Which attempt it is, from 1."),
    (
        "X-Gateway-Correlation-Id",
        false,
        "For `message.sent`, the request id of the send; for `message.received`, an id that stays the same.",
    ),
];

/// The headers of deliveries, as parameters of the document.
pub fn headers() -> Map<String, Value> {
    let parameter = |(name, required, about): &(&str, bool, &str)| {
        let shown = json!({
            "name": name, "in": "header", "required": required, "description": about, "schema": { "type": "string" },
        });
        ((*name).to_owned(), shown)
    };
    HEADERS.iter().map(parameter).collect()
}
