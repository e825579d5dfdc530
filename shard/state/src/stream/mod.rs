//! The event stream of a customer as stored in shards: relays, rings and tickets. [`ring`]: the rows that the state
//! machine writes, and how they are read.

pub mod ring;

use std::time::Duration;

use bytes::Bytes;
use model::event::{EventId, EventName};
use model::id::{ChannelId, CustomerId, ShardId};
use model::payload::{ChatType, ChatTypeFilter};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The id of an open stream: a ULID, which the first line of the stream shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub String);

/// The data that directs an event to the streams of its customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streamed {
    /// The shard of the customer's slot.
    pub home: ShardId,
    pub chat: ChatType,
}

/// An event for the streams of its customer, as the relay and the ring hold it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamedEvent {
    pub customer: CustomerId,
    pub id: EventId,
    pub name: EventName,
    pub channel: ChannelId,
    pub chat: ChatType,
    pub at: Timestamp,
    /// The envelope, byte for byte as webhooks receive it.
    pub body: Bytes,
}

/// The filter of a stream. An empty list is no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    pub channels: Vec<ChannelId>,
    pub names: Vec<EventName>,
    pub chat: ChatTypeFilter,
}

impl Filter {
    pub fn passes(&self, event: &StreamedEvent) -> bool {
        (self.channels.is_empty() || self.channels.contains(&event.channel))
            && (self.names.is_empty() || self.names.contains(&event.name))
            && self.chat.passes(event.chat)
    }
}

/// A request of a node with a present or future stream to the customer's coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StreamRequest {
    /// A permit for a stream, and where it begins: after the event `resume`, or with the next event.
    Open { stream: StreamId, resume: Option<EventId> },
    /// The next events; waits up to `wait` for one. Renews the stream's permit.
    Pull { stream: StreamId, after: u64, most: usize, filter: Filter, wait: Duration },
    /// The stream has ended.
    Close { stream: StreamId },
    /// Stores a ticket under its digest, until it is used or expires.
    KeepTicket { digest: Bytes, ticket: Ticket },
    /// Takes a ticket, once.
    UseTicket { digest: Bytes },
}

/// A right to open one stream. The API interprets the grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub grant: Bytes,
    pub expires_at: Timestamp,
}

/// The response of the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StreamResponse {
    /// Where the stream begins.
    Opened(Start),
    /// All permits are taken; `open` streams are open.
    Full { open: usize },
    /// The next events.
    Pulled(Pulled),
    /// The stream's permit is released.
    Closed,
    /// The ticket can be used.
    TicketKept,
    /// The ticket, if it existed and had not expired.
    Ticket(Option<Ticket>),
}

/// Where a stream begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The ring number after which it continues.
    pub after: u64,
    pub gap: Option<Gap>,
}

/// The event to resume after is not in the ring, or no longer: some events may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The oldest event that is still in the ring.
    pub oldest: Option<EventId>,
}

/// A part of the ring, filtered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pulled {
    pub events: Vec<StreamEvent>,
    /// The ring number after which the next part begins.
    pub after: u64,
    /// Whether the ring has no events after this part.
    pub caught_up: bool,
    /// Whether events between the previous part and this one were dropped from the ring.
    pub missed: bool,
}

/// An event as a stream shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamEvent {
    pub id: EventId,
    pub name: EventName,
    pub body: Bytes,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_filter_asks_for_channel_name_and_kind_of_chat() {
        let (ours, other) = (ChannelId::random(), ChannelId::random());
        let event = |channel, name, chat| StreamedEvent {
            customer: CustomerId::random(),
            id: EventId::mint(Timestamp(0), [0; 10]),
            name,
            channel,
            chat,
            at: Timestamp(0),
            body: Bytes::new(),
        };
        let filter = Filter {
            channels: vec![ours],
            names: vec![EventName::MessageReceived, EventName::ChannelStatus],
            chat: ChatTypeFilter::GroupsOnly,
        };
        let table = [
            (ours, EventName::MessageReceived, ChatType::Group, true),
            (ours, EventName::MessageReceived, ChatType::Direct, false),
            (ours, EventName::ChannelStatus, ChatType::None, true),
            (ours, EventName::MessageSent, ChatType::Group, false),
            (other, EventName::MessageReceived, ChatType::Group, false),
        ];
        for (channel, name, chat, passes) in table {
            assert_eq!(filter.passes(&event(channel, name, chat)), passes, "{name} {chat:?}");
            assert!(Filter::default().passes(&event(channel, name, chat)));
        }
    }
}
