//! What a parser would read of a body: its JSON Schema, written by the parser that judges it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::{Judged, rule};

/// One object of a body. The fields that a parser asks for note themselves here.
#[derive(Debug, Default)]
pub struct Outline(Mutex<Object>);

#[derive(Debug, Default)]
struct Object {
    fields: BTreeMap<String, Noted>,
    required: BTreeSet<String>,
    /// A patch names at least one field.
    patch: bool,
    /// What holds between the fields.
    between: Map<String, Value>,
}

/// How often a field's rule holds.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    /// The field is one value.
    Once,
    /// The field is a list with `least` to `most` items.
    List { least: usize, most: usize },
}

#[derive(Debug)]
struct Noted {
    what: What,
    times: Times,
    nullable: bool,
}

#[derive(Debug)]
enum What {
    Value(Value),
    Object(Arc<Outline>),
}

impl Outline {
    fn lock(&self) -> MutexGuard<'_, Object> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn patch(&self) {
        self.lock().patch = true;
    }

    pub fn require(&self, key: &str) {
        self.lock().required.insert(key.to_owned());
    }

    /// A field of which the rule says what it takes when it is asked about `null`.
    pub fn note<T>(&self, key: &str, times: Times, nullable: bool, judge: impl FnOnce(&Value) -> Judged<T>) {
        self.put(key, Noted { what: What::Value(rule::wants(judge)), times, nullable });
    }

    /// A field of which the parser itself says what it takes.
    pub fn tell(&self, key: &str, schema: Value) {
        self.put(key, Noted { what: What::Value(schema), times: Times::Once, nullable: false });
    }

    /// What holds between fields, as keywords of the object's schema.
    pub fn between(&self, keywords: Value) {
        let Value::Object(keywords) = keywords else { return };
        let between = &mut self.lock().between;
        for (keyword, more) in keywords {
            match (between.get_mut(&keyword), more) {
                // A keyword such as `dependentSchemas` may speak of several fields: what it says of each is joined.
                (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
                (_, more) => drop(between.insert(keyword, more)),
            }
        }
    }

    /// A field with fields of its own, which note themselves in what is returned.
    pub fn object(&self, key: &str, times: Times, nullable: bool) -> Arc<Self> {
        let inner = Arc::new(Self::default());
        self.put(key, Noted { what: What::Object(inner.clone()), times, nullable });
        inner
    }

    fn put(&self, key: &str, noted: Noted) {
        self.lock().fields.insert(key.to_owned(), noted);
    }

    /// The JSON Schema of the object.
    pub fn schema(&self) -> Value {
        let object = self.lock();
        let properties: Map<String, Value> =
            object.fields.iter().map(|(key, noted)| (key.clone(), noted.schema())).collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        if !object.required.is_empty() {
            schema["required"] = json!(object.required);
        }
        if object.patch {
            schema["minProperties"] = json!(1);
        }
        for (keyword, value) in &object.between {
            schema[keyword] = value.clone();
        }
        schema
    }
}

impl Noted {
    fn schema(&self) -> Value {
        let one = match &self.what {
            What::Value(schema) => schema.clone(),
            What::Object(outline) => outline.schema(),
        };
        let schema = match self.times {
            Times::Once => one,
            Times::List { least, most } => {
                json!({ "type": "array", "items": one, "minItems": least, "maxItems": most })
            }
        };
        if self.nullable { or_null(schema) } else { schema }
    }
}

/// The schema of a value that may also be `null`.
fn or_null(mut schema: Value) -> Value {
    let simple = schema.get("type").filter(|_| schema.get("enum").is_none()).cloned();
    match simple {
        Some(kind @ Value::String(_)) => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}
