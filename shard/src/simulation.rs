//! Functions for simulated owners: reads of a shard's state, and the parts and decisions of the real owner.

use model::id::{ChannelId, CustomerId, MessageId};
use raft::machine::View;

use crate::history::{Direction, MessageStatus};
use crate::keys;
pub use crate::owner::committer::{Committer, LeadershipLost, Terms};
pub use crate::owner::fencing;
pub use crate::owner::members::{Step, may_vote, next as next_step};
pub use crate::owner::outbox::Outbox;
pub use crate::owner::outbox_bytes::AccountBytes;
use crate::records::{ChannelRow, MessagePointer, MessageRow, MessageState, OutboxEntry, decode};
pub use crate::router::candidate;

/// The row of a channel; a new one if the channel has none yet.
pub fn channel(view: &dyn View, id: ChannelId, customer: CustomerId) -> ChannelRow {
    view.get(&keys::channel(id)).map_or_else(|| ChannelRow::new(id, customer), |row| decode(&row))
}

/// The messages that a channel has accepted and the network has not, in the order of acceptance.
pub fn outbox(view: &dyn View, channel: ChannelId) -> Vec<MessageRow> {
    let (from, to) = keys::outbox_of(channel);
    let message = |(_, entry): &(Vec<u8>, Vec<u8>)| {
        let entry: OutboxEntry = decode(entry);
        stored(view, channel, Direction::Outbound, entry.id()?)
    };
    view.scan(&from, &to, usize::MAX).iter().filter_map(message).collect()
}

fn stored(view: &dyn View, channel: ChannelId, direction: Direction, id: &MessageId) -> Option<MessageRow> {
    let pointer: MessagePointer = decode(&view.get(&keys::message_id(channel, direction, id))?);
    Some(decode(&view.get(&keys::message(channel, pointer.occurred_at, pointer.row))?))
}

/// The status of a message; `None` if it is not stored.
pub fn status(view: &dyn View, channel: ChannelId, direction: Direction, id: &MessageId) -> Option<MessageStatus> {
    let row = stored(view, channel, direction, id)?;
    Some(MessageState::read(view, &row).status)
}

/// The number of stored messages of a channel, in both directions.
pub fn messages(view: &dyn View, channel: ChannelId) -> usize {
    view.scan_range(keys::messages(channel, None, None), usize::MAX).len()
}
