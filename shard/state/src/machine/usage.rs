//! Counts usage (see [`crate::usage`]). Called when a command has changed something, so that a repeat counts nothing.

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
    /// Counts the verdict on a send, of which the owner learned at `heard_at`.
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

    /// Counts the bytes of a message that have arrived. Uploads count with the messages that send them.
    pub(super) fn count_media(&mut self, row: &MediaRow, size: Option<u64>) {
        if row.direction != MediaDirection::Upload {
            // Counted in the hour of the message, however late its bytes arrive.
            self.usage.of(row.customer, row.channel, row.created_at).counts.media_bytes += size.unwrap_or(0);
        }
    }

    /// The row whose bytes a command adds, unless they have been counted before, and their size.
    pub(super) fn bytes_to_come(&self, command: &MediaCommand) -> Option<(MediaRow, Option<u64>)> {
        match command {
            MediaCommand::Add(row) if row.kept().is_some() => Some(((**row).clone(), row.size)),
            MediaCommand::Ready { channel, id, stored, .. } => {
                let row: MediaRow = self.read(&keys::media(*channel, *id))?;
                // Bytes that were fetched again after their retention were counted the first time.
                (row.state != MediaState::Gone).then_some((row, Some(stored.size)))
            }
            _ => None,
        }
    }

    /// Counts a delivery that has reached its endpoint for the first time.
    pub(super) fn count_delivered(&mut self, row: &DeliveryRow, latency_ms: Option<u64>, at: Timestamp) {
        let used = self.usage.of(row.customer, row.channel, at);
        used.counts.delivered += 1;
        latency_ms.into_iter().for_each(|latency| used.webhooks.record(latency));
    }

    /// Counts a delivery that was given up.
    pub(super) fn count_exhausted(&mut self, row: &DeliveryRow, at: Timestamp) {
        self.usage.of(row.customer, row.channel, at).counts.exhausted += 1;
    }

    /// Counts the transition of a delivery from one state to another.
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
