//! Uploads the bytes of sends to the network, before the messages that refer to them.
//!
//! A channel runs one upload at a time: for the first message in its outbox whose bytes the network lacks. The messages
//! behind it wait, so that the order holds. A crash loses nothing but the upload: the next owner repeats it, for the
//! same message id.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use model::id::MessageId;
use model::media::{MediaKind, MediaState, Sha256Hex};
use model::time::Timestamp;
use network::driver::{MediaError, Uploaded};
use network::operation::Refused;
use tokio_util::task::AbortOnDropHandle;

use super::{LONGEST, backoff};
use crate::command::Command;
use crate::media::blobs::BlobError;
use crate::media::command::MediaCommand;
use crate::media::record::MediaRow;
use crate::owner::channel::{Batch, Channel};
use crate::owner::committer::LeadershipLost;

/// How often an upload is tried, over about seven minutes, before its message fails: the messages behind it in the
/// outbox wait for it.
const MOST_TRIES: u32 = 12;

/// Handles that a channel remembers, so that the same bytes to many recipients are uploaded once.
const KNOWN: usize = 16;

/// Lifetime that a remembered handle must have left to be used again.
const LEFT_TO_LIVE: Duration = Duration::from_secs(60);

/// The uploads of a channel.
#[derive(Default)]
pub struct Uploads {
    running: Option<Upload>,
    failures: u32,
    retry_at: Option<Instant>,
    known: VecDeque<(Sha256Hex, MediaKind, Uploaded)>,
}

struct Upload {
    message: MessageId,
    kind: MediaKind,
    row: Option<MediaRow>,
    task: AbortOnDropHandle<Result<Uploaded, UploadError>>,
}

/// An upload that has ended.
pub struct UploadEnd {
    message: MessageId,
    kind: MediaKind,
    row: Option<MediaRow>,
    result: Result<Uploaded, UploadError>,
}

#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The bytes are no longer stored here.
    #[error("the media is no longer stored")]
    Gone,
    #[error(transparent)]
    Network(#[from] MediaError),
    #[error("it took too long")]
    TooLong,
}

impl From<BlobError> for UploadError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Missing => Self::Gone,
            other => MediaError::Source(other.to_string()).into(),
        }
    }
}

impl Uploads {
    pub async fn next(&mut self) -> UploadEnd {
        let result = match &mut self.running {
            Some(upload) => (&mut upload.task).await,
            None => std::future::pending().await,
        };
        let result = result.unwrap_or_else(|error| Err(MediaError::Source(error.to_string()).into()));
        match self.running.take() {
            Some(Upload { message, kind, row, .. }) => UploadEnd { message, kind, row, result },
            None => std::future::pending().await,
        }
    }

    pub fn next_try(&self) -> Option<Instant> {
        self.retry_at.filter(|_| self.running.is_none())
    }

    /// The handle of bytes that were uploaded before.
    fn known(&self, row: &MediaRow, kind: MediaKind, now: Timestamp) -> Option<&Uploaded> {
        let sha256 = row.sha256.as_ref()?;
        let known = self.known.iter().find(|known| known.0 == *sha256 && known.1 == kind).map(|known| &known.2);
        known.filter(|uploaded| now.plus(LEFT_TO_LIVE) < uploaded.expires_at)
    }

    fn remember(&mut self, row: &MediaRow, kind: MediaKind, uploaded: &Uploaded) {
        let Some(sha256) = &row.sha256 else { return };
        self.known.retain(|known| known.0 != *sha256 || known.1 != kind);
        self.known.truncate(KNOWN - 1);
        self.known.push_front((sha256.clone(), kind, uploaded.clone()));
    }
}

impl Channel {
    /// Brings the bytes of the first message that lacks them to the network. Returns true if they are there already, so
    /// that the message can be written.
    pub fn bring_bytes(&mut self) -> bool {
        let Some(running) = self.running.as_ref().filter(|running| running.logged_in) else { return false };
        let now = Timestamp::now();
        let Some(entry) = self.outbox.first_without_bytes(now) else { return false };
        let uploads = &self.transfers.uploads;
        if uploads.running.is_some() || uploads.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        let message = entry.row.message_id.clone();
        let Some(kind) = entry.row.content.media_kind() else { return false };
        let row = entry.row.content.media().and_then(|media| media.id).and_then(|id| self.media_row(id));
        let at_network = row.as_ref().and_then(|row| match row.live_handle(now) {
            Some(handle) if running.session.shows_as(handle, kind) => Some((handle.clone(), row.handle_expires_at)),
            _ => uploads.known(row, kind, now).map(|known| (known.handle.clone(), Some(known.expires_at))),
        });
        if let Some((handle, until)) = at_network {
            self.outbox.has_bytes(&message, handle, until);
            return true;
        }
        let (session, node) = (running.session.clone(), self.owner.node.clone());
        let uploading = row.clone();
        let task = tokio::spawn(async move {
            let row = uploading.filter(|row| row.state == MediaState::Ready).ok_or(UploadError::Gone)?;
            let _place = node.uploads.take(row.customer).await;
            let uploading = async {
                let bytes = node.media.open(&row, None).await?;
                Ok(session.upload(kind, &row.mime_type, row.size.unwrap_or_default(), bytes).await?)
            };
            tokio::time::timeout(LONGEST, uploading).await.unwrap_or(Err(UploadError::TooLong))
        });
        self.transfers.uploads.running = Some(Upload { message, kind, row, task: AbortOnDropHandle::new(task) });
        false
    }

