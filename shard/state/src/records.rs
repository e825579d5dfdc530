//! What a shard stores; see [`machine::record`] for how.

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

/// Of how many members of a group the receipts are kept for one message.
pub const MOST_RECEIPTS: u32 = 1024;

/// The live part of a channel. Made at first touch; `pending` until then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelRow {
    pub id: ChannelId,
    pub customer: CustomerId,
    pub status: Status,
    pub reason: Reason,
    pub changed_at: Option<Timestamp>,
    /// Grows with each move; moves are compare-and-set on it.
    pub version: u64,
    /// Whether credentials are stored.
    pub credentials: bool,
    pub phone_number: Option<String>,
    pub lid: Option<Address>,
    pub push_name: Option<String>,
    pub last_seen_at: Option<Timestamp>,
    /// Whether the operator, and not the account, disabled it.
    pub disabled_by_operator: bool,
    /// Since when it has been trying to reconnect without a success in between.
    pub reconnecting_since: Option<Timestamp>,
    /// When another connection last took its stream.
    pub replaced_at: Option<Timestamp>,
    /// From which place in its outbox on nothing was ever written to a session: as far as the log had come when the channel
    /// last ceased to be `connected`. Noted by batches of the third format and later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten_from: Option<u64>,
    /// The call that made the last explicit move, so that a repeat of it answers as the first did.
    pub moved_by: Option<Uuid>,
    /// Deleted in the directory and wiped here; kept so that late commands find it gone.
    #[serde(rename = "forgotten")]
    pub deleted: bool,
    /// Nothing but its deliveries and this row is left of a deleted channel.
    #[serde(default)]
    pub wiped: bool,
    /// How far the wiping of a deleted channel has come.
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

    /// Whether the network may have got what stands at a place of the outbox, as far as an owner can tell that did not
    /// write it. Told by places in the log and not by times: the clocks of earlier owners may have been others.
    pub fn may_be_out(&self, place: u64) -> bool {
        match self.unwritten_from {
            // Another cluster may have gone on with the channel since its backup was taken.
            _ if self.reason == Reason::Restored => true,
            _ if self.status == Status::Connected => true,
            Some(from) => place < from,
            // Of what was never connected nothing went out. All else an earlier release left without a mark.
            None => self.last_seen_at.is_some(),
        }
    }

    /// Whether sends may wait in its outbox. They may not where the channel's end was the end of them, too: what an owner
    /// has left there that died in between is ended by the next one.
    pub fn holds_sends(&self) -> bool {
        let ended = self.status.is_terminal() || matches!(self.status, Status::Pending | Status::Qr);
        // A restored channel keeps them until a person says how it is to go on.
        !ended || self.reason == Reason::Restored
    }
}

/// What of a [`ChannelRow`] says whether its channel takes anything. Commands that come with every message ask no more of it,
/// and the rest of the row is not read for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ChannelStanding {
    pub status: Status,
    #[serde(rename = "forgotten")]
    pub deleted: bool,
}

impl ChannelStanding {
    /// Of a channel that has no row yet; see [`ChannelRow::new`].
    pub const UNTOUCHED: Self = Self { status: Status::Pending, deleted: false };
}

/// A change of a channel's status, as `GET .../status-history` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusChange {
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
    pub reason: Reason,
    /// When it happened.
    pub at: Timestamp,
    pub node_id: NodeId,
    /// The term of the owner's leadership, which fences what an earlier one does.
    pub epoch: Epoch,
    /// Of a ban whose end the network has announced.
    // Noted by the third format and later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
}

/// Where a row came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Api,
    Device,
    Network,
}

model::words! {
    /// The status of a stored message; an outbound one only moves forward.
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

/// A stored message, as it was taken; [`MessageState`] says what became of it.
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

/// A row as a list of all its fields. What these hold bears names: some of it is left out where it is empty.
struct Listed<'a>(&'a MessageRow);

impl Serialize for Listed<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        macro_rules! all {
            ($($field:ident)*) => {{
                // No field can be forgotten here.
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
    /// The row as it is stored: without the names of its fields, since rows are most of what a store holds. Every release reads
    /// both; a field that is added comes at the end, with a default.
    pub fn encode(&self) -> Bytes {
        Bytes::from(encode(&Listed(self)))
    }

    /// The name of its type: of what came in, the one that its event has.
    pub fn type_name(&self) -> &'static str {
        match self.direction {
            Direction::Inbound => self.content.received_name(),
            Direction::Outbound => self.content.type_name(),
        }
    }

    /// The message as the network is given it.
    pub fn outbound(&self) -> Outbound {
        Outbound {
            id: self.message_id.clone(),
            to: self.to.clone(),
            content: self.content.clone(),
            around: self.around.clone(),
        }
    }
}

/// What became of a message. Not stored while it is as it was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageState {
    pub status: MessageStatus,
    pub status_at: Timestamp,
    pub error: Option<Failure>,
    /// Sent to a group: how far its members are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupProgress>,
}

