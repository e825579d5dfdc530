//! Events: their names and ids, and the envelope whose bytes are signed, stored and sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::digest::mac;
use crate::id::ChannelId;
pub use crate::payload::EventName;
use crate::payload::{Payload, example};
use crate::time::Timestamp;

/// Date-stamped version of all payload shapes.
pub const API_VERSION: &str = "2026-04";

/// Largest envelope, in bytes; longer texts are cut and flagged.
pub const LARGEST_ENVELOPE: usize = 256 * 1024;

/// Id of the event: `evt_` and a ULID, by which receivers drop repeated deliveries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct EventId(String);

/// Identifies an inbound item of the network, so that a replay of the item gets the same [`EventId`].
#[derive(Clone, Copy, Debug)]
pub struct NetworkItem<'a> {
    pub channel: ChannelId,
    /// The network's id of the message or of the item's other subject.
    pub network_id: &'a str,
    pub event: EventName,
    /// Distinguishes items with the same network id and event: the status of a receipt and, in a group, its member.
    /// Empty where nothing has to be distinguished.
    pub status: &'a str,
    pub network_time: Timestamp,
}

impl EventId {
    /// Parses the text form of an id.
    pub fn parse(text: &str) -> Option<Self> {
        let ulid = Ulid::from_string(text.strip_prefix("evt_")?).ok()?;
        // Only the canonical spelling is accepted, because ids are compared as texts.
        Some(Self(format!("evt_{ulid}"))).filter(|id| id.0 == text)
    }

    /// A new id with 80 random bits.
    pub fn mint(now: Timestamp, random: [u8; 10]) -> Self {
        let mut wide = [0; 16];
        wide[6..].copy_from_slice(&random);
        let ulid = Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), u128::from_be_bytes(wide));
        Self(format!("evt_{ulid}"))
    }

    /// The id of an inbound item: the network's time, and as random part the first 80 bits of an HMAC-SHA256 under the
    /// deployment's key.
    pub fn derived(deployment_key: &[u8], item: NetworkItem<'_>) -> Self {
        let name = format!("{}|{}|{}|{}", item.channel, item.network_id, item.event, item.status);
        let digest = mac(deployment_key, &[name.as_bytes()]);
        Self::mint(item.network_time, std::array::from_fn(|place| digest[place]))
    }

    /// When the id was minted; for an inbound item the network's time.
    pub fn time(&self) -> Timestamp {
        let ulid = self.0.strip_prefix("evt_").and_then(|text| Ulid::from_string(text).ok());
        Timestamp(ulid.map_or(0, |ulid| i64::try_from(ulid.timestamp_ms()).unwrap_or(i64::MAX)))
    }
}

crate::words::texts!(EventId);

/// The delivery envelope. The order of the fields is the order on the wire.
#[derive(Serialize)]
struct Envelope<'a, D: Serialize> {
    event: &'a str,
    event_id: &'a EventId,
    api_version: &'a str,
    channel_id: ChannelId,
    occurred_at: Timestamp,
    /// The event is an example, sent to try out a receiver.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    test: bool,
    data: &'a D,
}

/// An event as emitted. Its bytes are made once, and stored, signed and sent unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub channel: ChannelId,
    pub occurred_at: Timestamp,
    pub payload: Payload,
}

impl Event {
    /// An example of an event of this name, with addresses of the simulated network.
    pub fn example(name: EventName) -> Self {
        let place = EventName::ALL.iter().position(|known| *known == name).unwrap_or_default();
        let place = u8::try_from(place).unwrap_or_default();
        Self {
            id: EventId::mint(example::NOW, [place; 10]),
            channel: example::channel(),
            occurred_at: example::NOW,
            payload: Payload::example(name),
        }
    }

    pub fn name(&self) -> EventName {
        self.payload.name()
    }

