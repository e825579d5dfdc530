use std::collections::BTreeSet;

use model::address::Suffixes;
use model::target::TargetPolicy;

use super::*;

/// Runs `look` with the simulated deployment.
fn with_deployment<T>(look: impl FnOnce(&Deployment<'_>) -> T) -> T {
    let (suffixes, target_policy) = (Suffixes::simulated(), TargetPolicy::dev());
    look(&Deployment { suffixes: &suffixes, target_policy: &target_policy, media_days: 14 })
}

fn both() -> [(&'static str, Vec<Route>); 2] {
    [("customers", crate::resources::routes()), ("operators", crate::operator::routes())]
}

#[test]
fn every_route_is_documented_under_a_name_of_its_own() {
    for (port, routes) in both() {
        let mut ids = BTreeSet::new();
        let mut missing = Vec::new();
        for route in &routes {
            match &route.doc {
                Some(doc) => assert!(ids.insert(doc.id), "{port}: two operations are named {}", doc.id),
                None => missing.push(format!("{} {}", route.method, route.path)),
            }
        }
        assert!(missing.is_empty(), "{port}: routes without .doc(...): {missing:#?}");
    }
}

#[test]
fn every_route_says_what_it_answers_and_what_stands_in_its_path() {
    for (_, routes) in both() {
        for route in &routes {
            let Some(doc) = &route.doc else { continue };
            let stub = doc.errors == [model::error::ErrorCode::NotImplemented];
            assert!(stub || !doc.answers.is_empty(), "{} answers nothing", doc.id);
            for name in route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
                let known = parameters::of_path(route.path, name);
                assert!(known.is_some(), "{}: {{{name}}} is not in openapi/parameters.rs", route.path);
            }
        }
    }
}

/// Finds fields that no rule has described: their schema is `true`, which means the same as `{}`.
fn untold(schema: &Value, path: &str, found: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        let path = format!("{path}.{name}");
        for schema in [Some(property), property.get("items")].into_iter().flatten() {
            if *schema == Value::Bool(true) {
                found.push(path.clone());
            }
            untold(schema, &path, found);
        }
    }
}

#[test]
fn every_field_of_a_body_says_what_it_takes() {
    let mut found = Vec::new();
    for (_, routes) in both() {
        for doc in routes.iter().filter_map(|route| route.doc.as_ref()) {
            for content in doc.body.iter().flat_map(|body| &body.content) {
                let schema = with_deployment(|deployment| (content.schema)(deployment));
                untold(&schema, doc.id, &mut found);
                for shape in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
                    untold(shape, doc.id, &mut found);
                }
            }
        }
    }
    assert!(found.is_empty(), "rules that say nothing of what they take: {found:#?}");
}

/// The generator appends a number to the names of types that share one, so no name may end with a number.
#[test]
fn no_two_types_share_a_name() {
    for (port, routes) in both() {
        let document = with_deployment(|deployment| document(port, &routes, deployment));
        let names: Vec<&String> =
            document["components"]["schemas"].as_object().into_iter().flat_map(Map::keys).collect();
        let shared: Vec<_> = names.iter().filter(|name| name.ends_with(|end: char| end.is_ascii_digit())).collect();
        assert!(shared.is_empty(), "{port}: {shared:?}");
        assert!(names.len() > 5);
    }
}

/// Finds the fields of a schema that have no description.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        undescribed(field, &path, found);
        if field.get("description").is_none() {
            found.push(path);
        }
    }
    for inside in ["items", "additionalProperties"].iter().filter_map(|inside| schema.get(inside)) {
        undescribed(inside, path, found);
    }
    for shapes in ["anyOf", "oneOf", "allOf"] {
        for shape in schema.get(shapes).and_then(Value::as_array).into_iter().flatten() {
            undescribed(shape, path, found);
        }
    }
}

