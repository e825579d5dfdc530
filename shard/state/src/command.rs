//! The commands that an owner proposes to its shard's state machine.

use bytes::Bytes;
use model::address::Address;
use model::event::{EventId, EventName};
use model::format::{Foreign, Format};
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, Epoch, MessageId, NodeId, RowId, ShardId};
use model::msgpack;
use model::status::{Reason, Status, StatusDetails};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::item::{AuthWrite, ReceiptStatus};
use uuid::Uuid;

use crate::deliveries::command::DeliveryCommand;
use crate::media::command::{MediaCommand, MediaRoom};
use crate::media::record::MediaRow;
pub use crate::records::ProjectedWrite;
use crate::records::{ChannelRow, Failure, MessageRow};
pub use crate::reply::{BatchReply, Effect, Reply};
use crate::retention::Expire;
use crate::stream::{Streamed, StreamedEvent, Ticket};

/// One log entry: commands of many channels, applied in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The format by which the batch is applied: the cluster's format when it was proposed, so it is no lower than its
    /// commands need. Where a format changed the effect of a command, replicas of all releases follow this field.
    pub version: Format,
    /// The proposer's term. A batch whose entry has another term comes from a former owner and changes nothing.
    pub epoch: Epoch,
    pub node: NodeId,
    pub commands: Vec<Command>,
}

/// The format of a [`Batch`] that every release understands and applies alike.
pub const BATCH_VERSION: Format = Format::FIRST;

