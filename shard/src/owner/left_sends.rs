//! Fails the sends that an earlier owner left in the outbox of an ended channel: that owner died, or lost the
//! leadership, after the commit of the channel's transition and before the commit that failed all of its sends.
//!
//! A channel's task does this first, before it answers any call. Channels that nobody calls are searched for when an
//! ownership begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use model::id::{ChannelId, CustomerId, RequestId};
use raft::machine::{View, just_after};
use raft::supervise;
use uuid::Uuid;

use super::Owner;
use super::channel::Channel;
use super::committer::LeadershipLost;
use crate::call::Work;
use crate::command::Command;
use crate::keys;
use crate::records::{ChannelRow, Failure, OutboxEntry, decode};

/// Entries read at a time: each may be as large as a send.
const ROWS: usize = 16;

/// Target size of a submission in bytes; an event names all endpoints that want it.
const BYTES: usize = 256 * 1024;

/// Channels processed at once.
const CHANNELS: usize = 8;

/// How long one channel may take before the next one is started.
const PATIENCE: Duration = Duration::from_secs(60);

impl Channel {
    /// Fails the sends of a channel whose outbox should be empty. It is not loaded: this reads the store, in portions.
    pub(super) async fn end_left_sends(&mut self) -> Result<(), LeadershipLost> {
        if self.row.holds_sends() || self.row.deleted {
            return Ok(());
        }
        let why = format!("the channel is {}", self.row.status);
        let held = Failure::new("channel_unavailable", &why);
        let doubt = Failure::in_doubt(&why);
        let (mut from, to) = keys::outbox_of(self.row.id);
        loop {
            let entries = self.owner.reader.scan(&from, &to, ROWS);
            let Some((last, _)) = entries.last() else { return Ok(()) };
            from = just_after(last);
            let mut portion = Vec::new();
            let mut bytes = 0;
            for (key, entry) in entries {
                let out = keys::parse_outbox(&key).is_none_or(|(_, place)| self.row.may_be_out(place));
                let entry: OutboxEntry = decode(&entry);
                let Some(row) = entry.id().and_then(|id| self.stored_message(id)) else { continue };
                let failed = self.failed_row(&row, if out { &doubt } else { &held });
                bytes += weight(&failed);
                portion.push(failed);
                if bytes >= BYTES {
                    self.owner.committer.commit(std::mem::take(&mut portion)).await?;
                    bytes = 0;
                }
            }
            self.owner.committer.commit(portion).await?;
        }
    }
}

/// Approximate bytes of a command in the log.
fn weight(command: &Command) -> usize {
    let Command::Settle { events, projected, .. } = command else { return 0 };
    let events = events.iter().map(|event| event.weight() + 500);
    let rows = projected.iter().map(|write| write.id.len() + write.row.as_ref().map_or(0, |row| row.len()));
    events.sum::<usize>() + rows.sum::<usize>()
}

/// Finds the channels whose outbox should be empty and is not, and has their sends failed.
pub async fn run(owner: Arc<Owner>) {
    let reader = owner.reader.clone();
    let looking = supervise::on_thread(move || left_behind(&reader));
    let Some(left) = supervise::joined(looking).await else { return };
    if !left.is_empty() {
        tracing::info!(
            shard = owner.shard,
            channels = left.len(),
            "an earlier owner left sends of channels that ended"
        );
    }
    let see_to = |(customer, channel)| {
        let owner = owner.clone();
        async move {
            // Any work for the channel's task waits until it has failed these sends.
            let asked = Work::CheckSend { to: None };
            let (request, deadline) = (RequestId::mint(), Instant::now() + PATIENCE);
            let work = owner.work(customer, channel, asked, Uuid::new_v4(), request, deadline);
            let _ = tokio::time::timeout_at(deadline.into(), work).await;
        }
    };
    stream::iter(left).map(see_to).buffer_unordered(CHANNELS).collect::<()>().await;
}

/// The channels whose outbox should be empty and is not. Reads one entry of each outbox.
fn left_behind(view: &dyn View) -> Vec<(CustomerId, ChannelId)> {
    let (mut from, to) = keys::outboxes();
    let mut left = Vec::new();
    while let Some((key, _)) = view.scan(&from, &to, 1).into_iter().next() {
        let Some((channel, _)) = keys::parse_outbox(&key) else { return left };
        from = keys::outbox_of(channel).1;
        let row: Option<ChannelRow> = view.get(&keys::channel(channel)).map(|row| decode(&row));
        left.extend(row.filter(|row| !row.holds_sends() && !row.deleted).map(|row| (row.customer, channel)));
    }
    left
}

#[cfg(test)]
mod tests {
    use model::status::{Reason, Status};
    use raft::machine::{MemoryState, State};

    use super::*;
    use crate::records::encode;

    #[test]
    fn those_channels_are_looked_for_that_have_ended_and_still_have_an_outbox() {
        let mut state = MemoryState::new();
        let mut channel = |status, reason, waiting: u64| {
            let row = ChannelRow { status, reason, ..ChannelRow::new(ChannelId::random(), CustomerId::random()) };
            state.put(&keys::channel(row.id), &encode(&row));
            (0..waiting).for_each(|place| state.put(&keys::outbox(row.id, place), b"entry"));
            (row.customer, row.id)
        };
        let mut expected = vec![
            channel(Status::StoppedByUser, Reason::User, 3),
            channel(Status::LoggedOut, Reason::Logout, 1),
            channel(Status::Qr, Reason::ConnectRequested, 1),
        ];
        channel(Status::StoppedByUser, Reason::User, 0);
        channel(Status::Reconnecting, Reason::Network, 2);
        channel(Status::Disconnected, Reason::NoWorker, 2);
        // A person still has to decide how this channel goes on.
        channel(Status::StoppedByUser, Reason::Restored, 2);
        let mut found = left_behind(&state);
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