#[test]
fn every_field_has_a_description() {
    let mut found = Vec::new();
    for (port, routes) in both() {
        let document = with_deployment(|deployment| document(port, &routes, deployment));
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            undescribed(schema, name, &mut found);
        }
        let operations = document["paths"].as_object().into_iter().flatten();
        for operation in operations.flat_map(|(_, path)| path.as_object().into_iter().flatten()) {
            let (_, operation) = operation;
            for (_, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
                undescribed(&content["schema"], &operation["operationId"].to_string(), &mut found);
            }
            for (_, answer) in operation["responses"].as_object().into_iter().flatten() {
                for (_, content) in answer["content"].as_object().into_iter().flatten() {
                    undescribed(&content["schema"], &operation["operationId"].to_string(), &mut found);
                }
            }
        }
    }
    assert!(found.is_empty(), "describe these in openapi/fields.rs, or at their types: {found:#?}");
}

#[test]
fn no_answer_in_json_is_said_to_be_bytes() {
    for (port, routes) in both() {
        let document = with_deployment(|deployment| document(port, &routes, deployment));
        let operations = document["paths"].as_object().into_iter().flatten();
        for (_, operation) in operations.flat_map(|(_, path)| path.as_object().into_iter().flatten()) {
            for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
                let schema = &answer["content"]["application/json"]["schema"];
                assert_ne!(schema["format"], "binary", "{port}: {} {status}", operation["operationId"]);
            }
        }
    }
}

/// Finds what is unbounded in a schema that callers fill: texts and lists of any length, objects of any size.
///
/// Words of a fixed list need no bound, nor does an object with named fields.
fn unbounded(schema: &Value, path: &str, found: &mut Vec<String>) {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_fixed = schema.get("enum").is_some() || schema.get("const").is_some();
    for kind in kinds {
        let bounds: &[&str] = match kind {
            // Bytes are bounded as they arrive: `media_too_large` and `payload_too_large`.
            "string" if is_fixed || schema["format"] == "binary" => continue,
            "string" => &["maxLength"],
            "array" => &["maxItems"],
            "integer" | "number" if is_fixed => continue,
            "integer" | "number" => &["minimum", "maximum"],
            "object" if schema.get("properties").is_none() => &["maxProperties"],
            _ => continue,
        };
        let missing = bounds.iter().filter(|bound| schema.get(**bound).is_none());
        found.extend(missing.map(|bound| format!("{path} ({bound})")));
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        unbounded(field, &format!("{path}.{name}"), found);
    }
    for inside in ["items", "additionalProperties"].iter().filter_map(|inside| schema.get(inside)) {
        unbounded(inside, path, found);
    }
    for shapes in ["anyOf", "oneOf"] {
        for shape in schema.get(shapes).and_then(Value::as_array).into_iter().flatten() {
            unbounded(shape, path, found);
        }
    }
}

/// Headers are excepted: the HTTP server bounds all headers of a request together (`headers_too_large`). Members of
/// bodies that are read without a rule are listed here with their reason.
#[test]
fn everything_that_a_caller_fills_has_a_bound() {
    let mut found = Vec::new();
    let mut looked_at = 0;
    for (port, routes) in both() {
        let document = with_deployment(|deployment| document(port, &routes, deployment));
        let shapes = &document["components"]["schemas"];
        let operations = document["paths"].as_object().into_iter().flatten();
        for (_, operation) in operations.flat_map(|(_, path)| path.as_object().into_iter().flatten()) {
            let id = operation["operationId"].as_str().unwrap_or_default();
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "header" {
                    continue;
                }
                looked_at += 1;
                unbounded(&parameter["schema"], &format!("{id}?{}", parameter["name"]), &mut found);
            }
            for (_, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
                looked_at += 1;
                unbounded(&content["schema"], id, &mut found);
                for shape in content["schema"]["anyOf"].as_array().into_iter().flatten() {
                    let name = shape["$ref"].as_str().and_then(|name| name.rsplit('/').next()).unwrap_or_default();
                    unbounded(&shapes[name], &format!("{id}.{name}"), &mut found);
                }
            }
        }
    }
    assert!(found.is_empty(), "these take anything of any size: {found:#?}");
    assert!(looked_at > 200, "{looked_at}");
}

