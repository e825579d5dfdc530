//! The deliveries of one message.

use machine::View;
use model::id::{ChannelId, DeliveryId, EndpointId, MessageId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::page::rows_of;
use crate::deliveries::running::Running;
use crate::deliveries::view::DeliveryRecord;
use crate::keys;
use crate::records::{DeliveryRow, MessageRow, decode};

/// A message that a channel has stored, and its deliveries, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageDeliveries {
    pub channel: ChannelId,
    pub deliveries: Vec<DeliveryRecord>,
}

/// The deliveries of a network's message id in the channels that have stored it, of which two are enough: whoever asks
/// has to name one then. An id may stand in several, as both ends of a conversation may be channels here, and whoever
/// writes chooses it.
pub fn of_message(
    view: &dyn View,
    channels: &[ChannelId],
    id: &MessageId,
    oldest: impl Fn(ChannelId) -> Option<Timestamp>,
    running: &Running,
) -> Vec<MessageDeliveries> {
    let in_channel = |channel: &ChannelId| {
        let oldest = oldest(*channel)?;
        let rows: Vec<MessageRow> =
            rows_of(view, *channel, id).into_iter().filter(|row| row.occurred_at >= oldest).collect();
        let of_row = |row: &MessageRow| deliveries_of(view, row);
        let mut deliveries: Vec<DeliveryRecord> =
            rows.iter().flat_map(of_row).map(|row| DeliveryRecord::of(&row, running)).collect();
        deliveries.sort_by_key(|delivery| delivery.id);
        (!rows.is_empty()).then_some(MessageDeliveries { channel: *channel, deliveries })
    };
    channels.iter().filter_map(in_channel).take(2).collect()
}

/// The deliveries that carried a stored message, oldest first.
pub(super) fn deliveries_of(view: &dyn View, row: &MessageRow) -> Vec<DeliveryRow> {
    /// More deliveries of one message than an account can have endpoints, for every event of its life.
    const MOST: usize = 1024;
    let (from, to) = keys::message_deliveries(row.channel, row.id);
    let links = view.scan(&from, &to, MOST).into_iter();
    let rows = links.filter_map(|(key, endpoint)| {
        let endpoint = EndpointId::from_bytes(endpoint.try_into().ok()?);
        let id: DeliveryId = keys::delivery_at_end(&key)?;
        view.get(&keys::delivery(endpoint, id))
    });
    rows.map(|row| decode(&row)).collect()
}
