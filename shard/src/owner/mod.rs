//! The owner of a shard: the leader's side of it, alive for one term.
//!
//! - [`Owner`]: the state shared by the tasks of one ownership, and the calls that other nodes make.
//! - `channel`: one channel's task; `lifecycle`, `work`, `sends`, `left_sends`, `compose`, `inbound`, `send_delay`,
//!   `settings`, `receipts` and `bundle` are its parts.
//! - [`committer`]: the way of commands into the log; `submission`: their encoding. [`hosting`]: begins and ends
//!   ownerships. `members`: the replicas. `hearing`: an owner whose copy of the directory is too old.

pub mod auth;
mod auto_replies;
mod backoff;
mod bundle;
pub mod channel;
pub mod committer;
mod compose;
pub mod events;
mod expiry;
pub mod fencing;
mod hearing;
pub mod hosting;
mod inbound;
mod left_sends;
mod lifecycle;
mod media_work;
pub mod members;
mod message_bytes;
mod message_media;
mod number_checks;
mod operations;
pub mod outbox;
pub mod outbox_bytes;
mod reading;
mod receipts;
mod reseal;
mod send_delay;
mod sends;
mod settings;
mod settling;
pub mod start_limiter;
pub mod status_counts;
pub mod streams;
mod submission;
pub mod taken_over;
mod transfers;
mod work;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::address::Suffixes;
use model::customer::Quota;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, EndpointId, Epoch, NodeId, RequestId, ShardId};
use model::status::{Reason, Status};
use model::time::Timestamp;
use network::driver::{Network, PairCodeError};
use network::fence::Fence;
use parking_lot::Mutex;
use raft::directory::Directory;
use raft::directory::records::CustomerRecord;
use raft::directory::state::DirectoryState;
use raft::group::{Group, StateReader};
use raft::machine::View;
use state::deliveries::Job;
use state::deliveries::running::Running;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::channel::{Channel, MAILBOX, Piece, ToChannel, Worked};
use self::committer::{Answered, Committer, LeadershipLost};
use self::message_bytes::MessageBytes;
pub use self::message_media::FETCH_PATIENCE;
pub use self::operations::OPERATION_PATIENCE;
use self::outbox::SendVerdict;
pub use self::outbox_bytes::OutboxBytes;
use self::settling::{Settling, Shown};
use self::start_limiter::{Slots, StartLimiter};
use self::status_counts::StatusCounts;
use self::taken_over::TakeOvers;
use crate::buckets::Buckets;
use crate::call::{ChannelStatus, OwnerResponse, PairingCode, SentStatus, Work};
use crate::coordinator::Coordinator;
use crate::keys;
use crate::media::store::MediaStore;
use crate::nodes::Nodes;
use crate::reads::Reads;
use crate::records::{ChannelRow, decode};
use crate::retention::Retention;
use crate::room::Rooms;
use crate::secrets::Secrets;
use crate::settings::SettingsRow;
use crate::shares::Shares;
use crate::stream::Streams;

/// Bulk operations that an account may have in progress in a shard. Each goes through all deliveries of its endpoint,
/// however many, so an account that requested one after another would accumulate them.
pub const MOST_BULK_OF_ONE: usize = 20;

/// How long a caller waits for the network's acceptance before its send counts as queued.
const SEND_PATIENCE: Duration = Duration::from_secs(10);

/// How long a caller waits for a QR text.
const QR_PATIENCE: Duration = Duration::from_secs(10);

/// How long the network may take to answer a request for a pair code.
const PAIR_CODE_PATIENCE: Duration = Duration::from_secs(10);

/// The webhook deliveries of a node, as owners see them.
#[async_trait]
pub trait Webhooks: Send + Sync {
    /// The deliveries in flight on this node.
    fn running(&self) -> &Running;

    /// Starts a shard's deliveries on this node, after noting those that an earlier owner left unfinished.
    async fn take_over(&self, owner: Arc<Owner>);

