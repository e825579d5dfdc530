//! The records that a shard stores; see [`machine::record`] for their encoding.

use bytes::Bytes;
use machine::View;
pub use machine::record::{decode, encode};
use model::address::Address;
use model::event::{EventId, EventName};
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, Epoch, MessageId, NodeId, RowId};
use model::message::{Content, Surroundings};
use model::status::{Reason, Status, StatusDetails};
use model::time::Timestamp;
use model::webhook::{DeliveryState, Outcome};
use schemars::JsonSchema;
use serde::ser::SerializeTuple;
use serde::{Deserialize, Serialize};
use traffic::item::{Outbound, ReceiptStatus};
use traffic::operation::Refused;
use uuid::Uuid;

use crate::keys::{self, Direction, Kind};

/// The number of group members whose receipts for one message are stored.
pub const MOST_RECEIPTS: u32 = 1024;

/// The live state of a channel. Created at first use; the channel is `pending` until then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelRow {
    pub id: ChannelId,
    pub customer: CustomerId,
    pub status: Status,
    pub reason: Reason,
    pub changed_at: Option<Timestamp>,
    /// Incremented by each transition; transitions are compare-and-set on it.
    pub version: u64,
    /// Whether credentials are stored.
    pub credentials: bool,
    pub phone_number: Option<String>,
    pub lid: Option<Address>,
    pub push_name: Option<String>,
    pub last_seen_at: Option<Timestamp>,
    /// Whether the operator, and not the account, disabled the channel.
    pub disabled_by_operator: bool,
    /// Since when the channel has been reconnecting without a success in between.
    pub reconnecting_since: Option<Timestamp>,
    /// When another connection last took over its stream.
    pub replaced_at: Option<Timestamp>,
    /// The outbox position from which on no send was ever written to a session: the log position at which the channel
    /// last ceased to be `connected`. Written by batches of format 3 and later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten_from: Option<u64>,
    /// The call that made the last explicit transition, so that a repeat of it gets the same response.
    pub moved_by: Option<Uuid>,
    /// Whether the channel is deleted and wiped; the row is kept so that late commands find it deleted.
    #[serde(rename = "forgotten")]
    pub deleted: bool,
    /// Whether only its deliveries and this row are left of a deleted channel.
    #[serde(default)]
    pub wiped: bool,
    /// The key up to which a deleted channel has been wiped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wiped_upto: Option<Bytes>,
}

impl ChannelRow {
    pub fn new(id: ChannelId, customer: CustomerId) -> Self {
        Self {
            id,
            customer,
            status: Status::Pending,
            reason: Reason::Created,
            changed_at: None,
            version: 0,
            credentials: false,
            phone_number: None,
            lid: None,
            push_name: None,
            last_seen_at: None,
            disabled_by_operator: false,
            reconnecting_since: None,
            replaced_at: None,
            unwritten_from: None,
            moved_by: None,
            deleted: false,
            wiped: false,
            wiped_upto: None,
        }
    }

    /// Whether the network may have received the send at an outbox position, as far as an owner can tell that did not
    /// write it to a session. This compares log positions, not times: the clocks of earlier owners may have differed.
    pub fn may_be_out(&self, place: u64) -> bool {
        match self.unwritten_from {
            // The old cluster may have continued with the channel after its backup was taken.
            _ if self.reason == Reason::Restored => true,
            _ if self.status == Status::Connected => true,
            Some(from) => place < from,
            // A channel that was never connected sent nothing. Otherwise an earlier release left no mark.
            None => self.last_seen_at.is_some(),
        }
    }

    /// Whether sends may wait in the channel's outbox. If the channel has ended, its sends end as well: those that an
    /// owner left when it died in between are ended by the next owner.
    pub fn holds_sends(&self) -> bool {
        let ended = self.status.is_terminal() || matches!(self.status, Status::Pending | Status::Qr);
        // A restored channel keeps them until a person decides how it continues.
        !ended || self.reason == Reason::Restored
    }
}

/// The fields of a [`ChannelRow`] that tell whether its channel accepts commands. Commands that come with every message
/// need only these, so the rest of the row is not decoded for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ChannelStanding {
    pub status: Status,
    #[serde(rename = "forgotten")]
    pub deleted: bool,
}

impl ChannelStanding {
    /// The standing of a channel that has no row yet; see [`ChannelRow::new`].
    pub const UNTOUCHED: Self = Self { status: Status::Pending, deleted: false };
}

/// Change of a channel's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusChange {
    /// Status before the change.
    pub from: Status,
    /// Status after the change.
    pub to: Status,
    pub reason: Reason,
    /// Time of the change.
    pub at: Timestamp,
    /// Node that owned the channel.
    pub node_id: NodeId,
    /// Term of the owner's leadership, which fences off earlier owners.
    pub epoch: Epoch,
    /// Details of a ban whose end the network has announced; otherwise absent.
    // Written by format 3 and later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
}

/// Origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Api,
    Device,
    Network,
}

