//! Requests about media at the owner of a channel.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::customer::Quota;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, MediaId, RequestId, ShardId};
use model::media::MediaState;
use model::time::Timestamp;
use raft::machine::{View, scan_in_order};
use raft::record::decode;
use tokio::sync::oneshot;

use super::committer::{Answered, LeadershipLost};
use super::transfers::downloads::FetchEnd;
use super::{NodeContext, Owner};
use crate::call::media::{MediaPage, MediaWork};
use crate::call::usage::{UsageRequest, UsageResponse};
use crate::call::{Answer, Call, OwnerRequest, OwnerResponse};
use crate::command::{Command, Reply};
use crate::keys;
use crate::media::apply::kept_bytes;
use crate::media::command::MediaCommand;
use crate::media::record::{MediaDirection, MediaRow};
use crate::settings::SettingsRow;

/// Poll interval for media that a caller waits for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Part of a call's time that is kept for the answer.
const WAY_BACK: Duration = Duration::from_millis(200);

/// Timeout of a shard's answer about the media that it keeps for an account.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);

/// Rows of a channel that are searched for one page: a page may be short rather than read without bound.
const SEARCHED: usize = 5_000;

/// Rows read at a time.
const CHUNK: usize = 256;

/// Handles a request.
///
/// # Errors
/// Its refusal, or [`LeadershipLost`]: ask the next owner.
pub async fn work(
    owner: &Arc<Owner>,
    customer: CustomerId,
    channel: ChannelId,
    work: MediaWork,
    deadline: Instant,
) -> Answered<OwnerResponse> {
    let done = |row: Option<MediaRow>| Ok(OwnerResponse::Media(row.map(Box::new)));
    match work {
        MediaWork::Add(row) => {
            let row = settled(owner, row);
            match commit(owner, MediaCommand::Add(row.clone())).await? {
                Reply::ChannelDeleted => Err(CallError::channel_not_found().into()),
                _ => done(Some(*row)),
            }
        }
        MediaWork::AddWithin { row, limit, elsewhere } => {
            let row = settled(owner, row);
            match commit(owner, MediaCommand::AddWithin { row: row.clone(), limit, elsewhere }).await? {
                Reply::ChannelDeleted => Err(CallError::channel_not_found().into()),
                Reply::OverQuota { used } => {
                    Err(CallError::plan_limit(Quota::MediaBytes, limit, elsewhere + used).into())
                }
                _ => done(Some(*row)),
            }
        }
        MediaWork::Get(id) => done(find(owner, customer, channel, id)),
        MediaWork::Await(id) => done(wait(owner, customer, channel, id, deadline).await?),
        MediaWork::List { limit, before, direction } => {
            let reader = owner.reader.clone();
            // A page may read many rows from disk; the calls of others must not wait for it.
            let page = owner.node.reads.read(Some(customer), deadline, move |patience| {
                list(&patience.over(reader), channel, limit, before, direction)
            });
            Ok(OwnerResponse::MediaPage(page.await?))
        }
        MediaWork::Delete(id) => done(delete(owner, find(owner, customer, channel, id), false).await?),
        MediaWork::DeleteAgain(id) => done(delete(owner, find(owner, customer, channel, id), true).await?),
    }
}

