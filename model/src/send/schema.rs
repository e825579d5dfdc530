//! The JSON Schema of a send, recorded from the parsers: one shape per type, flat or nested.

use serde_json::{Value, json};

use super::{Parts, SEND_TYPES, read_client_ref};
use crate::address::{LID_SUFFIX, Suffixes};
use crate::field::Body;

/// All shapes: `Send<Type>` is flat, `SendNested<Type>` has the fields of the type in `body`.
pub fn schema(suffixes: &Suffixes) -> Value {
    let flat = SEND_TYPES.iter().map(|kind| flat(kind, suffixes));
    let nested = SEND_TYPES.iter().map(|kind| nested(kind, suffixes));
    json!({ "anyOf": flat.chain(nested).collect::<Vec<Value>>() })
}

fn flat(kind: &str, suffixes: &Suffixes) -> Value {
    let mut shape = Body::outline(|body| {
        body.read(|fields| {
            read_client_ref(fields, None);
            Some(Parts::read(kind, fields, fields, suffixes))
        })
    });
    bear(&mut shape, kind, suffixes);
    if shape["properties"].get(MENTIONS).is_some() {
        shape["dependentSchemas"][MENTIONS] = to_group(suffixes);
    }
    shape["title"] = json!(format!("Send{}", capital(kind)));
    shape
}

fn nested(kind: &str, suffixes: &Suffixes) -> Value {
    let mut shape = Body::outline(|body| {
        body.read(|top| {
            read_client_ref(top, None);
            let inner = top.required_object("body")?;
            Some(Parts::read(kind, top, &inner, suffixes))
        })
    });
    bear(&mut shape["properties"]["body"], kind, suffixes);
    if shape["properties"]["body"]["properties"].get(MENTIONS).is_some() {
        shape["if"] = json!({ "properties": { "body": { "required": [MENTIONS] } } });
        shape["then"] = to_group(suffixes);
    }
    shape["title"] = json!(format!("SendNested{}", capital(kind)));
    shape
}

/// Adds the type's name, and constraints on the target message that the parsers do not express.
pub(super) fn bear(shape: &mut Value, kind: &str, suffixes: &Suffixes) {
    shape["properties"]["type"] = json!({ "const": kind, "type": "string" });
    if let Value::Array(required) = shape["required"].take() {
        shape["required"] = required.into_iter().chain([json!("type")]).collect();
    } else {
        shape["required"] = json!(["type"]);
    }
    match kind {
        "edit" => shape["properties"]["message_key"]["properties"]["from_me"]["const"] = json!(true),
        "delete" => {
            let key = &mut shape["properties"]["message_key"];
            let people = format!("^[0-9]+$|@({}|{LID_SUFFIX})$", literal(&suffixes.phone));
            key["if"] = json!({ "properties": { "from_me": { "const": false } } });
            key["then"] = json!({ "properties": { "remote_jid": { "not": { "pattern": people } } } });
        }
        _ => {}
    }
}

/// The field that only messages to groups may have.
const MENTIONS: &str = "mentions";

fn to_group(suffixes: &Suffixes) -> Value {
    json!({ "properties": { "to": { "pattern": format!("^[A-Za-z0-9_-]+@{}$", literal(&suffixes.group)) } } })
}

/// Escapes a suffix for a regular expression. It consists of word characters, dots and hyphens.
fn literal(suffix: &str) -> String {
    suffix.replace('.', "\\.")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