    pub(super) async fn upload_ended(&mut self, end: UploadEnd) -> Result<(), LeadershipLost> {
        let UploadEnd { message, kind, row, result } = end;
        let logged_in = self.is_logged_in();
        let uploads = &mut self.transfers.uploads;
        uploads.retry_at = None;
        match result {
            Ok(uploaded) => {
                uploads.failures = 0;
                if let Some(row) = row {
                    uploads.remember(&row, kind, &uploaded);
                    self.note_handle(&row, &uploaded).await?;
                }
                self.outbox.has_bytes(&message, uploaded.handle, Some(uploaded.expires_at));
            }
            Err(UploadError::Network(MediaError::Refused { code, text })) => {
                uploads.failures = 0;
                let mut batch = Batch::default();
                self.settle_refused(&mut batch, &message, Refused::new(code, text));
                self.finish(batch).await?;
            }
            Err(UploadError::Gone) => {
                uploads.failures = 0;
                self.fail_sends(vec![message], "media_gone", "the media is no longer stored").await?;
            }
            Err(error @ (UploadError::Network(_) | UploadError::TooLong)) => {
                // The end of a session says nothing about the media.
                let counts = !matches!(error, UploadError::Network(MediaError::Session(_))) || logged_in;
                uploads.failures += u32::from(counts);
                let failures = uploads.failures;
                tracing::debug!(channel = %self.row.id, %error, failures, "an upload failed");
                if failures < MOST_TRIES {
                    self.transfers.uploads.retry_at = Some(Instant::now() + backoff(failures));
                } else {
                    self.transfers.uploads.failures = 0;
                    let why = format!("the media could not be brought to the network: {error}");
                    self.fail_sends(vec![message], "other", &why).await?;
                }
            }
        }
        self.write_outbox().await;
        Ok(())
    }

    /// Records where the network keeps the bytes, for the next owner. Nobody waits for the commit.
    async fn note_handle(&self, row: &MediaRow, uploaded: &Uploaded) -> Result<(), LeadershipLost> {
        let noted = MediaCommand::AtNetwork {
            channel: row.channel,
            id: row.id,
            handle: uploaded.handle.clone(),
            expires_at: Some(uploaded.expires_at),
        };
        drop(self.owner.committer.commit_deferred(vec![Command::Media(noted)]).await?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::id::{ChannelId, CustomerId, MediaId};
    use model::media::MediaHandle;

    use super::*;
    use crate::media::record::MediaDirection;

    fn row(hash: usize) -> MediaRow {
        let now = Timestamp(0);
        let (customer, channel) = (CustomerId::random(), ChannelId::random());
        let row = MediaRow::new(
            MediaId::new(),
            customer,
            channel,
            MediaDirection::Outbound,
            "image/png",
            now,
            Duration::from_secs(1),
        );
        MediaRow { sha256: Some(Sha256Hex(format!("{hash:064}"))), ..row }
    }

    #[test]
    fn the_latest_handles_are_remembered_while_they_live() {
        let mut uploads = Uploads::default();
        let until = Timestamp(100_000);
        for n in 0..=KNOWN {
            uploads.remember(
                &row(n),
                MediaKind::Image,
                &Uploaded { handle: MediaHandle(n.to_string()), expires_at: until },
            );
        }
        assert!(uploads.known(&row(0), MediaKind::Image, Timestamp(0)).is_none());
        assert_eq!(
            uploads.known(&row(1), MediaKind::Image, Timestamp(0)).map(|known| known.handle.0.as_str()),
            Some("1")
        );
        assert!(uploads.known(&row(1), MediaKind::Image, Timestamp(40_000)).is_none());
        uploads.remember(
            &row(1),
            MediaKind::Image,
            &Uploaded { handle: MediaHandle("again".into()), expires_at: until },
        );
        assert_eq!(
            uploads.known(&row(1), MediaKind::Image, Timestamp(0)).map(|known| known.handle.0.as_str()),
            Some("again")
        );
        assert!(uploads.known(&row(1), MediaKind::Document, Timestamp(0)).is_none(), "other keys, other bytes");
        assert_eq!(uploads.known.len(), KNOWN);
    }
}