/// Why a message failed: as it is shown, and what whoever repeats the call is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
    /// The network's own refusal, where it was the network that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

impl Failure {
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), refused: None }
    }

    /// Of a send that ends while nobody here knows whether the network took it.
    pub fn in_doubt(why: &str) -> Self {
        Self::new("outcome_unknown", &format!("the network may have accepted it: {why}"))
    }

    pub fn show(self) -> MessageError {
        MessageError { code: self.code, message: self.message }
    }
}

/// How many members of a group have acknowledged a message, each step counting those that are further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupProgress {
    /// Members beside the sender when the network took the message; unknown when the network did not tell.
    pub members: Option<u32>,
    pub delivered: u32,
    pub read: u32,
    pub played: u32,
}

/// A member's receipts for a message, the furthest of them, as `content.receipts` shows them.
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
            // The phone had sent it before it was heard of here.
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

/// Where a message id leads: the row's key parts, and its place in the outbox, if it was sent from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePointer {
    pub occurred_at: Timestamp,
    pub row: RowId,
    pub outbox: Option<u64>,
}

/// A send that the network has not accepted yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxEntry {
    /// The whole message, where its row does not hold its body; earlier releases write it always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Outbound>,
    /// Else whose row says it. From format 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<MessageId>,
    /// Only earlier releases demand it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted_at: Option<Timestamp>,
}

impl OutboxEntry {
    /// One that says all that the network is given.
    pub fn whole(row: &MessageRow) -> Self {
        Self { message: Some(row.outbound()), stored: None, accepted_at: Some(row.created_at) }
    }

    /// One whose row says it.
    pub fn stored(id: MessageId) -> Self {
        Self { message: None, stored: Some(id), accepted_at: None }
    }

    /// Whose send it is; `None` stands for an entry that no release writes.
    pub fn id(&self) -> Option<&MessageId> {
        self.message.as_ref().map(|message| &message.id).or(self.stored.as_ref())
    }

    /// What the network is given, with the message's row beside it.
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

/// An event that is to be delivered: its envelope, byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    pub body: Bytes,
    /// How many deliveries have not been deleted yet; it goes with the last one.
    #[serde(default)]
    pub deliveries: u32,
}

/// A delivery: one per endpoint and event.
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
    /// The conversation: first attempts of one conversation run in the order of its events.
    pub chat: Option<Address>,
    /// The endpoint's URL when the delivery was made.
    pub url: String,
    pub state: DeliveryState,
    /// Attempts made, manual and interrupted ones too.
    pub attempt_count: u32,
    /// How many attempts of the schedule are used up.
    pub scheduled: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub last: Option<LastAttempt>,
    /// Set while an attempt that was asked for by hand is due.
    pub manual: Option<Manual>,
}

impl DeliveryRow {
    /// Whether an attempt is to be made at once: the first one, or one whose time has come.
    pub fn is_due(&self, now: Timestamp) -> bool {
        match self.state {
            DeliveryState::Pending | DeliveryState::InFlight => true,
            DeliveryState::Retrying => self.next_attempt_at.is_some_and(|due| due <= now),
            DeliveryState::Delivered | DeliveryState::Exhausted | DeliveryState::Paused => false,
        }
    }
}

/// Of the last attempt what lists and figures show; attempts have rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAttempt {
    pub started_at: Timestamp,
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    pub latency_ms: u64,
}

/// A redelivery: when it fails, the delivery goes on as if nothing had been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manual {
    /// When the schedule would have gone on.
    pub resume_at: Option<Timestamp>,
}

/// How many attempts of a delivery are kept; manual ones could otherwise grow without bound.
pub const ATTEMPTS_KEPT: u32 = 20;

/// An attempt that takes long, noted so that the next owner knows that it was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunAttempt {
    /// When the delivery was due; another time there means that it has gone on since.
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

/// One attempt. The state machine gives it its number.
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

/// A row of the projection; `None` deletes it.
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
