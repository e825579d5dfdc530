//! What commands count (see [`crate::usage`]). Called where a command has changed something, so that a repeat counts
//! nothing.

use std::time::Duration;

use model::id::{ChannelId, CustomerId};
use model::media::MediaState;
use model::time::Timestamp;
use model::webhook::DeliveryState;

use super::Apply;
use crate::command::Verdict;
use crate::keys;
use crate::media::command::MediaCommand;
use crate::media::record::{MediaDirection, MediaRow};
use crate::records::DeliveryRow;

impl Apply<'_> {
    /// A send has its verdict, of which the owner heard then.
    pub(super) fn count_verdict(
        &mut self,
        verdict: &Verdict,
        (customer, channel): (CustomerId, ChannelId),
        accepted_at: Timestamp,
        heard_at: Timestamp,
    ) {
        let row = self.usage.of(customer, channel, heard_at);
        match verdict {
            Verdict::Accepted { .. } => {
                row.counts.sent += 1;
                row.sends.record(millis(heard_at.since(accepted_at)));
            }
            Verdict::Failed(_) => row.counts.failed += 1,
        }
    }

    pub(super) fn count_received(&mut self, customer: CustomerId, channel: ChannelId, at: Timestamp) {
        self.usage.of(customer, channel, at).counts.received += 1;
    }

    /// The bytes of a message are here. What was uploaded counts with the messages that it is sent with.
    pub(super) fn count_media(&mut self, row: &MediaRow, size: Option<u64>) {
        if row.direction != MediaDirection::Upload {
            // The message's own hour, however late its bytes come.
            self.usage.of(row.customer, row.channel, row.created_at).counts.media_bytes += size.unwrap_or(0);
        }
    }

    /// The row whose bytes a command brings, when they have not been counted before, and how many they are.
    pub(super) fn bytes_to_come(&self, command: &MediaCommand) -> Option<(MediaRow, Option<u64>)> {
        match command {
            MediaCommand::Add(row) if row.kept().is_some() => Some(((**row).clone(), row.size)),
            MediaCommand::Ready { channel, id, stored, .. } => {
                let row: MediaRow = self.read(&keys::media(*channel, *id))?;
                // What is fetched once more after its retention was counted when it first came.
                (row.state != MediaState::Gone).then_some((row, Some(stored.size)))
            }
            _ => None,
        }
    }

    /// A delivery has reached its endpoint, for the first time.
    pub(super) fn count_delivered(&mut self, row: &DeliveryRow, latency_ms: Option<u64>, at: Timestamp) {
        let used = self.usage.of(row.customer, row.channel, at);
        used.counts.delivered += 1;
        latency_ms.into_iter().for_each(|latency| used.webhooks.record(latency));
    }

    /// A delivery was given up.
    pub(super) fn count_exhausted(&mut self, row: &DeliveryRow, at: Timestamp) {
        self.usage.of(row.customer, row.channel, at).counts.exhausted += 1;
    }

    /// A delivery goes from one state into another.
    pub(super) fn count_waiting(&mut self, row: &DeliveryRow, to: DeliveryState) {
        let waits = |state| i64::from(state == DeliveryState::Retrying);
        match waits(to) - waits(row.state) {
            0 => {}
            more => self.usage.retrying(row.customer, row.channel, more),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