impl Batch {
    /// Reads a batch from the log.
    ///
    /// # Errors
    /// [`Foreign`] when this release does not understand it.
    pub fn read(entry: &[u8]) -> Result<Self, Foreign> {
        Foreign::judge(msgpack::from_slice(entry), |batch: &Self| batch.version, || msgpack::from_slice(entry))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Accepts a send: its row, an encoded `OutboxEntry`, and the row of its media. A known message id changes nothing.
    /// Without an entry, from format 3 on, the message is sent to the network as its row says.
    AcceptSend {
        customer: CustomerId,
        message: NewMessage,
        outbox: Bytes,
        #[serde(default)]
        media: Option<Box<MediaRow>>,
        /// Rows of the projection that are written with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        projected: Vec<ProjectedWrite>,
        /// The space that the account's quota leaves for its media. From format 3 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<MediaRoom>,
    },
    /// Accepts a send that its stored row describes completely, as [`AcceptSend`](Self::AcceptSend) without media does.
    /// From format 3 on; most sends use it.
    Send {
        #[serde(with = "as_stored")]
        message: NewMessage,
        /// Rows of the projection that are written with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        projected: Vec<ProjectedWrite>,
    },
    /// The network accepted a send at `at`, of which the owner learned at `heard_at`, and nobody is to be notified:
    /// equivalent to [`Settle`](Self::Settle) without events ([`shortened`](Self::shortened)). From format 3 on.
    Sent { customer: CustomerId, channel: ChannelId, message: MessageId, at: Timestamp, heard_at: Timestamp },
    /// The network's verdict on a send.
    Settle {
        channel: ChannelId,
        message: MessageId,
        verdict: Verdict,
        at: Timestamp,
        events: Vec<NewEvent>,
        /// Rows of the projection that change with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        projected: Vec<ProjectedWrite>,
    },
    /// A receipt for a sent message. Changes nothing if the message, or the member of a group, has reached that status
    /// already, or if the message is deleted.
    Receipt {
        channel: ChannelId,
        message: MessageId,
        status: ReceiptStatus,
        participant: Option<Address>,
        at: Timestamp,
        event: NewEvent,
    },
    /// An inbound message. A known one changes nothing.
    Receive { customer: CustomerId, message: NewMessage, event: NewEvent },
    /// A message that was written on the channel's own phone. A known one, such as an echo of a send, changes nothing.
    ReceiveOwn { customer: CustomerId, message: NewMessage, events: Vec<NewEvent> },
    /// The content of a message that could not be decrypted before: replaces the row with the same id and time.
    Recover { customer: CustomerId, message: NewMessage, event: NewEvent },
    /// The phone address behind a LID. A known address changes nothing, and makes no event.
    LearnLid { channel: ChannelId, lid: Address, phone: Address, at: Timestamp, event: NewEvent },
    /// A transition of the status machine.
    Move(Move),
    /// An event without a change of state, such as a new QR text.
    Emit(NewEvent),
    /// Rows of the projection to write after a notice, and its events. The owner has compared them with the stored
    /// rows.
    Project { channel: ChannelId, customer: CustomerId, writes: Vec<ProjectedWrite>, events: Vec<NewEvent> },
    /// New settings, as an encoded `SettingsRow`; changes nothing unless the version is the expected one.
    ChangeSettings { channel: ChannelId, customer: CustomerId, expect: Timestamp, row: Bytes },
    /// Credentials and protocol state, sealed. Deleting a key that does not exist is no error.
    Auth { channel: ChannelId, customer: CustomerId, writes: Vec<AuthWrite> },
    /// Resealed credentials and proxy; values that have changed in between are kept. From format 3 on.
    Reseal { channel: ChannelId, auth: Vec<Resealed>, proxy: Option<Resealed> },
    /// A change of deliveries.
    Delivery(DeliveryCommand),
    /// A change of media.
    Media(MediaCommand),
    /// Deletes expired rows. Repeat until the reply is `Done`.
    #[serde(rename = "Trim")]
    Expire(Expire),
    /// Wipes a deleted channel in steps: repeat until the reply is `Done`.
    #[serde(rename = "Forget")]
    DeleteChannel { channel: ChannelId, customer: CustomerId },
    /// Deletes this shard's relay up to a position, after the coordinators in shard `home` have fetched it.
    Release { home: ShardId, upto: u64 },
    /// A part of a shard's relay, for the rings of customers whose coordinator is here.
    Gather { source: ShardId, after: u64, upto: u64, at: Timestamp, events: Vec<StreamedEvent> },
    /// Deletes the ring of a customer whose streams nobody can resume any more. Repeat until the reply is `Done`.
    DropRing { customer: CustomerId },
    /// Stores a ticket for one stream.
    KeepTicket { customer: CustomerId, digest: Bytes, ticket: Ticket, at: Timestamp },
    /// Takes a ticket; `Unchanged` if it was used or has expired.
    UseTicket { customer: CustomerId, digest: Bytes, at: Timestamp },
}

impl Command {
    /// The command's name, for logs.
    pub fn name(&self) -> &'static str {
        macro_rules! names {
            ($($name:ident)*) => {
                match self { $(Self::$name { .. } => stringify!($name),)* }
            };
        }
        names!(
            AcceptSend Send Sent Settle Receipt Receive ReceiveOwn Recover LearnLid Move Emit Project ChangeSettings
            Auth Reseal Delivery Media Expire DeleteChannel Release Gather DropRing KeepTicket UseTicket
        )
    }

    /// A shorter form of the command, if the cluster's format has one: for the network's acceptance of a send of which
    /// nobody is to be notified, and which changes nothing else.
    pub fn shortened(self, format: Format) -> Self {
        match self {
            Self::Settle {
                channel,
                message,
                verdict: Verdict::Accepted { recipients: None },
                at,
                events,
                projected,
            } if format >= Format::THIRD && projected.is_empty() && matches!(&*events, [only] if !only.is_wanted()) => {
                let NewEvent { customer, at: heard_at, .. } = events[0];
                Self::Sent { customer, channel, message, at, heard_at }
            }
            command => command,
        }
    }

