//! The `content` of a stored message: the fields of its type beyond the common ones, and its surroundings.

use model::message::{Content, Surroundings};
use serde_json::{Map, Value};

/// Fields that a stored message shows beside `content`; captions are its `text`.
const COMMON: [&str; 4] = ["text", "caption", "emoji", "message_key"];

/// The fields, named as in the send body and in `message.received`; empty if there are none.
pub fn rest_of(content: &Content, around: &Surroundings) -> Map<String, Value> {
    let is_shown = !content.is_story() && !content.holds_nothing();
    let mut fields = if is_shown { content.fields() } else { Map::new() };
    fields.retain(|name, _| !COMMON.contains(&name.as_str()));
    // Serializing `Surroundings` omits its empty fields.
    if let Ok(Value::Object(around)) = serde_json::to_value(around.shown()) {
        fields.extend(around);
    }
    fields
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::address::Address;
    use model::time::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_to_networks_alone_is_not_shown() {
        let around = Surroundings {
            target_author: Some(Address::lid("251556368777322")),
            said_at: Some(Timestamp(7)),
            forwarded: true,
            ..Surroundings::default()
        };
        let shown = rest_of(&Content::Text { text: "hello".to_owned() }, &around);
        assert_eq!(Value::Object(shown), json!({ "forwarded": true }));
    }
}
