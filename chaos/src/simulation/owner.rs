//! The owner of a shard in a run, with the real committer and the real fence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::format::Format;
use model::id::{ChannelId, Epoch, MessageId, NodeId, ShardId};
use model::msgpack;
use network::fence::Fence;
use parking_lot::Mutex;
use raft::group::Leader;
use raft::simulation::{Life, SimulatedGroup, clock};
use shard::command::{Batch, BatchReply};
use shard::simulation::{Committer, Terms, fencing};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bug::Bug;
use super::channel::{self, MAILBOX, ToChannel};
use super::late::LateGroup;
use super::members;
use super::scene::Scene;

/// How often a node checks whether it leads a shard, and an owner whether it still does.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Timeout of the first entry of an ownership.
const BARRIER_PATIENCE: Duration = Duration::from_secs(5);

/// Timeout for the channels to close their sessions before a transfer.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// The ownership of a shard for one epoch.
pub struct Owner {
    pub scene: Arc<Scene>,
    pub life: Life,
    pub shard: ShardId,
    pub epoch: Epoch,
    pub group: SimulatedGroup,
    pub committer: Committer,
    /// Cancelled when the leadership is lost.
    pub lost: CancellationToken,
    fence: Fence,
    /// Whether sessions are being closed for a transfer of the leadership.
    closing: Arc<AtomicBool>,
    /// Whether requests are refused because the leadership is being transferred: the next owner serves them.
    transferring: AtomicBool,
    channels: Mutex<BTreeMap<ChannelId, mpsc::Sender<ToChannel>>>,
}

/// Hosts a replica: owns the shard whenever this node leads it.
pub async fn host(scene: Arc<Scene>, life: Life, shard: ShardId, stop: Arc<AtomicBool>) {
    let group = scene.group(life, shard);
    let late = LateGroup::new(&scene, group.clone(), shard);
    while scene.lives(life) && !stop.load(Ordering::Relaxed) {
        if let Some(epoch) = group.leadership().ready_epoch
            && has_begun(&late, life, epoch).await
        {
            let lost = CancellationToken::new();
            let closing = Arc::<AtomicBool>::default();
            let terms = Terms {
                node: life.node,
                epoch,
                format: Box::new(|| Format::LATEST),
                // Nothing in a run delivers webhooks or reads event streams.
                carry_out: Box::new(drop),
                lost: lost.clone(),
                closing: closing.clone(),
            };
            let owner = Arc::new(Owner {
                scene: scene.clone(),
                life,
                shard,
                epoch,
                group: group.clone(),
                committer: Committer::start(late.clone(), terms),
                lost,
                fence: fencing::begin(&late, epoch, scene.timing.election_min),
                closing,
                transferring: AtomicBool::new(false),
                channels: Mutex::default(),
            });
            owner.live(&late, &stop).await;
        }
        clock::sleep(LOOK_AGAIN).await;
    }
}

/// Commits the first entry of an ownership, so that the state shows all earlier commits. Returns whether it succeeded.
async fn has_begun(group: &LateGroup, life: Life, epoch: Epoch) -> bool {
    let barrier = Batch { version: Format::LATEST, epoch, node: life.node, commands: Vec::new() };
    let entry = Bytes::from(msgpack::to_vec_named(&barrier).expect("a batch of plain fields is always written"));
    let Ok(pending) = group.submit(entry) else { return false };
    let Some(Ok(answer)) = clock::within(BARRIER_PATIENCE, pending).await else { return false };
    matches!(msgpack::from_slice(&answer), Ok(BatchReply::Replies(..)))
}

impl Owner {
    async fn live(self: Arc<Self>, group: &LateGroup, stop: &AtomicBool) {
        let (scene, place) = (&self.scene, (self.life, self.shard));
        scene.checks.owns(self.life, self.shard, self.epoch);
        scene.owners.lock().insert(place, self.clone());
        let tasks = TaskTracker::new();
        let election_min = scene.timing.election_min;
        let fence = fencing::keep(group.clone(), election_min, self.fence.clone(), self.lost.clone());
        scene.spawn("the fence of a shard", tasks.track_future(fence));
        scene.spawn("the members of a shard", tasks.track_future(members::keep(self.clone())));
        for id in scene.channels_of(self.shard) {
            let (mailbox, waiting) = mpsc::channel(MAILBOX);
            self.channels.lock().insert(id, mailbox);
            scene.spawn("a channel", tasks.track_future(channel::run(self.clone(), id, waiting)));
        }
        while self.stands() && !stop.load(Ordering::Relaxed) {
            clock::sleep(LOOK_AGAIN).await;
        }
        self.fence.revoke();
        self.lost.cancel();
        scene.owners.lock().remove(&place);
        tasks.close();
        // Two ownerships in one term must not overlap, so this one waits until all its tasks have ended.
        tasks.wait().await;
    }

    /// Whether this node still leads, in the same epoch.
    fn stands(&self) -> bool {
        self.scene.lives(self.life)
            && !self.lost.is_cancelled()
            && self.group.leadership().ready_epoch == Some(self.epoch)
    }

    /// Whether the owner may speak to the network: the fence guarantees that no other can have been elected yet.
    pub fn may_speak(&self) -> bool {
        self.scene.lives(self.life) && (self.fence.is_live() || self.scene.bug == Some(Bug::NoFence))
    }

    /// Whether sessions are being closed for a transfer.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Accepts a send and waits for its commit. `None` means that the caller must ask the next owner.
    pub async fn accept(&self, channel: ChannelId, message: MessageId) -> Option<()> {
        if !self.stands() || self.transferring.load(Ordering::Acquire) {
            return None;
        }
        let (reply, answered) = oneshot::channel();
        let mailbox = self.channels.lock().get(&channel).cloned()?;
        mailbox.send(ToChannel::Send(message, reply)).await.ok()?;
        answered.await.ok().filter(|()| self.scene.lives(self.life))
    }

    /// Closes all sessions, then transfers the leadership.
    pub async fn transfer(&self, target: NodeId) {
        if self.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.scene.trace.note(format_args!("node {} hands shard {} to {target}", self.life.node, self.shard));
        let mailboxes: Vec<_> = self.channels.lock().values().cloned().collect();
        let closing = mailboxes.into_iter().map(|mailbox| async move {
            let (closed, waiting) = oneshot::channel();
            // The task of a channel that has ended has closed its session already.
            let _ = mailbox.send(ToChannel::Close(closed)).await;
            let _ = waiting.await;
        });
        clock::within(CLOSE_PATIENCE, futures::future::join_all(closing)).await;
        self.transferring.store(true, Ordering::Release);
        if self.group.transfer_leader(target, members::CHANGE_PATIENCE).await.is_err() {
            // After a failed transfer `host` begins a new ownership, once all tasks of this one have ended.
            self.lost.cancel();
        }
    }
}
