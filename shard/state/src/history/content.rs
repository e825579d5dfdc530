//! `content` of a stored message: what its type has beyond the common fields, and what stands around it.

use model::message::{Content, Surroundings};
use serde_json::{Map, Value, json};

use super::withhold::holds_nothing;

/// The fields, named as in the send body and in `message.received`; empty where there is nothing to add.
pub fn rest_of(content: &Content, around: &Surroundings) -> Map<String, Value> {
    let own = match content {
        content if holds_nothing(content) => json!({}),
        Content::Text { .. }
        | Content::Image { .. }
        | Content::Audio { .. }
        | Content::Document { .. }
        | Content::Reaction { .. }
        | Content::Edit { .. }
        | Content::Unpin { .. }
        | Content::Star { .. }
        | Content::Unstar { .. }
        | Content::Catalog
        | Content::Story(_)
        | Content::StoryDelete { .. } => json!({}),
        Content::Video { gif, note, .. } => json!({ "gif": gif, "ptv": note }),
        Content::Sticker { animated, .. } => json!({ "animated": animated }),
        Content::Delete { by_admin, .. } => json!({ "by_admin": by_admin }),
        Content::Location { latitude, longitude, name, address, live } => {
            json!({ "latitude": latitude, "longitude": longitude, "name": name, "address": address, "live": live })
        }
        Content::Contact { contacts } => json!({ "contacts": contacts }),
        Content::Poll { name, options, selectable_count } => {
            json!({ "name": name, "options": options, "selectable_count": selectable_count })
        }
        Content::Pin { duration_seconds, .. } => json!({ "duration": duration_seconds }),
        Content::Product { product_id } => json!({ "product_id": product_id }),
        Content::PollVote { selected, .. } => json!({ "selected": selected }),
        Content::ButtonReply { id, title } | Content::ListReply { id, title } => json!({ "id": id, "title": title }),
        Content::Order { order_id, token, item_count, total_amount, currency } => json!({
            "order_id": order_id,
            "token": token,
            "item_count": item_count,
            "total_amount": total_amount,
            "currency": currency,
        }),
        Content::Event { name, start_at, end_at, location } => {
            json!({ "name": name, "start_at": start_at, "end_at": end_at, "location": location })
        }
        Content::Undecryptable { reason } => json!({ "reason": reason }),
        Content::Unknown { raw_type } => json!({ "raw_type": raw_type }),
    };
    let mut fields = match own {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    // Its own serialisation leaves out what is not there.
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