    /// Splits writes of the projection and their events into commands that fit a log entry. Events go first: if a crash
    /// cuts off the rest, the notice comes again and is compared with the stored rows.
    pub fn project(
        channel: ChannelId,
        customer: CustomerId,
        writes: Vec<ProjectedWrite>,
        events: Vec<NewEvent>,
    ) -> Vec<Self> {
        let with = |writes, events| Self::Project { channel, customer, writes, events };
        let mut events = portions(events, NewEvent::weight);
        let mut writes = portions(writes, |write| write.id.len() + write.row.as_ref().map_or(0, Bytes::len));
        let last = events.pop().unwrap_or_default();
        let first = if writes.is_empty() { Vec::new() } else { writes.remove(0) };
        let told = events.into_iter().map(|events| with(Vec::new(), events));
        let rest = writes.into_iter().map(|writes| with(writes, Vec::new()));
        told.chain([with(first, last)]).chain(rest).collect()
    }
}

/// A resealed value that replaces another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resealed {
    /// The name of a credential; empty for a proxy.
    pub name: String,
    /// The first bytes of the value to replace (`seal::TOLD_BY`).
    pub was: Bytes,
    pub sealed: Bytes,
}

/// The approximate size of a command's part, in bytes.
const PORTION: usize = 192 << 10;

/// Splits a list into lists of at most [`PORTION`] bytes each, except for a single larger item.
fn portions<T>(all: Vec<T>, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    /// The bytes of an item in addition to its weight.
    const HEAD: usize = 128;
    let mut portions: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for item in all {
        let weighs = weight(&item) + HEAD;
        match portions.last_mut() {
            Some(last) if weighs <= room => {
                room -= weighs;
                last.push(item);
            }
            _ => {
                room = PORTION.saturating_sub(weighs);
                portions.push(vec![item]);
            }
        }
    }
    portions
}

/// A message to store. The owner encodes the row once, as it will be stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMessage {
    pub channel: ChannelId,
    pub message_id: MessageId,
    pub id: RowId,
    pub occurred_at: Timestamp,
    /// The encoded `MessageRow`.
    pub row: Bytes,
    /// The message's chat; `None` for stories, and for a message that only changes or comments on another one.
    #[serde(default)]
    pub chat: Option<Address>,
}

impl NewMessage {
    pub fn of(row: &MessageRow) -> Self {
        Self {
            channel: row.channel,
            message_id: row.message_id.clone(),
            id: row.id,
            occurred_at: row.occurred_at,
            row: row.encode(),
            chat: (row.content.target().is_none() && !row.content.is_story()).then(|| row.chat.clone()),
        }
    }
}

/// A message that its row describes completely.
mod as_stored {
    use model::message::ContentKind;
    use serde::de::{Error, IgnoredAny};
    use serde::{Deserializer, Serializer};

    use super::{Address, Bytes, ChannelId, Deserialize, MessageId, NewMessage, RowId, Serialize, Timestamp};

    /// The fields of a row by which a send is applied. Every replica reads each send, so it skips the other fields.
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "a row is a list of all its fields, in this order")]
    struct Head {
        id: RowId,
        message_id: MessageId,
        channel: ChannelId,
        direction: IgnoredAny,
        source: IgnoredAny,
        chat: Address,
        is_group: IgnoredAny,
        from: IgnoredAny,
        from_resolved: IgnoredAny,
        from_lid: IgnoredAny,
        from_phone: IgnoredAny,
        to: IgnoredAny,
        participant: IgnoredAny,
        push_name: IgnoredAny,
        content: Said,
        #[serde(default)]
        around: IgnoredAny,
        client_ref: IgnoredAny,
        request_id: IgnoredAny,
        correlation_id: IgnoredAny,
        occurred_at: Timestamp,
        created_at: IgnoredAny,
    }

    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "type")]
        kind: ContentKind,
        /// The message that it refers to.
        #[serde(default)]
        target: Option<IgnoredAny>,
    }

    pub fn serialize<S: Serializer>(message: &NewMessage, serializer: S) -> Result<S::Ok, S::Error> {
        message.row.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NewMessage, D::Error> {
        let row = Bytes::deserialize(deserializer)?;
        let Head { id, message_id, channel, chat, content, occurred_at, .. } =
            machine::record::read(&row).map_err(D::Error::custom)?;
        let chat = (content.target.is_none() && !content.kind.is_story()).then_some(chat);
        Ok(NewMessage { channel, message_id, id, occurred_at, row, chat })
    }
}

