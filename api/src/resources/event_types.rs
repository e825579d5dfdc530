//! `GET /v1/event-types`: the schema of each event. The content is that of `webhooks` in the OpenAPI document; it is
//! the same for everybody, so the route is public.

use std::sync::LazyLock;

use model::event::EventName;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::openapi::{event_example, event_schema};
use crate::packed::Packed;
use crate::reply::{List, Outcome};
use crate::request_context::RequestContext;
use crate::route::{EVENT_TYPES_PATH, GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::public(GET, EVENT_TYPES_PATH, list)
            .doc("list_event_types", "List the events, with the schema and an example of each")
            .about("Lists the events that endpoints can subscribe to, and that webhooks and the event stream carry.")
            .list::<EventType>(),
    ]
}

#[derive(Serialize, JsonSchema)]
struct EventType {
    name: EventName,
    /// What has happened when the event is sent.
    description: &'static str,
    /// JSON Schema of the whole event, the body of a webhook.
    schema: serde_json::Map<String, Value>,
    /// An example of the event.
    example: serde_json::Map<String, Value>,
}

/// The response, which never changes.
static ALL: LazyLock<Packed> = LazyLock::new(|| {
    let object = |value: Value| match value {
        Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    };
    let one = |name: &EventName| EventType {
        name: *name,
        description: name.about(),
        schema: object(event_schema(*name)),
        example: object(event_example(*name)),
    };
    let all = List::whole(EventName::ALL.iter().map(one).collect());
    Packed::new(serde_json::to_vec(&all).expect("schemas have string keys"))
});

async fn list(ctx: &mut RequestContext) -> Outcome {
    Ok(ALL.form(ctx.http.headers()).reply("application/json"))
}
