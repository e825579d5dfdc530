//! The JSON Schema of a body, recorded by running the parser that validates it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::{Judged, rule};

/// The schema of one object of a body; the fields that a parser asks for are recorded here.
#[derive(Debug, Default)]
pub struct Outline(Mutex<Object>);

#[derive(Debug, Default)]
struct Object {
    fields: BTreeMap<String, Noted>,
    required: BTreeSet<String>,
    /// The object is a patch, which must name at least one field.
    patch: bool,
    /// Constraints between fields.
    between: Map<String, Value>,
}

/// Whether a field's rule applies once or to each item of a list.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    /// The field is a single value.
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

    /// Records a field. Its rule is applied to `null`, and the violation tells the schema.
    pub fn note<T>(&self, key: &str, times: Times, nullable: bool, judge: impl FnOnce(&Value) -> Judged<T>) {
        self.put(key, Noted { what: What::Value(rule::wants(judge)), times, nullable });
    }

    /// Records a field whose schema the parser states itself.
    pub fn tell(&self, key: &str, schema: Value) {
        self.put(key, Noted { what: What::Value(schema), times: Times::Once, nullable: false });
    }

    /// Records constraints between fields, as keywords of the object's schema.
    pub fn between(&self, keywords: Value) {
        let Value::Object(keywords) = keywords else { return };
        let between = &mut self.lock().between;
        for (keyword, more) in keywords {
            match (between.get_mut(&keyword), more) {
                // A keyword such as `dependentSchemas` may cover several fields: its entries are merged.
                (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
                (_, more) => drop(between.insert(keyword, more)),
            }
        }
    }

    /// Records a nested object; its fields are recorded in the returned outline.
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