/// The network's verdict on a send, or the gateway's after the network did not answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// Accepted by the network. For a group, `recipients` other members will acknowledge it, if their number is known.
    Accepted { recipients: Option<u32> },
    /// Not accepted by the network, or unknown whether it was.
    Failed(Failure),
}

/// An event with its deliveries. The owner minted all ids and matched the endpoints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewEvent {
    pub id: EventId,
    pub name: EventName,
    pub channel: ChannelId,
    pub customer: CustomerId,
    /// The message that it is about, for the history.
    pub message: Option<MessageId>,
    pub correlation_id: Option<String>,
    pub chat: Option<Address>,
    pub body: Bytes,
    pub at: Timestamp,
    pub deliveries: Vec<NewDelivery>,
    /// Set while the customer's event stream is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed: Option<Streamed>,
    /// Set when a stale copy of the directory, which may lack endpoints, made the event: it must not be committed.
    #[serde(skip)]
    pub outdated: bool,
}

impl NewEvent {
    /// Whether the event has any recipient, as far as the copy of the directory shows that it was made with.
    pub fn is_wanted(&self) -> bool {
        !self.deliveries.is_empty() || self.streamed.is_some() || self.outdated
    }

    /// The approximate bytes of its body and its deliveries in the log.
    pub fn weight(&self) -> usize {
        self.body.len() + self.deliveries.iter().map(|delivery| weight_to(&delivery.url)).sum::<usize>()
    }
}

/// The most bytes of an event's deliveries in the log: they fit into one entry with the largest message, or with the
/// other events of a command.
pub const MOST_DELIVERY_BYTES: usize = 192 << 10;

/// The approximate bytes of a delivery to a URL in the log.
pub fn weight_to(url: &str) -> usize {
    /// The two ids and the encoding.
    const HEAD: usize = 96;
    url.len() + HEAD
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewDelivery {
    pub id: DeliveryId,
    pub endpoint: EndpointId,
    pub url: String,
}

/// A transition with all that changes beside the status.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Move {
    pub channel: ChannelId,
    pub customer: CustomerId,
    /// The version that the owner saw; another stored version means that the transition lost a race.
    pub expect: u64,
    pub to: Status,
    pub reason: Reason,
    pub at: Timestamp,
    pub wipe_credentials: bool,
    /// The channel's identity on the network, if the transition made it known.
    pub identity: Option<traffic::item::Identity>,
    pub disabled_by_operator: bool,
    pub moved_by: Option<Uuid>,
    pub events: Vec<NewEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
}

impl ChannelRow {
    /// Applies a transition to the row: used by the state machine, and by the owner for its copy of the row.
    pub fn moved(&mut self, step: &Move) {
        if self.status == Status::Connected || step.to == Status::Connected {
            self.last_seen_at = Some(step.at);
        }
        self.reconnecting_since = match step.to {
            Status::Reconnecting => self.reconnecting_since.or(Some(step.at)),
            // A connection attempt is part of the same reconnection.
            Status::Connecting if self.status == Status::Reconnecting => self.reconnecting_since,
            _ => None,
        };
        if step.reason == Reason::KickedOtherDevice {
            self.replaced_at = Some(step.at);
        }
        self.version += 1;
        self.status = step.to;
        self.reason = step.reason;
        self.changed_at = Some(step.at);
        self.disabled_by_operator = step.disabled_by_operator;
        self.moved_by = step.moved_by.or(self.moved_by);
        if let Some(identity) = &step.identity {
            self.phone_number = Some(identity.phone_number.clone());
            self.lid = identity.lid.clone().or(self.lid.take());
            self.push_name = identity.push_name.clone().or(self.push_name.take());
        }
        if step.wipe_credentials {
            self.credentials = false;
        }
    }
}