#[test]
fn what_stands_in_a_path_is_judged_by_what_the_document_says_of_it() {
    let judge =
        |name: &str, text: &str| parameters::judge("/v1/channels/{id}", name, text).map_err(|violation| violation.code);
    let long = |length: usize| "1".repeat(length);
    use model::issue::IssueCode::TooLong;
    for (name, longest) in [("message_id", 255), ("contact_id", 128), ("group_id", 128), ("digits", 15)] {
        assert_eq!(judge(name, &long(longest)), Ok(()), "{name}");
        assert_eq!(judge(name, &long(longest + 1)), Err(TooLong), "{name}");
    }
    // An invalid UUID of any length is a missing resource.
    assert_eq!(judge("media_id", &long(1000)), Ok(()));
}

/// The type of a field, in a word or two.
fn kind(schema: &Value) -> String {
    let words =
        |values: &[Value]| values.iter().map(|word| format!("`{}`", word.as_str().unwrap_or_default())).collect();
    if let Some(word) = schema.get("const") {
        return format!("`{}`", word.as_str().unwrap_or_default());
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        let words: Vec<String> = words(values);
        return words.join(", ");
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let shown = kinds.into_iter().map(|kind| match (kind, schema["format"].as_str()) {
        ("array", _) => format!("list of {}", kind_of_items(schema)),
        ("string", Some("date-time")) => "time".to_owned(),
        ("string", Some(format @ ("uuid" | "uri"))) => format.to_owned(),
        (kind, _) => kind.to_owned(),
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "object".to_owned() } else { shown.join(" or ") }
}

fn kind_of_items(schema: &Value) -> String {
    schema.get("items").map_or_else(|| "anything".to_owned(), kind)
}

/// Adds a row for each field of a schema, and of nested ones.
fn field_rows(schema: &Value, before: &str, rows: &mut String) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{before}{name}");
        let may = if required.contains(&name.as_str()) { "" } else { ", or not there" };
        let about = field["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        rows.push_str(&format!("| `{path}` | {}{may} | {about} |\n", kind(field)));
        let inside = field.get("items").unwrap_or(field);
        let path = if field.get("items").is_some() { format!("{path}[].") } else { format!("{path}.") };
        field_rows(inside, &path, rows);
        for shape in ["oneOf", "anyOf"].into_iter().filter_map(|shapes| inside[shapes].as_array()).flatten() {
            match shape["properties"]["type"]["const"].as_str() {
                Some(type_name) => field_rows(shape, &format!("{path}({type_name}) "), rows),
                None => field_rows(shape, &path, rows),
            }
        }
    }
}

/// The reference of the events, as Markdown.
fn event_reference() -> String {
    let mut text = "# Events\n\nGenerated from the types of the events: `UPDATE_DOCS=1 cargo test --package api --lib \
        the_reference_of_events` writes this page again. Programs find the same in `GET /v1/event-types`, and in \
        `webhooks` of `/openapi.json`.\n\nAn event is the body of a webhook, and the data of a frame in the event stream. \
        It has `event`, `event_id`, `api_version`, `channel_id`, `occurred_at`, and `data`, whose fields are listed below. \
        `(text)` and the like are the types of a body, each with fields of its own. An example that was sent to try out a \
        receiver (`gateway trigger`, the console, `POST /v1/webhook-endpoints/{id}/test`) also has `\"test\": true`.\n\n| \
        Event | Sent when |\n|---|---|\n"
        .to_owned();
    for name in model::event::EventName::ALL {
        text.push_str(&format!("| [`{name}`](#{}) | {} |\n", name.as_str().replace('.', ""), name.about()));
    }
    for name in model::event::EventName::ALL {
        let mut rows = String::new();
        field_rows(&event_schema(name)["properties"]["data"], "", &mut rows);
        let example = serde_json::to_string_pretty(&event_example(name)["data"]).unwrap_or_default();
        text.push_str(&format!(
            "\n## {name}\n\n{}\n\n| Field of `data` | Type | Meaning |\n|---|---|---|\n{rows}\n```json\n{example}\n```\n",
            name.about()
        ));
    }
    text
}

#[test]
fn the_reference_of_events_says_what_their_types_say() {
    // Read at run time, since the binary may have been compiled in another checkout.
    let member = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where the sources are");
    let path = std::path::Path::new(&member).join("../docs/events.md");
    let text = event_reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).expect("the checkout can be written to");
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stands == text, "docs/events.md is not of now: run this test with UPDATE_DOCS=1");
}