    /// The envelope's bytes. Texts that would make it larger than [`LARGEST_ENVELOPE`] are cut and flagged.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = self.write(&self.payload);
        if bytes.len() <= LARGEST_ENVELOPE {
            return bytes;
        }
        let mut payload = self.payload.clone();
        let mut bytes = bytes;
        // The loop ends: only a message's content is this long, and a few dozen halvings leave nothing of it.
        while bytes.len() > LARGEST_ENVELOPE && payload.halve_text() {
            bytes = self.write(&payload);
        }
        bytes
    }

    /// The envelope of an example that is sent to try out a receiver, marked `"test": true`.
    pub fn to_test_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&Envelope { test: true, ..self.envelope(&self.payload) }).expect(WRITTEN)
    }

    fn write(&self, payload: &Payload) -> Vec<u8> {
        serde_json::to_vec(&self.envelope(payload)).expect(WRITTEN)
    }

    fn envelope<'a>(&'a self, payload: &'a Payload) -> Envelope<'a, Payload> {
        Envelope {
            event: payload.name().as_str(),
            event_id: &self.id,
            api_version: API_VERSION,
            channel_id: self.channel,
            occurred_at: self.occurred_at,
            test: false,
            data: payload,
        }
    }
}

/// The bytes of a `webhook.test` probe, an event that cannot be subscribed to.
pub fn test_envelope(
    id: &EventId,
    channel: ChannelId,
    occurred_at: Timestamp,
    endpoint: Option<crate::id::EndpointId>,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Probe {
        test: bool,
        endpoint_id: Option<crate::id::EndpointId>,
    }
    let probe = Probe { test: true, endpoint_id: endpoint };
    let envelope = Envelope {
        event: TEST_EVENT,
        event_id: id,
        api_version: API_VERSION,
        channel_id: channel,
        occurred_at,
        // The interface puts the flag of a probe into its data instead.
        test: false,
        data: &probe,
    };
    serde_json::to_vec(&envelope).expect(WRITTEN)
}

/// Event name of a probe.
pub const TEST_EVENT: &str = "webhook.test";