    /// Stops a shard's deliveries on this node.
    fn remove(&self, owner: &Owner);

    /// The due times of an endpoint's deliveries were changed in the store.
    fn changed(&self, owner: &Owner, endpoint: EndpointId);

    /// Deliveries were written that are due at once.
    fn announce(&self, shard: ShardId, epoch: Epoch, jobs: Vec<Job>);
}

/// State shared by all owners of a node.
pub struct NodeContext {
    pub node: NodeId,
    pub directory: Arc<Directory>,
    pub network: Arc<dyn Network>,
    pub secrets: Arc<Secrets>,
    pub suffixes: Suffixes,
    pub start_limiter: Arc<StartLimiter>,
    pub slots: Arc<Slots>,
    pub deliveries: Arc<dyn Webhooks>,
    pub media: Arc<MediaStore>,
    /// Concurrent downloads from the network on this node, and concurrent uploads to it.
    pub downloads: Shares,
    pub uploads: Shares,
    pub nodes: Arc<dyn Nodes>,
    pub retention: Arc<Retention>,
    pub rooms: Arc<Rooms>,
    /// Lets one shard of this node at a time expire its rows.
    pub expiring: Semaphore,
    /// Lets one leadership of this node at a time be transferred.
    pub transferring: Semaphore,
    pub take_overs: TakeOvers,
    /// Bytes of the sends that wait at all owners of this node.
    pub outbox_bytes: OutboxBytes,
    /// Shares out turns among accounts that read many rows.
    pub reads: Reads,
    /// Calls that wait on this node for media to arrive.
    pub media_waits: Shares,
}

impl NodeContext {
    /// The limit of a quota in an account's plan.
    pub fn allowed(&self, customer: CustomerId, quota: Quota) -> u64 {
        self.customer(customer).map(|customer| customer.limits.storage).unwrap_or_default().limit(quota)
    }

    /// An account, if this node's copy of the directory has it.
    pub fn customer(&self, customer: CustomerId) -> Option<Arc<CustomerRecord>> {
        self.directory.read(|state| state.customers.get(&customer).cloned())
    }
}

/// One ownership of one shard.
pub struct Owner {
    pub node: Arc<NodeContext>,
    pub shard: ShardId,
    pub epoch: Epoch,
    pub since: Instant,
    pub fence: Fence,
    pub group: Group,
    pub reader: StateReader,
    pub committer: Committer,
    /// The token buckets, kept from an earlier ownership of the same term if there was one.
    pub buckets: Arc<Mutex<Buckets>>,
    /// Counters for webhook endpoints of accounts whose home is this shard.
    pub webhook_coordinator: Mutex<Coordinator>,
    /// Key that derives event ids.
    pub deployment_key: Vec<u8>,
    /// Cancelled when the ownership has ended: every task stops at once.
    pub lost: CancellationToken,
    pub tasks: TaskTracker,
    /// Number of channels with a row, by status.
    pub status_counts: StatusCounts,
    /// Acceptances that were answered but are not committed yet.
    settling: Arc<Settling>,
    /// Event streams of accounts at home in this shard, and events to be collected by the homes of other accounts.
    pub streams: Arc<Streams>,
    channels: Mutex<HashMap<ChannelId, mpsc::Sender<ToChannel>>>,
    /// Channels that an earlier owner left `connected` and that are not recovered yet; they are not connected.
    recovering: Mutex<HashSet<ChannelId>>,
    /// Sessions are being closed for a transfer of leadership: none is opened, and no entry waits for a rest.
    closing: Arc<AtomicBool>,
    /// Calls are not served any more: the next owner serves them.
    transferring: AtomicBool,
    /// Lets a few deleted channels be wiped at a time.
    wiping: Semaphore,
    /// Bulk operations on deliveries that accounts have in progress.
    pub bulk: Shares,
    /// Bytes that accounts keep as messages.
    message_bytes: MessageBytes,
}

impl Owner {
    /// Whether calls are served.
    pub fn serves(&self) -> bool {
        !self.lost.is_cancelled() && !self.is_transferring()
    }

