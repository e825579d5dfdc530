//! The JSON Schema of a send: a shape for each type, flat or nested, told by the readers of the types.

use serde_json::{Value, json};

use super::{Parts, SEND_TYPES, read_client_ref};
use crate::address::Suffixes;
use crate::field::{Body, Fields};
use crate::issue::Issues;

/// Any of the shapes: `Send<Type>` is flat, `SendNested<Type>` has the fields of the type in its `body`.
pub fn schema() -> Value {
    let flat: Vec<Value> = SEND_TYPES.iter().map(|kind| flat(kind)).collect();
    let nested: Vec<Value> = SEND_TYPES.iter().map(|kind| nested(kind)).collect();
    json!({ "anyOf": flat.into_iter().chain(nested).collect::<Vec<Value>>() })
}

fn flat(kind: &str) -> Value {
    let mut shape = Body::outline(|body| {
        let issues = Issues::new();
        let fields = Fields::new(body, &issues);
        read_client_ref(&fields, None);
        Parts::read(kind, &fields, &fields, &Suffixes::simulated());
    });
    bear(&mut shape, kind);
    shape["title"] = json!(format!("Send{}", capital(kind)));
    shape
}

fn nested(kind: &str) -> Value {
    let mut shape = Body::outline(|body| {
        let issues = Issues::new();
        let top = Fields::new(body, &issues);
        read_client_ref(&top, None);
        let Some(inner) = top.required_object("body") else { return };
        Parts::read(kind, &top, &inner, &Suffixes::simulated());
    });
    bear(&mut shape["properties"]["body"], kind);
    shape["title"] = json!(format!("SendNested{}", capital(kind)));
    shape
}

/// Names the type.
fn bear(shape: &mut Value, kind: &str) {
    shape["properties"]["type"] = json!({ "const": kind, "type": "string" });
    if let Value::Array(required) = shape["required"].take() {
        shape["required"] = required.into_iter().chain([json!("type")]).collect();
    } else {
        shape["required"] = json!(["type"]);
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
