//! Downloads the media bytes of messages from the network: as soon as they arrive, and again until the bytes are stored
//! or known to be unavailable.
//!
//! A message is committed with its media `pending` if the bytes do not come in time; they complete it later. Downloads
//! that a crash interrupts are found in the shard's index of pending media at the channel's next login.

use std::collections::HashMap;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use model::id::MediaId;
use model::media::{MediaHandle, MediaState};
use model::time::Timestamp;
use network::driver::{MediaError, Session};
use raft::machine::{View, just_after};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{LONGEST, backoff};
use crate::command::Command;
use crate::keys;
use crate::media::blobs::BlobError;
use crate::media::command::MediaCommand;
use crate::media::record::{MediaRow, StoredBytes};
use crate::media::spool::{For, SpoolError};
use crate::owner::NodeContext;
use crate::owner::channel::{Batch, Channel};
use crate::owner::committer::LeadershipLost;
use crate::records::decode;

/// Age at which media that still could not be downloaded is given up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(24 * 3600);

/// How many downloads a channel has at a time, and up to how many it takes from the index of pending media.
const MOST: usize = 128;
const TAKEN_UP: usize = 32;

/// The downloads of a channel.
#[derive(Default)]
pub struct Downloads {
    running: JoinSet<Downloaded>,
    wanted: HashMap<MediaId, Wanted>,
    /// Where to continue reading the index of pending media, if it was not read to its end since the last login.
    unread: Option<Vec<u8>>,
}

struct Wanted {
    row: MediaRow,
    runs: bool,
    failures: u32,
    retry_at: Instant,
    waiting: Vec<oneshot::Sender<FetchEnd>>,
}

/// A download that has ended.
pub struct Downloaded {
    id: MediaId,
    result: Result<StoredBytes, DownloadError>,
}

/// The outcome of an attempt, for a caller that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchEnd {
    /// The row shows the outcome.
    Settled,
    /// The channel is not logged in at the network.
    NotConnected,
    /// The network did not give the bytes this time.
    Later,
    /// The account has no room for the bytes: they stay at the network, and are not tried again by themselves.
    NoRoom,
    /// The network no longer has them.
    Gone,
}

#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error(transparent)]
    Network(#[from] MediaError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Store(#[from] BlobError),
    #[error("the bytes differ from what the message announced")]
    OtherBytes,
    #[error("the account's media quota is used up")]
    QuotaFull,
    #[error("it took too long")]
    TooLong,
    #[error("the download panicked")]
    Panicked,
}

impl DownloadError {
    /// The final state of media whose bytes will never come; `None` if a retry may help.
    fn for_good(&self) -> Option<MediaState> {
        match self {
            Self::Network(MediaError::Gone) => Some(MediaState::Gone),
            Self::Network(MediaError::Refused { .. }) => Some(MediaState::Failed),
            Self::Spool(SpoolError::TooLarge { .. }) => Some(MediaState::Skipped),
            _ => None,
        }
    }
}

impl Downloads {
    pub async fn next(&mut self) -> Downloaded {
        match self.running.join_next().await {
            Some(Ok(end)) => end,
            // Aborted with the runtime; a panic of the download itself is caught in its task.
            Some(Err(_)) | None => pending().await,
        }
    }

    pub fn next_try(&self) -> Option<Instant> {
        self.wanted.values().filter(|wanted| !wanted.runs).map(|wanted| wanted.retry_at).min()
    }

    /// Whether the bytes may still come soon.
    pub fn wants(&self, id: MediaId) -> bool {
        self.wanted.contains_key(&id)
    }

    /// Adds a download. If there are too many already, it is found in the index once there is room.
    pub fn want(&mut self, row: MediaRow) {
        if self.wanted.len() >= MOST && !self.wanted.contains_key(&row.id) {
            self.unread = Some(keys::media_pending_of(row.channel).0);
            return;
        }
        self.wanted.entry(row.id).or_insert_with(|| Wanted {
            row,
            runs: false,
            failures: 0,
            retry_at: Instant::now(),
            waiting: Vec::new(),
        });
    }

    /// Starts downloads that are due.
    fn start(&mut self, context: &Arc<NodeContext>, session: &Arc<dyn Session>) {
        let now = Instant::now();
        for wanted in self.wanted.values_mut().filter(|wanted| !wanted.runs && wanted.retry_at <= now) {
            wanted.runs = true;
            let (id, row) = (wanted.row.id, wanted.row.clone());
            let (context, session) = (context.clone(), session.clone());
            self.running.spawn(async move {
                let fetching = tokio::time::timeout(LONGEST, fetch(&context, &*session, &row));
                let result = match AssertUnwindSafe(fetching).catch_unwind().await {
                    Ok(Ok(result)) => result,
                    Ok(Err(_)) => Err(DownloadError::TooLong),
                    Err(_) => Err(DownloadError::Panicked),
                };
                Downloaded { id, result }
            });
        }
    }
}

