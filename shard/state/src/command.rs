//! What an owner asks of its shard's state machine, and what it answers.

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
    /// The format by which it is applied: that of the cluster when it was proposed, and so no lower than its commands need.
    /// Where a format changed what a command does, replicas of all releases go by this one.
    pub version: Format,
    /// The proposer's term. A batch whose entry has another term comes from an owner of the past and changes nothing.
    pub epoch: Epoch,
    pub node: NodeId,
    pub commands: Vec<Command>,
}

/// The format of a [`Batch`] that every release understands and applies alike.
pub const BATCH_VERSION: Format = Format::FIRST;

impl Batch {
    /// Reads one out of the log.
    ///
    /// # Errors
    /// [`Foreign`] when this release does not understand it.
    pub fn read(entry: &[u8]) -> Result<Self, Foreign> {
        Foreign::judge(msgpack::from_slice(entry), |batch: &Self| batch.version, || msgpack::from_slice(entry))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Takes a send: a row, an encoded `OutboxEntry`, and the row of its media. A message id that is known is left as it
    /// is. Without an entry, from format 3 on, the row says what the network is given.
    AcceptSend {
        customer: CustomerId,
        message: NewMessage,
        outbox: Bytes,
        #[serde(default)]
        media: Option<Box<MediaRow>>,
        /// Rows that come to be with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        projected: Vec<ProjectedWrite>,
        /// What the account's quota leaves for its media, from format 3 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<MediaRoom>,
    },
    /// Takes a send of which the stored row says all, from format 3 on. Without media, it does what
    /// [`AcceptSend`](Self::AcceptSend) does; most sends go so.
    Send {
        #[serde(with = "as_stored")]
        message: NewMessage,
        /// Rows that come to be with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        projected: Vec<ProjectedWrite>,
    },
    /// The network took a send, and nobody is to be told, from format 3 on: what [`Settle`](Self::Settle) does without events
    /// ([`shortened`](Self::shortened)). The network took it `at` a time, and the owner heard of it later.
    Sent { customer: CustomerId, channel: ChannelId, message: MessageId, at: Timestamp, heard_at: Timestamp },
    /// The network's verdict on a send.
    Settle {
        channel: ChannelId,
        message: MessageId,
        verdict: Verdict,
        at: Timestamp,
        events: Vec<NewEvent>,
        /// Rows that it changes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        projected: Vec<ProjectedWrite>,
    },
    /// A receipt for a sent message. Nothing happens when the row, or the member of a group, is that far already, or
    /// when the row is gone.
    Receipt {
        channel: ChannelId,
        message: MessageId,
        status: ReceiptStatus,
        participant: Option<Address>,
        at: Timestamp,
        event: NewEvent,
    },
    /// An inbound message. One that is known changes nothing.
    Receive { customer: CustomerId, message: NewMessage, event: NewEvent },
    /// A message that the channel's own phone wrote. One that is known, such as an echo of a send, changes nothing.
    ReceiveOwn { customer: CustomerId, message: NewMessage, events: Vec<NewEvent> },
    /// What an undecryptable message really said: takes the place of its row, of which it bears the id and the time.
    Recover { customer: CustomerId, message: NewMessage, event: NewEvent },
    /// The phone address behind a LID. Only the first sight of it makes an event.
    LearnLid { channel: ChannelId, lid: Address, phone: Address, at: Timestamp, event: NewEvent },
    /// A move of the status machine.
    Move(Move),
    /// An event without a change of state, such as a new QR text.
    Emit(NewEvent),
    /// What the network told of the channel's world, as rows to write, and the events of it. The owner has compared it with
    /// what stood there.
    Project { channel: ChannelId, customer: CustomerId, writes: Vec<ProjectedWrite>, events: Vec<NewEvent> },
    /// Other settings, as an encoded `SettingsRow`; nothing happens unless the version is the expected one.
    ChangeSettings { channel: ChannelId, customer: CustomerId, expect: Timestamp, row: Bytes },
    /// Credentials and protocol state, sealed. Deletes of keys that do not exist are fine.
    Auth { channel: ChannelId, customer: CustomerId, writes: Vec<AuthWrite> },
    /// Credentials and a proxy that are sealed anew; what has changed meanwhile stays. From format 3 on.
    Reseal { channel: ChannelId, auth: Vec<Resealed>, proxy: Option<Resealed> },
    /// What becomes of deliveries.
    Delivery(DeliveryCommand),
    /// Media: see there.
    Media(MediaCommand),
    /// Deletes what is past its time. Repeat until the answer is `Done`.
    #[serde(rename = "Trim")]
    Expire(Expire),
    /// Wipes a deleted channel, a part at a time: repeat until the answer is `Done`.
    #[serde(rename = "Forget")]
    DeleteChannel { channel: ChannelId, customer: CustomerId },
    /// A home has fetched this shard's relay up to a place.
    Release { home: ShardId, upto: u64 },
    /// A part of a shard's relay, for the rings of customers at home here.
    Gather { source: ShardId, after: u64, upto: u64, at: Timestamp, events: Vec<StreamedEvent> },
    /// Nobody can resume a stream of the customer any more: drops its ring a part at a time, until the answer is `Done`.
    DropRing { customer: CustomerId },
    /// Keeps a ticket for one stream.
    KeepTicket { customer: CustomerId, digest: Bytes, ticket: Ticket, at: Timestamp },
    /// Takes a ticket; `Unchanged` when it was used, or is too old.
    UseTicket { customer: CustomerId, digest: Bytes, at: Timestamp },
}

impl Command {
    /// Its kind, for logs.
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

