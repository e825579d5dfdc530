//! Media as the HTTP layer sees it: the store of this node, and calls to the owners of channels.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use model::error::{CallError, ErrorCode};
use model::id::CustomerId;
use model::issue::{IssueCode, Violation};
use model::media::{FetchReason, MediaState};

use super::{CallContext, Cluster};
use crate::call::media::MediaWork;
use crate::media::fetch::{FetchError, Fetched};
use crate::media::record::MediaRow;
use crate::media::spool::For;
use crate::media::store::MediaStore;
use crate::media::token::Token;

/// How long the request of a media link waits for bytes that are still being fetched.
const PENDING_PATIENCE: Duration = Duration::from_secs(30);

impl Cluster {
    /// The media store of this node.
    pub fn media(&self) -> &MediaStore {
        &self.context.media
    }

    /// The media that a verified link names, with its bytes; waits for the bytes of `pending` media.
    ///
    /// # Errors
    /// `media_gone`; `not_found` for media that never existed; 503 while the shard or the directory has no leader, or
    /// when the bytes do not arrive.
    pub async fn linked_media(&self, token: &Token, context: &CallContext) -> Result<MediaRow, CallError> {
        // A link needs no API key, so only a fresh directory shows that its channel was deleted; with a stale copy,
        // here or at the owner, the link would outlive the channel.
        if !self.directory.is_fresh() && self.directory.refresh(context.deadline).await.is_err() {
            return Err(CallError::no_leader());
        }
        let account = self.directory.read(|state| Some(state.channel(token.channel)?.customer_id));
        if account != Some(token.customer) {
            return Err(CallError::media_gone(None));
        }
        let context = CallContext { deadline: Instant::now() + PENDING_PATIENCE, ..context.clone() };
        let found = self.channel(token.customer, token.channel, None, MediaWork::Await(token.media), &context).await.1;
        let row = match found {
            Ok(row) => row.ok_or_else(|| CallError::not_found("media", &token.media.to_string()))?,
            // The link is valid, but its media was deleted with its channel.
            Err(error) if error.code == ErrorCode::ChannelNotFound => return Err(CallError::media_gone(None)),
            Err(error) => return Err(error),
        };
        match row.state {
            MediaState::Ready => Ok(row),
            _ if row.may_come() => {
                Err(CallError::new(ErrorCode::WorkerAtCapacity, "the media is not here yet; try again"))
            }
            _ => Err(CallError::media_gone((!row.deleted).then_some(row.expires_at))),
        }
    }

    /// Downloads a URL that a caller gave into a temporary file, which is never empty. A link of this gateway itself is
    /// read from the store. `customer` is the account that makes the request.
    ///
    /// # Errors
    /// [`FetchError`]; no file is left behind.
    pub fn fetch_media<'a>(
        &'a self,
        customer: CustomerId,
        url: &'a str,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Fetched, FetchError>> {
        Box::pin(async move {
            let media = self.media();
            let fetched = match media.own_token(url) {
                None => media.fetcher.fetch(url, customer, &media.blobs).await?,
                Some(token) => {
                    let token = media.read_token(token).map_err(own_link)?;
                    let row = self.linked_media(&token, context).await.map_err(own_link)?;
                    let bytes = media.open(&row, None).await.map_err(CallError::from)?;
                    let spooled = media.spool(For::Account(customer)).await?.fill(bytes).await?;
                    Fetched { spooled, mime_type: Some(row.mime_type), filename: row.filename }
                }
            };
            if fetched.spooled.size == 0 {
                return Err(FetchError::Url(Violation::new(IssueCode::Empty, "must lead to a file that is not empty")));
            }
            Ok(fetched)
        })
    }
}

/// Maps an invalid own link to the error that it would have returned over HTTP; temporary errors are kept.
fn own_link(error: CallError) -> FetchError {
    let status = match error.code {
        ErrorCode::NotFound => 404,
        ErrorCode::MediaGone => 410,
        ErrorCode::MediaTokenExpired | ErrorCode::MediaTokenTampered | ErrorCode::MediaTokenMalformed => 401,
        _ => return FetchError::Own(error),
    };
    FetchError::Failed { reason: FetchReason::HttpStatus, http_status: Some(status) }
}