/// Downloads the bytes of a row into the store.
async fn fetch(context: &NodeContext, session: &dyn Session, row: &MediaRow) -> Result<StoredBytes, DownloadError> {
    let _place = context.downloads.take(row.customer).await;
    let handle: &MediaHandle = row.handle.as_ref().ok_or(MediaError::Gone)?;
    if context.is_full_of_media(row.customer).await {
        return Err(DownloadError::QuotaFull);
    }
    let bytes = session.download(handle).await?;
    let spooled = context.media.spool(For::Node).await?.fill(bytes).await?;
    if row.sha256.as_ref().is_some_and(|announced| *announced != spooled.sha256) {
        return Err(DownloadError::OtherBytes);
    }
    let stored = spooled.stored(None);
    context.media.keep(row.channel, spooled).await?;
    Ok(stored)
}

impl Channel {
    /// The row of media of this channel.
    pub fn media_row(&self, id: MediaId) -> Option<MediaRow> {
        self.owner.reader.get(&keys::media(self.row.id, id)).map(|row| decode(&row))
    }

    /// After a login: resumes the downloads that an earlier owner or session left pending.
    pub fn take_up_downloads(&mut self) {
        self.transfers.downloads.unread = Some(keys::media_pending_of(self.row.id).0);
        self.continue_downloads();
    }

    /// Starts downloads that are due, and takes more from the index of pending media if there is room.
    pub fn continue_downloads(&mut self) {
        let Some(running) = self.running.as_ref().filter(|running| running.logged_in) else { return };
        let session = running.session.clone();
        let room = TAKEN_UP.saturating_sub(self.transfers.downloads.wanted.len());
        if let Some(from) = self.transfers.downloads.unread.take().filter(|_| room > 0) {
            let (_, to) = keys::media_pending_of(self.row.id);
            let found = self.owner.reader.scan(&from, &to, room);
            if found.len() == room
                && let Some((last, _)) = found.last()
            {
                self.transfers.downloads.unread = Some(just_after(last));
            }
            let ids = found.iter().filter_map(|(key, _)| keys::parse_media_pending(key));
            let rows: Vec<MediaRow> = ids.filter_map(|id| self.media_row(id)).collect();
            rows.into_iter().filter(|row| row.handle.is_some()).for_each(|row| self.transfers.downloads.want(row));
        }
        self.transfers.downloads.start(&self.owner.node, &session);
    }

    /// Downloads the bytes of stored media now, because a caller asks for them.
    pub fn fetch_now(&mut self, id: MediaId, waiting: Option<oneshot::Sender<FetchEnd>>) {
        let Some(row) = self.media_row(id).filter(|row| row.state != MediaState::Ready) else {
            return tell(waiting, FetchEnd::Settled);
        };
        if row.handle.is_none() {
            return tell(waiting, FetchEnd::Gone);
        }
        if !self.is_logged_in() {
            return tell(waiting, FetchEnd::NotConnected);
        }
        self.transfers.downloads.want(row);
        if let Some(wanted) = self.transfers.downloads.wanted.get_mut(&id) {
            wanted.retry_at = Instant::now();
            // Anybody may follow a link and go away, any number of times, while the bytes are on their way.
            wanted.waiting.retain(|known| !known.is_closed());
            wanted.waiting.extend(waiting);
        }
        self.continue_downloads();
    }