    /// Whether the sessions are being closed for a transfer of the leadership.
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether work on a channel is left to the next owner. While sessions are being closed, which may take long, sends
    /// are still accepted for the next owner to write, and reads are answered.
    pub fn is_left_to_the_next(&self, work: &Work) -> bool {
        let needs_no_session = matches!(work, Work::Send(_) | Work::GetStatus | Work::Read(_) | Work::Media(_));
        self.is_transferring() || (self.is_closing() && !needs_no_session)
    }

    fn is_transferring(&self) -> bool {
        self.transferring.load(Ordering::Acquire)
    }

    /// Whether disk space is too low for new sends, which are refused, and for inbound items, which wait.
    pub fn lacks_room(&self) -> bool {
        self.node.rooms.lacks_quorum(|| self.group.members().voters)
    }

    /// A channel's status as it is stored, which is what the owner last did.
    pub fn stored_status(&self, id: ChannelId, customer: CustomerId) -> ChannelStatus {
        let row = self.reader.get(&keys::channel(id)).map_or_else(|| ChannelRow::new(id, customer), |row| decode(&row));
        let mut live = self.channel_status_of(&row);
        // A stored `connected` counts only while the session that it refers to can be alive.
        if live.status == Status::Connected && self.recovering.lock().contains(&id) {
            live.status = Status::Reconnecting;
            live.reason = Reason::WorkerLost;
            live.last_seen_at = row.last_seen_at;
        }
        live
    }

    /// The shard's state as callers see it, including acceptances that were answered but are not committed yet.
    pub fn shown(&self) -> Shown {
        self.settling.over(self.reader.clone())
    }

    /// Called once a channel's task has taken over what an earlier owner left.
    fn recovered(&self, id: ChannelId) {
        self.recovering.lock().remove(&id);
    }

    pub fn channel_status_of(&self, row: &ChannelRow) -> ChannelStatus {
        ChannelStatus {
            status: row.status,
            reason: row.reason,
            phone_number: row.phone_number.clone(),
            last_seen_at: if row.status == Status::Connected { Some(Timestamp::now()) } else { row.last_seen_at },
            updated_at: row.changed_at,
            node: self.node.node,
            epoch: self.epoch,
            shard: self.shard,
        }
    }

