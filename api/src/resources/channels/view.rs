//! The view of a channel: the directory's record, joined with the live status from its shard.

use model::id::{ChannelId, CustomerId};
use model::status::{Reason, Status};
use model::time::Timestamp;
use raft::directory::records::ChannelRecord;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use shard::call::ChannelStatus;

/// A channel. All fields but `status_reason` are always present.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Channel")]
pub struct ChannelView {
    pub id: ChannelId,
    pub customer_id: CustomerId,
    pub name: String,
    pub phone_number: Option<String>,
    pub status: Status,
    /// Reason of the status, once something has happened to the channel; only for operators, and in lists requested
    /// with `reasons`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<Reason>,
    /// Time when the channel was last online; `null` if it never was.
    pub last_seen_at: Option<Timestamp>,
    #[serde(deserialize_with = "raw")]
    #[schemars(with = "Map<String, Value>")]
    pub metadata: Box<RawValue>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Deserializes by way of a `Value`, since `RawValue` cannot be read inside a flattened struct.
fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    to_raw_value(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
}

impl ChannelView {
    /// `live` is `None` for a channel whose shard has no status of it yet, because nothing has happened to it.
    pub fn new(record: &ChannelRecord, live: Option<&ChannelStatus>) -> Self {
        let changed = live.and_then(|live| live.updated_at);
        Self {
            id: record.id,
            customer_id: record.customer_id,
            name: record.name.clone(),
            phone_number: live.and_then(|live| live.phone_number.clone()),
            status: live.map_or(Status::Pending, |live| live.status),
            status_reason: None,
            last_seen_at: live.and_then(|live| live.last_seen_at),
            metadata: metadata_of(record),
            created_at: record.created_at,
            updated_at: changed.map_or(record.updated_at, |at| at.max(record.updated_at)),
        }
    }

    /// Adds the reason of the status.
    pub fn with_reason(self, live: Option<&ChannelStatus>) -> Self {
        Self { status_reason: live.map(|live| live.reason), ..self }
    }
}

fn metadata_of(record: &ChannelRecord) -> Box<RawValue> {
    RawValue::from_string(record.metadata.clone()).unwrap_or_else(|error| {
        tracing::error!(channel = %record.id, %error, "stored metadata is no JSON");
        RawValue::from_string("{}".to_owned()).expect("an empty object is JSON")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn an_untouched_channel_is_pending_and_shows_all_fields() {
        let record = ChannelRecord {
            id: ChannelId::new(),
            customer_id: CustomerId::new(),
            name: "Sales".into(),
            metadata: r#"{"a":{"b":[1]}}"#.into(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            deleted_at: None,
        };
        let json = serde_json::to_value(ChannelView::new(&record, None)).unwrap();
        assert_eq!(json["status"], "pending");
        assert_eq!(json["phone_number"], serde_json::Value::Null);
        assert_eq!(json["metadata"]["a"]["b"][0], 1);
        assert_eq!(json["created_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(json.as_object().unwrap().len(), 9);

        #[derive(Deserialize)]
        struct Placed {
            #[serde(flatten)]
            channel: ChannelView,
        }
        let Placed { channel } = serde_json::from_value(json).unwrap();
        assert_eq!(channel.metadata.get(), record.metadata, "it is read as it was shown");
    }
}