impl NodeContext {
    /// The shards of all channels that a customer has or had.
    pub fn shards_of_customer(&self, customer: CustomerId) -> Vec<ShardId> {
        let mut shards: Vec<ShardId> =
            self.directory.read(|state| state.slots_of(customer).filter_map(|slot| state.shard_of(slot)).collect());
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// How many bytes of media an account keeps, by shard. A shard without an owner is left out: sends do not wait for
    /// it. Deleted channels count until their shards have wiped them. Empty while the cluster's format has no quotas.
    pub async fn media_kept(&self, customer: CustomerId, id: &RequestId, deadline: Instant) -> BTreeMap<ShardId, u64> {
        if !self.media.counts() {
            return BTreeMap::new();
        }
        let deadline = deadline.min(Instant::now() + COUNT_PATIENCE);
        let asks = self.shards_of_customer(customer).into_iter().map(|shard| async move {
            let request = OwnerRequest::Usage(UsageRequest::MediaKept { customer });
            match self.nodes.ask(Call::new(shard, request, id.clone()), deadline).await {
                Ok(Answer::Result { result: Ok(OwnerResponse::Usage(UsageResponse::MediaKept(bytes))), .. }) => {
                    Some((shard, bytes))
                }
                _ => None,
            }
        });
        join_all(asks).await.into_iter().flatten().collect()
    }

    /// Whether the media that all shards keep for an account fills its quota. New media then stays at the network, even
    /// if somebody asks for it.
    pub async fn is_full_of_media(&self, customer: CustomerId) -> bool {
        let kept = self.media_kept(customer, &RequestId::mint(), Instant::now() + COUNT_PATIENCE).await;
        self.media.counts() && kept.into_values().sum::<u64>() >= self.allowed(customer, Quota::MediaBytes)
    }
}

impl Owner {
    /// Whether the media that this shard alone keeps for an account fills its quota. Inbound media is then not
    /// downloaded automatically, and stays at the network until somebody asks for it.
    pub fn has_no_room_for_media(&self, customer: CustomerId) -> bool {
        self.node.media.counts() && kept_bytes(&self.reader, customer) >= self.node.allowed(customer, Quota::MediaBytes)
    }
}

/// A new row with the channel's retention and the cluster's counting of quotas.
fn settled(owner: &Owner, mut row: Box<MediaRow>) -> Box<MediaRow> {
    let settings = SettingsRow::of(&owner.reader, row.channel).settings;
    row.kept_for_at_most(owner.node.media.retention_of(&settings));
    row.counted = owner.node.media.counts();
    row
}

/// Deletes media, and returns its row as it was; `again` if an earlier attempt of the call may have deleted it.
async fn delete(owner: &Owner, found: Option<MediaRow>, again: bool) -> Result<Option<MediaRow>, LeadershipLost> {
    let Some(row) = found.filter(|row| again || !row.deleted) else { return Ok(None) };
    let (channel, id) = (row.channel, row.id);
    let reply = commit(owner, MediaCommand::Delete { channel, id, at: Timestamp::now() }).await?;
    // `Unchanged` means that another call deleted it first.
    let answers = again || reply != Reply::Unchanged;
    Ok(answers.then_some(MediaRow { deleted: false, ..row }))
}

async fn commit(owner: &Owner, command: MediaCommand) -> Result<Reply, LeadershipLost> {
    owner.committer.commit_one(Command::Media(command)).await
}

fn find(owner: &Owner, customer: CustomerId, channel: ChannelId, id: MediaId) -> Option<MediaRow> {
    let row: MediaRow = decode(&owner.reader.get(&keys::media(channel, id))?);
    (row.customer == customer).then_some(row)
}

/// Waits for bytes that are still on their way; their download commits the row as `ready`, or gives up. Returns the row
/// as it is if many callers wait for the account's media already, or the account has no room: anybody may follow a
/// link, any number of times.
async fn wait(
    owner: &Arc<Owner>,
    customer: CustomerId,
    channel: ChannelId,
    id: MediaId,
    deadline: Instant,
) -> Result<Option<MediaRow>, LeadershipLost> {
    let until = deadline.checked_sub(WAY_BACK).unwrap_or(deadline);
    let place = owner.node.media_waits.try_take(customer);
    let (ended, end) = oneshot::channel();
    if find(owner, customer, channel, id).is_some_and(|row| row.may_come()) {
        owner.fetch_soon(customer, channel, id, place.is_some().then_some(ended)).await;
    }
    // After any other outcome the network is asked again.
    let mut no_room = pin!(async {
        if !matches!(end.await, Ok(FetchEnd::NoRoom)) {
            pending::<()>().await;
        }
    });
    loop {
        let row = find(owner, customer, channel, id);
        if row.as_ref().is_none_or(|row| !row.may_come()) || place.is_none() || Instant::now() >= until {
            return Ok(row);
        }
        tokio::select! {
            () = owner.lost.cancelled() => return Err(LeadershipLost),
            () = &mut no_room => return Ok(row),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// A page of media that has its bytes, or will have them.
fn list(
    view: &dyn View,
    channel: ChannelId,
    limit: usize,
    before: Option<MediaId>,
    direction: Option<MediaDirection>,
) -> MediaPage {
    let mut page = MediaPage::default();
    for (searched, (_, row)) in (1..).zip(scan_in_order(view, keys::media_of(channel, before), CHUNK, false)) {
        let row: MediaRow = decode(&row);
        page.next = Some(row.id);
        let listed = direction.map_or(row.direction != MediaDirection::Outbound, |wanted| row.direction == wanted);
        if listed && matches!(row.state, MediaState::Ready | MediaState::Pending) {
            page.rows.push(row);
        }
        if page.rows.len() == limit || searched == SEARCHED {
            return page;
        }
    }
    MediaPage { next: None, ..page }
}

#[cfg(test)]
mod tests {
    use model::media::Sha256Hex;
    use raft::machine::MemoryState;

    use super::*;
    use crate::media::apply;
    use crate::media::record::StoredBytes;

    #[test]
    fn a_list_is_newest_first_and_leaves_out_what_is_gone_or_was_for_one_send() {
        let (customer, channel) = (CustomerId::random(), ChannelId::random());
        let mut state = MemoryState::new();
        let mut ids = Vec::new();
        let stored =
            StoredBytes { sha256: Sha256Hex("cd".repeat(32)), size: 1, width: None, height: None, mime_type: None };
        let kinds = [MediaDirection::Upload, MediaDirection::Outbound, MediaDirection::Inbound, MediaDirection::Upload];
        for (n, direction) in kinds.into_iter().enumerate() {
            let now = Timestamp(1_767_225_600_000 + n as i64);
            let mut row =
                MediaRow::new(MediaId::new(), customer, channel, direction, "text/plain", now, Duration::from_secs(60))
                    .with_bytes(stored.clone());
            // Ids made within a millisecond do not sort by time alone.
            row.id = MediaId::from_bytes([n as u8; 16]);
            ids.push(row.id);
            apply::command(&mut state, MediaCommand::Add(Box::new(row)));
        }
        apply::command(&mut state, MediaCommand::Delete { channel, id: ids[3], at: Timestamp(0) });
        let listed = |limit, before, direction| {
            let page = list(&state, channel, limit, before, direction);
            (page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), page.next)
        };
        assert_eq!(listed(9, None, None), (vec![ids[2], ids[0]], None));
        assert_eq!(listed(1, None, None), (vec![ids[2]], Some(ids[2])));
        assert_eq!(listed(1, Some(ids[2]), None), (vec![ids[0]], Some(ids[0])));
        assert_eq!(listed(1, Some(ids[0]), None), (vec![], None));
        assert_eq!(listed(9, None, Some(MediaDirection::Outbound)), (vec![ids[1]], None));
    }
}