    /// Does work on a channel and waits for its result, up to `deadline`.
    ///
    /// # Errors
    /// The refusal of the work, or [`LeadershipLost`]: ask the next owner, with the same ids.
    pub async fn work(
        self: &Arc<Self>,
        customer: CustomerId,
        channel: ChannelId,
        work: Work,
        call_id: Uuid,
        request_id: RequestId,
        deadline: Instant,
    ) -> Answered<OwnerResponse> {
        self.known(customer, channel, &work, deadline).await?;
        let work = match work {
            Work::Media(work) => return Box::pin(media_work::work(self, customer, channel, work, deadline)).await,
            Work::MessageMedia { message_id } => {
                return Box::pin(self.message_media(customer, channel, &message_id)).await;
            }
            Work::Read(read) => return Ok(Box::pin(self.read(customer, channel, read, deadline)).await?),
            Work::GetStatus => return Ok(OwnerResponse::ChannelStatus(self.stored_status(channel, customer))),
            work => work,
        };
        let began = Instant::now();
        let status_now = || self.stored_status(channel, customer).status;
        // A caller whose wait failed may have waited for a channel that was deleted meanwhile.
        let in_vain = |error| if self.is_deleted(channel) { CallError::channel_not_found() } else { error };
        let (reply, replied) = oneshot::channel();
        let message = ToChannel::Work(Box::new(Piece { work, call_id, request_id, since: began, reply }));
        self.tell(channel, customer, message).await?;
        Ok(match replied.await.map_err(|_| LeadershipLost)?? {
            Worked::Done(done) => done,
            Worked::Accepted(mut sent, verdict) => {
                if let Some(verdict) = verdict {
                    match tokio::time::timeout_at((began + SEND_PATIENCE).into(), verdict).await {
                        Ok(Ok(SendVerdict::Accepted)) => sent.status = SentStatus::Sent,
                        Ok(Ok(SendVerdict::Refused(refused))) => return Err(sends::refusal(&sent.to, &refused).into()),
                        // The wait timed out, or the session or the owner ended: the send stays queued under its id.
                        Ok(Err(_)) | Err(_) => {}
                    }
                }
                OwnerResponse::Sent(sent)
            }
            Worked::QrSoon(code) => match tokio::time::timeout_at((began + QR_PATIENCE).into(), code).await {
                Ok(Ok(code)) => OwnerResponse::Qr(code),
                _ => return Err(in_vain(CallError::no_qr(status_now())).into()),
            },
            Worked::Pairing { wanted, session, ready, given } => {
                if let Some(ready) = ready
                    && !matches!(tokio::time::timeout_at((began + QR_PATIENCE).into(), ready).await, Ok(Ok(_)))
                {
                    return Err(in_vain(CallError::pair_code_failed(None)).into());
                }
                let usual_name = || SettingsRow::of(&self.reader, channel).settings.device_name;
                let name = wanted.display_name.unwrap_or_else(usual_name);
                let asked = tokio::time::timeout(PAIR_CODE_PATIENCE, session.pair_code(&wanted.phone_number, &name));
                let refused = match asked.await {
                    Ok(Ok(code)) => {
                        // The channel's task may have ended meanwhile, and its limit of one code a minute with it.
                        let _ = given.send(());
                        return Ok(OwnerResponse::PairCode(PairingCode {
                            code: code.code,
                            expires_at: code.expires_at,
                        }));
                    }
                    Ok(Err(PairCodeError::Refused { code, .. })) => CallError::pair_code_failed(Some(u32::from(code))),
                    Ok(Err(PairCodeError::NotPairing)) => CallError::pair_code_unavailable(status_now()),
                    Ok(Err(PairCodeError::Unreachable(_))) | Err(_) => CallError::pair_code_failed(None),
                };
                return Err(refused.into());
            }
        })
    }

    /// Refuses work on a channel that the directory does not have as live. This node's copy may lag behind.
    async fn known(
        &self,
        customer: CustomerId,
        channel: ChannelId,
        work: &Work,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let owned = || {
            let directory = &self.node.directory;
            directory.read(|state| state.channel(channel).is_some_and(|record| record.customer_id == customer))
        };
        if matches!(work, Work::DeleteChannel) || owned() {
            return Ok(());
        }
        if self.node.directory.refresh(deadline).await.is_err() {
            return Err(CallError::no_leader());
        }
        if owned() { Ok(()) } else { Err(CallError::channel_not_found()) }
    }

    /// Sends a message to a channel's task, and starts the task if it is not running.
    async fn tell(
        self: &Arc<Self>,
        id: ChannelId,
        customer: CustomerId,
        mut message: ToChannel,
    ) -> Result<(), LeadershipLost> {
        // A task that is ending returns the message; the next one takes it.
        for _ in 0..3 {
            if !self.serves() {
                return Err(LeadershipLost);
            }
            let mailbox = self.mailbox(id, customer);
            match mailbox.send(message).await {
                Ok(()) => return Ok(()),
                Err(back) => message = back.0,
            }
        }
        Err(LeadershipLost)
    }

    fn mailbox(self: &Arc<Self>, id: ChannelId, customer: CustomerId) -> mpsc::Sender<ToChannel> {
        let mut channels = self.channels.lock();
        let known = channels.get(&id);
        if let Some(mailbox) = known.filter(|mailbox| !mailbox.is_closed()) {
            return mailbox.clone();
        }
        // A task that ended normally removed its mailbox. A channel whose mailbox remained has to be recovered.
        let recover = known.is_some();
        let mailbox = self.start_channel(id, customer, recover);
        channels.insert(id, mailbox.clone());
        mailbox
    }