    /// The command in fewer bytes, where the cluster has the format for it: that the network took a send of which nobody is to be
    /// told, and which changes nothing else.
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

    /// What changes rows of the projection, with what is told of it, in commands that a log entry can hold. What is told goes
    /// first: when the rest is cut off by a crash, it comes again, and compares with what stands there.
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

/// A sealed value in the place of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resealed {
    /// Of a credential; empty for a proxy.
    pub name: String,
    /// What the other one begins with (`seal::TOLD_BY`).
    pub was: Bytes,
    pub sealed: Bytes,
}

/// Bytes that share a command, about.
const PORTION: usize = 192 << 10;

/// Cuts a list into lists that weigh no more than a portion each, but for a single heavy one.
fn portions<T>(all: Vec<T>, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    /// What an item takes beside its bytes.
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

/// A message to store. The row is written by the owner once, as it will be stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMessage {
    pub channel: ChannelId,
    pub message_id: MessageId,
    pub id: RowId,
    pub occurred_at: Timestamp,
    /// The encoded `MessageRow`.
    pub row: Bytes,
    /// The chat in which something was said; `None` for what only changes or comments on another message, and for
    /// stories.
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

/// A message of which its row says all.
mod as_stored {
    use model::message::ContentKind;
    use serde::de::{Error, IgnoredAny};
    use serde::{Deserializer, Serializer};

    use super::{Address, Bytes, ChannelId, Deserialize, MessageId, NewMessage, RowId, Serialize, Timestamp};

    /// What of a row a send is applied by. Every replica reads each send: all else of the row is skipped, and stored as it came.
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
        /// The message that it is about.
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

/// What the network said of a send, or what the gateway made of its silence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// By the network; of a group, `recipients` members beside the channel will acknowledge it, when that is known.
    Accepted { recipients: Option<u32> },
    /// It did not take it, or it is not known whether it did.
    Failed(Failure),
}

/// An event with its deliveries. The owner minted all ids and matched the endpoints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewEvent {
    pub id: EventId,
    pub name: EventName,
    pub channel: ChannelId,
    pub customer: CustomerId,
    /// The message that it tells of, for the history.
    pub message: Option<MessageId>,
    pub correlation_id: Option<String>,
    pub chat: Option<Address>,
    pub body: Bytes,
    pub at: Timestamp,
    pub deliveries: Vec<NewDelivery>,
    /// Set while somebody watches the customer's event stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed: Option<Streamed>,
    /// Made by a copy of the directory that was too old to know all endpoints: it is not committed.
    #[serde(skip)]
    pub outdated: bool,
}

impl NewEvent {
    /// Whether anybody gets it, as far as the copy of the directory tells that it was made by.
    pub fn is_wanted(&self) -> bool {
        !self.deliveries.is_empty() || self.streamed.is_some() || self.outdated
    }

    /// About how many bytes its body and its deliveries take in the log.
    pub fn weight(&self) -> usize {
        self.body.len() + self.deliveries.iter().map(|delivery| weight_to(&delivery.url)).sum::<usize>()
    }
}

/// Bytes of an event's deliveries in the log at most. With the largest message, or with the other events of one command, they
/// go into one log entry.
pub const MOST_DELIVERY_BYTES: usize = 192 << 10;

/// About how many bytes a delivery to a URL takes in the log.
pub fn weight_to(url: &str) -> usize {
    /// Its two ids and what tells the fields apart.
    const HEAD: usize = 96;
    url.len() + HEAD
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewDelivery {
    pub id: DeliveryId,
    pub endpoint: EndpointId,
    pub url: String,
}

/// A move with all that changes beside the status.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Move {
    pub channel: ChannelId,
    pub customer: CustomerId,
    /// The version that the owner saw; another one there means that the move lost a race.
    pub expect: u64,
    pub to: Status,
    pub reason: Reason,
    pub at: Timestamp,
    pub wipe_credentials: bool,
    /// Who the channel is on the network, when the move made it known.
    pub identity: Option<traffic::item::Identity>,
    pub disabled_by_operator: bool,
    pub moved_by: Option<Uuid>,
    pub events: Vec<NewEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
}

impl ChannelRow {
    /// What a move makes of the row: the state machine's rule, and the owner's picture of it.
    pub fn moved(&mut self, step: &Move) {
        if self.status == Status::Connected || step.to == Status::Connected {
            self.last_seen_at = Some(step.at);
        }
        self.reconnecting_since = match step.to {
            Status::Reconnecting => self.reconnecting_since.or(Some(step.at)),
            // An attempt under way is part of the same endeavour.
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
