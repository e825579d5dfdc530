//! The frames of a stream, byte for byte: WHATWG server-sent events with LF line ends.
//!
//! The gateway's own frames are named `stream.*` and have no `id`, so that a client resumes after the last event.

use bytes::Bytes;
use model::event::EventId;
use model::time::Timestamp;
use serde_json::{Value, json};
use shard::stream::{Gap, StreamEvent, StreamId};

/// How long a client waits before it reconnects, in milliseconds.
const RETRY_MS: u32 = 3000;

/// The first frame of a stream.
pub fn connected(stream: &StreamId) -> Bytes {
    Bytes::from(format!(": connected {}\nretry: {RETRY_MS}\n\n", stream.0))
}

/// An event: the envelope that webhooks get. It is JSON without line breaks, so one `data` line is enough.
pub fn event(event: &StreamEvent) -> Bytes {
    let (id, name) = (event.id.as_str(), event.name.as_str());
    let mut frame = Vec::with_capacity(event.body.len() + id.len() + name.len() + 24);
    frame.extend_from_slice(b"id: ");
    frame.extend_from_slice(id.as_bytes());
    frame.extend_from_slice(b"\nevent: ");
    frame.extend_from_slice(name.as_bytes());
    frame.extend_from_slice(b"\ndata: ");
    frame.extend_from_slice(&event.body);
    frame.extend_from_slice(b"\n\n");
    Bytes::from(frame)
}

/// A heartbeat comment.
pub fn ping(now: Timestamp) -> Bytes {
    Bytes::from(format!(": ping {}\n\n", now.unix_seconds()))
}

/// The event to resume after is too old: the events between it and the oldest one are lost to the stream.
pub fn gap(from: &EventId, gap: &Gap) -> Bytes {
    own("gap", &json!({ "from": from, "oldest": gap.oldest }))
}

/// The client did not read fast enough. The frame has data, because browsers drop frames without any.
pub fn overflow() -> Bytes {
    own("overflow", &json!({}))
}

/// The gateway ends the stream.
pub fn closing(reason: &str) -> Bytes {
    own("closing", &json!({ "reason": reason }))
}

fn own(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: stream.{name}\ndata: {data}\n\n"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use model::event::EventName;

    #[test]
    fn frames_are_written_byte_for_byte_as_readers_expect_them() {
        let id = EventId::parse("evt_01JGFJJZ008N9Y7K4S5T6V7W8X").unwrap();
        let stream = StreamId("01JGFJJZ008N9Y7K4S5T6V7W8X".into());
        let shown = StreamEvent {
            id: id.clone(),
            name: EventName::MessageReceived,
            body: Bytes::from_static(br#"{"event":"message.received"}"#),
        };
        let table = [
            (connected(&stream), ": connected 01JGFJJZ008N9Y7K4S5T6V7W8X\nretry: 3000\n\n"),
            (
                event(&shown),
                concat!(
                    "id: evt_01JGFJJZ008N9Y7K4S5T6V7W8X\nevent: message.received\n",
                    "data: {\"event\":\"message.received\"}\n\n",
                ),
            ),
            (ping(Timestamp::from_unix_seconds(1_767_225_615)), ": ping 1767225615\n\n"),
            (
                gap(&id, &Gap { oldest: None }),
                "event: stream.gap\ndata: {\"from\":\"evt_01JGFJJZ008N9Y7K4S5T6V7W8X\",\"oldest\":null}\n\n",
            ),
            (overflow(), "event: stream.overflow\ndata: {}\n\n"),
            (closing("drain"), "event: stream.closing\ndata: {\"reason\":\"drain\"}\n\n"),
        ];
        for (frame, expected) in table {
            assert_eq!(String::from_utf8(frame.to_vec()).unwrap(), expected);
        }
    }
}