    pub(super) async fn download_ended(&mut self, end: Downloaded) -> Result<(), LeadershipLost> {
        let Downloaded { id, result } = end;
        if matches!(result, Err(DownloadError::QuotaFull)) {
            return self.leave_at_network(id).await;
        }
        let Some(wanted) = self.transfers.downloads.wanted.get_mut(&id) else { return Ok(()) };
        wanted.runs = false;
        let waiting = std::mem::take(&mut wanted.waiting);
        let given_up = match &result {
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(channel = %self.row.id, media = %id, %error, "a download failed");
                let old = Timestamp::now().since(wanted.row.created_at) >= GIVEN_UP_AFTER;
                error.for_good().or(old.then_some(MediaState::Failed))
            }
        };
        if result.is_err() && given_up.is_none() {
            wanted.failures += 1;
            wanted.retry_at = Instant::now() + backoff(wanted.failures);
            tell(waiting, FetchEnd::Later);
            return self.release_and_finish().await;
        }
        let row = self.transfers.downloads.wanted.remove(&id).map(|wanted| wanted.row);
        match (row, self.held_media(id)) {
            (_, Some(held)) => match (result, given_up) {
                (Ok(stored), _) => *held = held.clone().with_bytes(stored),
                (Err(_), state) => held.state = state.unwrap_or(MediaState::Failed),
            },
            (Some(row), None) => {
                let (channel, gone) = (self.row.id, row.state == MediaState::Gone);
                // Bytes that had been deleted get a new expiry.
                let expires_at = gone.then(|| Timestamp::now().plus(self.media_retention()));
                let command = match (result, given_up) {
                    (Ok(stored), _) => MediaCommand::Ready { channel, id, stored, expires_at },
                    (Err(_), state) => {
                        MediaCommand::GivenUp { channel, id, state: state.unwrap_or(MediaState::Failed) }
                    }
                };
                let end = if given_up == Some(MediaState::Gone) { FetchEnd::Gone } else { FetchEnd::Settled };
                self.commit(Command::Media(command)).await?;
                tell(waiting, end);
            }
            (None, None) => {}
        }
        self.continue_downloads();
        self.release_and_finish().await
    }

    /// Leaves bytes at the network, because the account has no room for them. They are fetched when somebody asks.
    async fn leave_at_network(&mut self, id: MediaId) -> Result<(), LeadershipLost> {
        let Some(Wanted { row, waiting, .. }) = self.transfers.downloads.wanted.remove(&id) else { return Ok(()) };
        match self.held_media(id) {
            Some(held) => held.state = MediaState::Skipped,
            None if row.state == MediaState::Pending => {
                self.owner.committer.commit(left_at_network(row)).await?;
            }
            None => {}
        }
        tell(waiting, FetchEnd::NoRoom);
        self.continue_downloads();
        self.release_and_finish().await
    }

    /// Releases and commits held items that need not wait any longer.
    pub async fn release_and_finish(&mut self) -> Result<(), LeadershipLost> {
        let mut batch = Batch::default();
        self.release_held(&mut batch);
        self.finish(batch).await
    }
}

/// The commands by which a stored row says that its bytes are left at the network.
fn left_at_network(row: MediaRow) -> Vec<Command> {
    let (channel, id, expires_at) = (row.channel, row.id, row.handle_expires_at);
    let given_up = MediaCommand::GivenUp { channel, id, state: MediaState::Skipped };
    // `GivenUp` removes the handle, as for media that is too large; this restores it.
    let kept_there = row.handle.map(|handle| MediaCommand::AtNetwork { channel, id, handle, expires_at });
    [Some(given_up), kept_there].into_iter().flatten().map(Command::Media).collect()
}

/// Reports the outcome to the callers that wait; one that has gone away needs no answer.
fn tell(waiting: impl IntoIterator<Item = oneshot::Sender<FetchEnd>>, end: FetchEnd) {
    for waiting in waiting {
        let _ = waiting.send(end);
    }
}

/// Waits for one attempt that a channel's task was asked to make.
///
/// # Errors
/// [`LeadershipLost`] if the task or its owner is gone.
pub async fn await_fetch(end: oneshot::Receiver<FetchEnd>, patience: Duration) -> Result<FetchEnd, LeadershipLost> {
    match tokio::time::timeout(patience, end).await {
        Ok(Ok(end)) => Ok(end),
        Ok(Err(_)) => Err(LeadershipLost),
        Err(_) => Ok(FetchEnd::Later),
    }
}

#[cfg(test)]
mod tests {
    use model::id::{ChannelId, CustomerId};
    use raft::machine::MemoryState;

    use super::*;
    use crate::media::apply;
    use crate::media::record::MediaDirection;

    #[test]
    fn stored_media_that_is_left_at_the_network_is_skipped_and_may_be_fetched_later() {
        let (mut state, id) = (MemoryState::new(), MediaId::new());
        let (customer, channel) = (CustomerId::random(), ChannelId::random());
        let (now, retention) = (Timestamp(0), Duration::from_secs(60));
        let new = MediaRow::new(id, customer, channel, MediaDirection::Inbound, "image/png", now, retention);
        let pending = MediaRow { handle: Some(MediaHandle("there".into())), ..new };
        apply::command(&mut state, MediaCommand::Add(Box::new(pending.clone())));
        for command in left_at_network(pending.clone()) {
            let Command::Media(command) = command else { panic!("it is about media") };
            apply::command(&mut state, command);
        }
        let left: MediaRow = decode(&state.get(&keys::media(channel, id)).expect("it is stored"));
        assert_eq!(left, MediaRow { state: MediaState::Skipped, ..pending });
        assert!(left.may_come(), "when somebody asks for it");
        assert!(state.scan_range(keys::media_pending_of(channel), 1).is_empty(), "no login tries for it again");
    }
}
