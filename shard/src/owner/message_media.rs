//! The media of a stored message, for a caller that asks for it: bytes that are not stored are fetched from the network
//! once more.

use std::sync::Arc;
use std::time::Duration;

use model::error::CallError;
use model::id::{ChannelId, CustomerId, MediaId, MessageId};
use model::media::MediaState;
use raft::machine::View;
use tokio::sync::oneshot;

use super::Owner;
use super::channel::ToChannel;
use super::committer::Answered;
use super::transfers::downloads::{FetchEnd, await_fetch};
use crate::call::OwnerResponse;
use crate::history::Direction;
use crate::keys;
use crate::media::record::MediaRow;
use crate::records::{MessagePointer, MessageRow, decode};

/// How long the network may take for a download.
pub const FETCH_PATIENCE: Duration = Duration::from_secs(20);

impl Owner {
    /// The media of a stored message of either direction, ready if possible.
    ///
    /// # Errors
    /// If there is no such message, it has no media or none any more, or the media cannot be had now.
    pub(super) async fn message_media(
        self: &Arc<Self>,
        customer: CustomerId,
        channel: ChannelId,
        message: &MessageId,
    ) -> Answered<OwnerResponse> {
        let row = self.message_row(channel, message).ok_or_else(|| CallError::message_not_found(message.as_str()))?;
        let media = row.content.media().ok_or_else(|| CallError::not_found("media", message.as_str()))?;
        let find = || {
            let row = media.id.and_then(|id| self.reader.get(&keys::media(channel, id)));
            row.map(|row| decode::<MediaRow>(&row)).filter(|row| !row.deleted)
        };
        let row = find().ok_or_else(|| CallError::media_gone(None))?;
        if row.state == MediaState::Ready || (row.state == MediaState::Skipped && !row.may_come()) {
            return Ok(OwnerResponse::Media(Some(Box::new(row))));
        }
        let (ended, end) = oneshot::channel();
        self.tell(channel, customer, ToChannel::Fetch(Box::new((row.id, Some(ended))))).await?;
        let end = await_fetch(end, FETCH_PATIENCE).await?;
        let row = find().ok_or_else(|| CallError::media_gone(None))?;
        match (row.state, end) {
            (MediaState::Ready | MediaState::Skipped, _) => Ok(OwnerResponse::Media(Some(Box::new(row)))),
            (_, FetchEnd::Gone) | (MediaState::Gone, FetchEnd::Settled) => {
                Err(CallError::media_gone(Some(row.expires_at)).into())
            }
            // Media that is not here yet is shown in its present state.
            (MediaState::Pending | MediaState::Failed, _) => Ok(OwnerResponse::Media(Some(Box::new(row)))),
            (MediaState::Gone, FetchEnd::NotConnected) => {
                Err(CallError::not_connected(self.stored_status(channel, customer).status).into())
            }
            (MediaState::Gone, FetchEnd::Later | FetchEnd::NoRoom) => Err(CallError::upstream_timeout().into()),
        }
    }

    /// Has bytes that a caller waits for fetched at once. `waiting` is told the outcome of the next attempt.
    pub(crate) async fn fetch_soon(
        self: &Arc<Self>,
        customer: CustomerId,
        channel: ChannelId,
        id: MediaId,
        waiting: Option<oneshot::Sender<FetchEnd>>,
    ) {
        // If the request does not reach the channel's task, the bytes come in the usual course.
        let _ = self.tell(channel, customer, ToChannel::Fetch(Box::new((id, waiting)))).await;
    }

    fn message_row(&self, channel: ChannelId, message: &MessageId) -> Option<MessageRow> {
        let pointers = [Direction::Inbound, Direction::Outbound];
        let pointers = pointers.map(|direction| self.reader.get(&keys::message_id(channel, direction, message)));
        let pointer: MessagePointer = decode(&pointers.into_iter().flatten().next()?);
        self.reader.get(&keys::message(channel, pointer.occurred_at, pointer.row)).map(|row| decode(&row))
    }
}