const WRITTEN: &str = "payloads have string keys only and are written to memory";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::id::MessageId;
    use crate::payload::{AckStatus, Chat, MessageReceived, MessageStatus, ReceivedBody, Sender};
    use proptest::prelude::*;

    fn channel() -> ChannelId {
        "7f2c1a52-7d3e-4a55-9a42-0d6f0b1c2d3e".parse().unwrap()
    }

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    /// The 342 bytes that the published test vector of the signature signs.
    const VECTOR: &str = concat!(
        r#"{"event":"message.status","event_id":"evt_01JGFJJZ008N9Y7K4S5T6V7W8X","api_version":"2026-04","#,
        r#""channel_id":"7f2c1a52-7d3e-4a55-9a42-0d6f0b1c2d3e","occurred_at":"2026-01-01T00:00:00.000Z","#,
        r#""data":{"message_id":"3EB0A1B2C3D4E5F60718293A4B5C6D7E8F901234","to":"15550001111@s.example","#,
        r#""status":"delivered","is_group":false,"timestamp":1767225599}}"#,
    );

    #[test]
    fn the_envelope_is_the_published_vector_byte_for_byte() {
        let event = Event {
            id: EventId("evt_01JGFJJZ008N9Y7K4S5T6V7W8X".into()),
            channel: channel(),
            occurred_at: Timestamp::parse_iso("2026-01-01T00:00:00Z").unwrap(),
            payload: Payload::MessageStatus(MessageStatus {
                message_id: MessageId("3EB0A1B2C3D4E5F60718293A4B5C6D7E8F901234".into()),
                to: address("15550001111@s.example"),
                status: AckStatus::Delivered,
                is_group: false,
                timestamp: 1_767_225_599,
                participant: None,
                client_ref: None,
                error: None,
            }),
        };
        assert_eq!(String::from_utf8(event.to_bytes()).unwrap(), VECTOR);
        assert_eq!(VECTOR.len(), 342);
    }

    fn received(text: &str) -> Event {
        let lid = address("251556368777322@lid");
        Event {
            id: EventId::mint(Timestamp(1_767_225_602_118), [7; 10]),
            channel: channel(),
            occurred_at: Timestamp(1_767_225_602_118),
            payload: Payload::MessageReceived(Box::new(MessageReceived {
                message_id: MessageId("3EB0A1".into()),
                sender: Sender::unresolved(lid.clone()),
                to: address("15559990000@s.example"),
                chat: Chat { chat_id: address("120363025246125486@g.example"), is_group: true, participant: Some(lid) },
                push_name: Some("Ana".into()),
                body: ReceivedBody::Text { text: text.into(), link_preview: None },
                quoted: None,
                mentions: Vec::new(),
                mentions_all: false,
                forwarded: false,
                is_view_once: false,
                ephemeral_expiration: None,
                recovered: false,
                received_at: Timestamp(1_767_225_602_118),
                timestamp: 1_767_225_601,
                truncated: false,
            })),
        }
    }

    #[test]
    fn a_received_message_has_the_fields_that_readers_expect() {
        let bytes = received("hi").to_bytes();
        let text = String::from_utf8(bytes).unwrap();
        let data = concat!(
            r#""data":{"message_id":"3EB0A1","from":"251556368777322@lid","from_resolved":false,"#,
            r#""from_lid":"251556368777322@lid","to":"15559990000@s.example","#,
            r#""chat_id":"120363025246125486@g.example","is_group":true,"participant":"251556368777322@lid","#,
            r#""push_name":"Ana","body":{"type":"text","text":"hi"},"#,
            r#""received_at":"2026-01-01T00:00:02.118Z","timestamp":1767225601}}"#,
        );
        assert!(text.ends_with(data), "{text}");
    }

    #[test]
    fn text_beyond_the_largest_envelope_is_cut_and_flagged() {
        for text in ["ä".repeat(300_000), "\u{1}".repeat(100_000)] {
            let bytes = received(&text).to_bytes();
            assert!(bytes.len() <= LARGEST_ENVELOPE);
            let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(json["data"]["truncated"], true);
            assert!(text.starts_with(json["data"]["body"]["text"].as_str().unwrap()));
        }
    }

    #[test]
    fn the_names_are_the_25_of_the_interface() {
        assert_eq!(EventName::ALL.len(), 25);
        for name in EventName::ALL {
            assert_eq!(EventName::parse(name.as_str()), Some(name));
            assert_eq!(serde_json::to_value(name).unwrap(), name.as_str());
        }
        assert_eq!(EventName::parse(TEST_EVENT), None);
    }

    #[test]
    fn the_probe_names_its_endpoint_or_null() {
        let id = EventId::mint(Timestamp(0), [0; 10]);
        let text = String::from_utf8(test_envelope(&id, ChannelId(uuid::Uuid::nil()), Timestamp(0), None)).unwrap();
        assert!(text.starts_with(r#"{"event":"webhook.test","event_id":"evt_00000000000000000000000000""#));
        assert!(text.ends_with(r#""data":{"test":true,"endpoint_id":null}}"#));
    }

    #[test]
    fn an_example_that_is_sent_differs_from_the_event_by_its_mark_alone() {
        for name in EventName::ALL {
            let example = Event::example(name);
            let mut sent: serde_json::Value = serde_json::from_slice(&example.to_test_bytes()).unwrap();
            assert_eq!(sent.as_object_mut().unwrap().remove("test"), Some(true.into()));
            assert_eq!(sent, serde_json::from_slice::<serde_json::Value>(&example.to_bytes()).unwrap());
        }
    }

    #[test]
    fn an_id_is_read_as_it_is_shown_and_no_other_way() {
        let id = EventId::mint(Timestamp(1_767_225_602_118), [7; 10]);
        assert_eq!(EventId::parse(id.as_str()), Some(id.clone()));
        for text in ["", "evt_", "evt_01JGFJJZ", &id.as_str()[4..], &id.as_str().to_lowercase()] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }

    fn item<'a>(network_id: &'a str, status: &'a str, millis: i64) -> NetworkItem<'a> {
        let network_time = Timestamp(millis);
        NetworkItem { channel: channel(), network_id, event: EventName::MessageStatus, status, network_time }
    }

    proptest! {
        #[test]
        fn a_replayed_item_keeps_its_id_and_others_get_their_own(
            network_id in "[A-F0-9]{8,40}",
            millis in 0_i64..4_000_000_000_000,
        ) {
            let id = EventId::derived(b"key", item(&network_id, "delivered", millis));
            prop_assert_eq!(&id, &EventId::derived(b"key", item(&network_id, "delivered", millis)));
            prop_assert_ne!(&id, &EventId::derived(b"key", item(&network_id, "read", millis)));
            prop_assert_ne!(&id, &EventId::derived(b"other", item(&network_id, "delivered", millis)));
            let ulid = Ulid::from_string(id.as_str().strip_prefix("evt_").unwrap()).unwrap();
            prop_assert_eq!(ulid.timestamp_ms(), millis as u64);
            prop_assert_eq!(id.time(), Timestamp(millis));
            prop_assert!(id.as_str()[4..].bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()));
        }
    }
}