model::words! {
    /// Status of a stored message; that of an outbound one only moves forward.
    #[derive(PartialOrd, Ord, JsonSchema)]
    MessageStatus {
        Queued = "queued",
        Sent = "sent",
        Delivered = "delivered",
        Read = "read",
        Played = "played",
        Failed = "failed",
        Received = "received",
    }
}

/// Why a message failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageError {
    pub code: String,
    pub message: String,
}

/// A stored message as it was accepted; [`MessageState`] holds its later status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRow {
    pub id: RowId,
    pub message_id: MessageId,
    pub channel: ChannelId,
    pub direction: Direction,
    pub source: Source,
    pub chat: Address,
    pub is_group: bool,
    pub from: Address,
    pub from_resolved: bool,
    pub from_lid: Option<Address>,
    pub from_phone: Option<Address>,
    pub to: Address,
    pub participant: Option<Address>,
    pub push_name: Option<String>,
    pub content: Content,
    #[serde(default, skip_serializing_if = "Surroundings::is_empty")]
    pub around: Surroundings,
    pub client_ref: Option<String>,
    pub request_id: Option<String>,
    pub correlation_id: String,
    pub occurred_at: Timestamp,
    pub created_at: Timestamp,
}

/// Serializes a row as a list of its fields, without their names. The values of fields keep the names of their own
/// fields, as empty ones are omitted.
struct Listed<'a>(&'a MessageRow);

impl Serialize for Listed<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        macro_rules! all {
            ($($field:ident)*) => {{
                // This pattern names all fields, so that none can be forgotten.
                let MessageRow { $($field),* } = self.0;
                let mut list = serializer.serialize_tuple([$(stringify!($field)),*].len())?;
                $(list.serialize_element($field)?;)*
                list.end()
            }};
        }
        all!(
            id message_id channel direction source chat is_group from from_resolved from_lid from_phone to participant
            push_name content around client_ref request_id correlation_id occurred_at created_at
        )
    }
}

impl MessageRow {
    /// The encoded row as stored: without field names, as rows are most of a store's data. Every release reads both
    /// encodings. A new field has to be the last one, and needs a default.
    pub fn encode(&self) -> Bytes {
        Bytes::from(encode(&Listed(self)))
    }

    /// The name of the message's type; of an inbound message, the one that its event uses.
    pub fn type_name(&self) -> &'static str {
        match self.direction {
            Direction::Inbound => self.content.received_name(),
            Direction::Outbound => self.content.type_name(),
        }
    }

    /// The message as it is sent to the network.
    pub fn outbound(&self) -> Outbound {
        Outbound {
            id: self.message_id.clone(),
            to: self.to.clone(),
            content: self.content.clone(),
            around: self.around.clone(),
        }
    }
}

/// The status of a message. Not stored before it first changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageState {
    pub status: MessageStatus,
    pub status_at: Timestamp,
    pub error: Option<Failure>,
    /// For a message to a group: the progress of its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupProgress>,
}

/// Why a message failed: as shown in the history, and as returned to a caller that repeats the send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
    /// The network's own refusal, if the network refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

impl Failure {
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), refused: None }
    }

    /// The failure of a send that ends while it is unknown whether the network accepted it.
    pub fn in_doubt(why: &str) -> Self {
        Self::new("outcome_unknown", &format!("the network may have accepted it: {why}"))
    }

    pub fn show(self) -> MessageError {
        MessageError { code: self.code, message: self.message }
    }
}

/// How many members of a group have acknowledged a message; each count includes the members that are further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupProgress {
    /// Members other than the sender when the network accepted the message; `None` if the network did not tell.
    pub members: Option<u32>,
    pub delivered: u32,
    pub read: u32,
    pub played: u32,
}

/// The furthest receipt of a member for a message, as shown in `content.receipts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiptRow {
    pub member: Address,
    pub status: ReceiptStatus,
    pub at: Timestamp,
}

impl MessageState {
    /// The state of a stored message.
    pub fn read(view: &dyn View, row: &MessageRow) -> Self {
        let (status, status_at) = match row.direction {
            Direction::Inbound => (MessageStatus::Received, row.occurred_at),
            // The phone sent it before the gateway learned of it.
            Direction::Outbound if row.source == Source::Device => (MessageStatus::Sent, row.occurred_at),
            Direction::Outbound => (MessageStatus::Queued, row.created_at),
        };
        let Some(state) = view.get(&keys::message_state(row.channel, row.id)) else {
            return Self { status, status_at, error: None, group: None };
        };
        let state: Self = decode(&state);
        // Receipts of a group's members are counted from `queued` on, whoever sent the message.
        if state.status < status { Self { status, status_at, ..state } } else { state }
    }
}

/// Where a message id leads: the key parts of the row, and the outbox position, if the gateway sent it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePointer {
    pub occurred_at: Timestamp,
    pub row: RowId,
    pub outbox: Option<u64>,
}

/// A send that the network has not accepted yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxEntry {
    /// The whole message, if its row does not hold its body; earlier releases always write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Outbound>,
    /// Otherwise the id of the message whose row holds it. From format 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<MessageId>,
    /// Required by earlier releases only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted_at: Option<Timestamp>,
}