    fn start_channel(self: &Arc<Self>, id: ChannelId, customer: CustomerId, recover: bool) -> mpsc::Sender<ToChannel> {
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        // Boxed, since a task stores its argument twice: as it was passed, and as it is used.
        let channel = Box::new(Channel::load(self.clone(), id, customer));
        self.tasks.spawn(channel.run(messages, recover));
        mailbox
    }

    /// Lets an idle channel's task end, unless work has come in or is about to: a holder of the mailbox can still send
    /// to this task. The lock keeps others from getting the mailbox meanwhile.
    fn retire(&self, id: ChannelId, mailbox: &mpsc::Receiver<ToChannel>) -> bool {
        let mut channels = self.channels.lock();
        let only_the_map_holds_it = mailbox.sender_strong_count() <= 1;
        let retires = only_the_map_holds_it && mailbox.is_empty();
        if retires {
            channels.remove(&id);
        }
        retires
    }

    /// Takes over what an earlier owner left: starts the tasks of channels that run or should. Returns how many run.
    pub(super) fn recover_channels(self: &Arc<Self>) -> usize {
        let rows = self.reader.scan_range(keys::channels(), usize::MAX);
        let mut channels = self.channels.lock();
        for (_, row) in rows {
            let row: ChannelRow = decode(&row);
            // A row that media created for an unused channel is not counted here, nor by that channel's task.
            if !row.deleted && (row.version > 0 || row.credentials) {
                self.status_counts.enters(row.status);
            }
            if row.deleted || !(row.status.runs() || row.status == Status::Disconnected) {
                continue;
            }
            // Deleted while no owner was watching: it must not log in once more before it is wiped.
            if self.is_deleted(row.id) {
                continue;
            }
            if row.status == Status::Connected {
                self.recovering.lock().insert(row.id);
            }
            let mailbox = self.start_channel(row.id, row.customer, true);
            channels.insert(row.id, mailbox);
        }
        channels.len()
    }

    /// Whether the directory has deleted a channel, as far as this node knows.
    pub(super) fn is_deleted(&self, channel: ChannelId) -> bool {
        let deleted =
            |state: &DirectoryState| state.channels.get(&channel).is_some_and(|record| record.deleted_at.is_some());
        self.node.directory.read(deleted)
    }

    /// Wipes a channel that the directory has deleted, or what an earlier owner left of it.
    pub(super) async fn wipe(self: &Arc<Self>, customer: CustomerId, channel: ChannelId) {
        let row: Option<ChannelRow> = self.reader.get(&keys::channel(channel)).map(|row| decode(&row));
        if row.is_none_or(|row| row.wiped) || self.lost.is_cancelled() {
            return;
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        let request = RequestId::mint();
        let _ = self.work(customer, channel, Work::DeleteChannel, Uuid::new_v4(), request, deadline).await;
    }

    /// Begins a transfer; `false` if one is in progress.
    pub fn begin_closing(&self) -> bool {
        !self.closing.swap(true, Ordering::AcqRel)
    }

    /// Closes all sessions in order, so that none is in the next owner's way, and cuts those that are still open at the
    /// deadline. From then on no calls are served.
    pub async fn close_channels(&self, deadline: Instant) {
        let mailboxes: Vec<_> = self.channels.lock().values().cloned().collect();
        let closed = mailboxes.into_iter().map(|mailbox| async move {
            let (done, finished) = oneshot::channel();
            if mailbox.send(ToChannel::CloseForTransfer(done)).await.is_ok() {
                let _ = finished.await;
            }
        });
        let all = futures::future::join_all(closed);
        if tokio::time::timeout_at(deadline.into(), all).await.is_err() {
            tracing::warn!(shard = self.shard, "not all channels were transferred in time");
            // The next leader is elected at once, however recent the last quorum contact is.
            self.fence.revoke();
        }
        self.transferring.store(true, Ordering::Release);
    }
}