impl OutboxEntry {
    /// An entry with the whole message.
    pub fn whole(row: &MessageRow) -> Self {
        Self { message: Some(row.outbound()), stored: None, accepted_at: Some(row.created_at) }
    }

    /// An entry whose message is in its row.
    pub fn stored(id: MessageId) -> Self {
        Self { message: None, stored: Some(id), accepted_at: None }
    }

    /// The id of the message; `None` for an entry that no release writes.
    pub fn id(&self) -> Option<&MessageId> {
        self.message.as_ref().map(|message| &message.id).or(self.stored.as_ref())
    }

    /// The message as it is sent to the network, given its row.
    pub fn outbound(self, row: &MessageRow) -> Outbound {
        self.message.unwrap_or_else(|| row.outbound())
    }

    pub fn is_whole(&self) -> bool {
        self.message.is_some()
    }
}

/// The phone address behind a LID.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LidRow {
    pub phone: Address,
    pub first_seen_at: Timestamp,
}

/// An event to deliver: its envelope, byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    pub body: Bytes,
    /// The number of deliveries that have not been deleted yet; the event is deleted with the last one.
    #[serde(default)]
    pub deliveries: u32,
}

/// A delivery: one for each endpoint and event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveryRow {
    pub id: DeliveryId,
    pub endpoint: EndpointId,
    pub customer: CustomerId,
    pub channel: ChannelId,
    pub event: EventName,
    pub event_id: EventId,
    pub message_id: Option<MessageId>,
    pub correlation_id: Option<String>,
    /// The conversation: first attempts within one conversation run in the order of its events.
    pub chat: Option<Address>,
    /// The endpoint's URL when the delivery was created.
    pub url: String,
    pub state: DeliveryState,
    /// The number of attempts, including manual and interrupted ones.
    pub attempt_count: u32,
    /// The number of attempts of the schedule that are used up.
    pub scheduled: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub last: Option<LastAttempt>,
    /// Set while a manually requested attempt is due.
    pub manual: Option<Manual>,
}

impl DeliveryRow {
    /// Whether an attempt is due now: the first one, or a later one whose time has come.
    pub fn is_due(&self, now: Timestamp) -> bool {
        match self.state {
            DeliveryState::Pending | DeliveryState::InFlight => true,
            DeliveryState::Retrying => self.next_attempt_at.is_some_and(|due| due <= now),
            DeliveryState::Delivered | DeliveryState::Exhausted | DeliveryState::Paused => false,
        }
    }
}

/// The fields of the last attempt that lists and figures show; attempts have rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAttempt {
    pub started_at: Timestamp,
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    pub latency_ms: u64,
}

/// A manual redelivery: if it fails, the delivery continues as if it had not been requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manual {
    /// When the schedule would have continued.
    pub resume_at: Option<Timestamp>,
}

/// The number of attempts of a delivery that are kept; manual ones could otherwise grow without bound.
pub const ATTEMPTS_KEPT: u32 = 20;

/// An attempt that takes long, recorded so that the next owner knows that it was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunAttempt {
    /// When the delivery was due; if its due time differs, the delivery has gone on since.
    pub due: Timestamp,
    pub trigger: AttemptTrigger,
    pub started_at: Timestamp,
}

/// Why an attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptTrigger {
    Scheduled,
    Manual,
}

/// One attempt. The state machine assigns its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRow {
    pub number: u32,
    pub trigger: AttemptTrigger,
    pub started_at: Timestamp,
    pub latency_ms: u64,
    pub elapsed_ms: u64,
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    pub response_headers: Vec<(String, String)>,
    pub response_body: Option<String>,
    pub remote_ip: Option<String>,
    pub error: Option<String>,
}

/// A write to the projection; `None` deletes the row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectedWrite {
    pub kind: Kind,
    pub id: String,
    pub row: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(row: &ChannelRow) -> ChannelStanding {
        ChannelStanding { status: row.status, deleted: row.deleted }
    }

    #[test]
    fn how_a_channel_stands_is_read_from_the_bytes_of_its_whole_row() {
        let new = ChannelRow::new(ChannelId::random(), CustomerId::random());
        assert_eq!(standing(&new), ChannelStanding::UNTOUCHED);
        let full = ChannelRow {
            status: Status::Connected,
            changed_at: Some(Timestamp(7)),
            version: 1 << 40,
            credentials: true,
            phone_number: Some("15551230000".to_owned()),
            push_name: Some("Somebody".to_owned()),
            last_seen_at: Some(Timestamp(8)),
            replaced_at: Some(Timestamp(9)),
            unwritten_from: Some(10),
            moved_by: Some(Uuid::nil()),
            ..new.clone()
        };
        let deleted =
            ChannelRow { deleted: true, wiped: true, wiped_upto: Some(Bytes::from_static(b"key")), ..full.clone() };
        for row in [new, full, deleted] {
            let bytes = encode(&row);
            assert_eq!(decode::<ChannelStanding>(&bytes), standing(&decode::<ChannelRow>(&bytes)));
        }
    }
}
