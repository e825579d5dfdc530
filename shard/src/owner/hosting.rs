//! Begins an ownership when this node leads a shard and has applied everything that earlier leaders answered, and ends
//! it with the term. Also moves the leadership of a shard to where the placement wants it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use model::id::{ChannelId, CustomerId, Epoch, NodeId, ShardId, Slot};
use model::msgpack;
use model::status::Status;
use parking_lot::{Mutex, RwLock};
use raft::directory::Change;
use raft::directory::command::Command as DirectoryCommand;
use raft::failpoint::{self, Point};
use raft::group::Group;
use raft::supervise;
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::committer::{CarryOut, Committer, Terms};
use super::fencing::{self, FENCE_EVERY};
use super::hearing::{Deaf, STATUS_PATIENCE, TRANSFER_PATIENCE, give_leadership_away, is_deaf};
use super::message_bytes::MessageBytes;
use super::status_counts::StatusCounts;
use super::streams::{gather, relay};
use super::{MOST_BULK_OF_ONE, NodeContext, Owner, members};
use crate::buckets::Buckets;
use crate::command::{BATCH_VERSION, Batch, BatchReply, Effect};
use crate::shares::Shares;
use crate::stream::Streams;

/// How often an owner checks the age of its copy of the directory.
const HEARING_CHECK: Duration = Duration::from_millis(100);

/// Timeout of an ownership's first entry.
const BARRIER_PATIENCE: Duration = Duration::from_secs(5);

/// How often the placement of the leadership is checked, and how often in a row the wanted node must be ready.
const PLACE_CHECK: Duration = Duration::from_secs(1);
const SETTLED_CHECKS: u32 = 5;

/// How long a pending move of the leadership is held back for a pairing, which is the longest that one can take, and
/// while the wanted node warms up.
const HOLD_PATIENCE: Duration = Duration::from_secs(180);

/// How long channels may take to close when the leadership of their shard is transferred. The other node has the rest
/// of that time to take it, and at least [`TRANSFER_PATIENCE`].
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Starts a background task of an ownership.
type Upkeep = fn(Arc<Owner>) -> BoxFuture<'static, ()>;

/// Deleted channels that are wiped at once: each wipe fills the log as fast as the log takes it.
const WIPED_AT_ONCE: usize = 2;

/// The owners that are alive on this node.
#[derive(Default)]
pub struct Owners {
    live: RwLock<HashMap<ShardId, Arc<Owner>>>,
}

impl Owners {
    /// The owner of a shard, if this node is it and no other node can be.
    pub fn get(&self, shard: ShardId) -> Option<Arc<Owner>> {
        self.live.read().get(&shard).filter(|owner| owner.serves() && owner.fence.is_live()).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Owner>> {
        self.live.read().values().cloned().collect()
    }
}

/// Hosts one shard's replica on this node until `stop`.
pub struct Hosting {
    pub context: Arc<NodeContext>,
    pub owners: Arc<Owners>,
    pub shard: ShardId,
    pub group: Group,
    /// The shortest election timeout.
    pub election_min: Duration,
    pub stop: CancellationToken,
    /// When the last ownership of this node ended.
    pub ended: Mutex<Option<Instant>>,
    /// Tasks of the last ownership that may still be running.
    pub left: Mutex<Option<TaskTracker>>,
}

/// An ownership in progress. However it ends, even by a panic, its rights end with it.
struct Standing<'a> {
    hosting: &'a Hosting,
    owner: &'a Arc<Owner>,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let Self { hosting, owner } = self;
        owner.fence.revoke();
        owner.lost.cancel();
        hosting.owners.live.write().remove(&hosting.shard);
        hosting.context.deliveries.remove(owner);
        owner.tasks.close();
        *hosting.ended.lock() = Some(Instant::now());
        *hosting.left.lock() = Some(owner.tasks.clone());
    }
}

impl Hosting {
    /// Runs until `stop`. May be run again after a panic.
    pub async fn run(&self) {
        self.left_behind().await;
        let mut leadership = self.group.leadership();
        let mut counted: Option<(Epoch, Arc<Mutex<Buckets>>)> = None;
        let mut deaf = Deaf::default();
        loop {
            let epoch = leadership.borrow_and_update().ready_epoch;
            if epoch.is_none() || self.context.directory.is_fresh() {
                deaf.ended();
            } else if deaf.looks_for_another(Instant::now()) {
                give_leadership_away(&self.group, &*self.context.nodes).await;
            }
            if let Some(epoch) = epoch.filter(|_| self.context.directory.is_fresh()) {
                // Kept within a term: it has one leader, so nobody else has counted since its last ownership.
                let kept = counted.take().filter(|(of, _)| *of == epoch);
                let (_, buckets) = counted.insert(kept.unwrap_or_else(|| (epoch, Arc::default())));
                self.own(epoch, buckets.clone(), &mut leadership).await;
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                changed = leadership.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                // An ownership that ended within its term is begun again.
                () = tokio::time::sleep(FENCE_EVERY * 2), if epoch.is_some() => {}
            }
        }
    }

    /// Runs one ownership to its end.
    async fn own(
        &self,
        epoch: Epoch,
        buckets: Arc<Mutex<Buckets>>,
        leadership: &mut tokio::sync::watch::Receiver<raft::group::Leadership>,
    ) {
        let began = Instant::now();
        let Some(owner) = self.begin(epoch, buckets).await else { return };
        let standing = Standing { hosting: self, owner: &owner };
        // Before any call can arrive: a call would start a task for its channel, and the recovery a second one.
        let recovered = owner.recover_channels();
        self.owners.live.write().insert(self.shard, owner.clone());
        metrics::histogram!("gateway_failover_seconds").record(began.elapsed().as_secs_f64());
        let former = self.former_owner();
        let (from, away_ms) = (former.map(|(from, _)| from), former.map(|(_, away)| away.as_millis() as u64));
        tracing::info!(shard = self.shard, epoch, recovered, from, away_ms, "this node owns the shard");
        if let Some((from, away)) = former {
            self.context.take_overs.note(self.shard, from, away, recovered);
        }
        let upkeeps: [(&'static str, Upkeep); 12] = [
            ("the watch over a shard's deleted channels", |owner| Box::pin(watch_directory(owner))),
            ("the forming of a shard", |owner| Box::pin(say_formed(owner))),
            ("the place of a shard's leader", |owner| Box::pin(keep_leader_placed(owner))),
            ("the members of a shard", |owner| Box::pin(members::keep(owner))),
            ("the end of sends that were left waiting", |owner| Box::pin(super::left_sends::run(owner))),
            ("the expiry of a shard's rows", |owner| Box::pin(super::expiry::run(owner))),
            ("the measuring of a shard's messages", |owner| Box::pin(super::message_bytes::run(owner))),
            ("the sealing anew of a shard's secrets", |owner| Box::pin(super::reseal::run(owner))),
            ("the gathering of streamed events", |owner| Box::pin(gather::run(owner))),
            ("the expiry of relayed events", |owner| Box::pin(relay::expire(owner))),
            ("the expiry of a shard's media", |owner| Box::pin(super::expiry::media::run(owner))),
            ("the take-over of a shard's deliveries", |owner| {
                Box::pin(async move { owner.node.deliveries.take_over(owner.clone()).await })
            }),
        ];
        for (task, upkeep) in upkeeps {
            let keeping = owner.clone();
            let lost = owner.lost.clone();
            owner.tasks.spawn(async move {
                lost.run_until_cancelled(supervise::restarted(task, || upkeep(keeping.clone()))).await
            });
        }

        let fence = fencing::keep(self.group.clone(), self.election_min, owner.fence.clone(), owner.lost.clone());
        owner.tasks.spawn_on(fence, self.group.runtime());
        let mut looks = supervise::ticks(HEARING_CHECK);
        loop {
            tokio::select! {
                () = owner.lost.cancelled() => break,
                () = self.stop.cancelled() => break,
                changed = leadership.changed() => {
                    if changed.is_err() || leadership.borrow_and_update().ready_epoch != Some(epoch) {
                        break;
                    }
                }
                _ = looks.tick() => {
                    failpoint::reach(Point::HostingTurn);
                    if is_deaf(&self.context.directory, self.election_min) {
                        tracing::warn!(shard = self.shard, epoch, "the copy of the directory was too old for long");
                        break;
                    }
                }
            }
        }

        if owner.serves() && !self.stop.is_cancelled() {
            metrics::counter!("gateway_lease_lost_total").increment(1);
        }
        drop(standing);
        self.left_behind().await;
        // Once more: the take-over task may have added the deliveries after the first removal.
        self.context.deliveries.remove(&owner);
        tracing::info!(shard = self.shard, epoch, "this node no longer owns the shard");
    }

    /// Waits until all tasks of the last ownership have ended: two ownerships of one term must not overlap.
    async fn left_behind(&self) {
        let left = self.left.lock().clone();
        if let Some(tasks) = left {
            tasks.wait().await;
            self.left.lock().take();
        }
    }

    /// Makes an owner over a state that contains everything committed before, even by an earlier ownership of the same
    /// term whose last entries were in doubt.
    async fn begin(&self, epoch: Epoch, buckets: Arc<Mutex<Buckets>>) -> Option<Arc<Owner>> {
        let barrier = Batch { version: BATCH_VERSION, epoch, node: self.context.node, commands: Vec::new() };
        let entry = msgpack::to_vec_named(&barrier).expect("a batch of plain fields is always written");
        let answer = self.group.propose(Bytes::from(entry), Instant::now() + BARRIER_PATIENCE).await.ok()?;
        // If the leadership was lost and won again meanwhile, the barrier is of an earlier term.
        if !matches!(msgpack::from_slice(&answer), Ok(BatchReply::Replies(..))) {
            return None;
        }
        let cluster = self.context.directory.read(|state| state.cluster.clone())?;
        let deployment_key = match self.context.secrets.deployment_key(&cluster.deployment_key) {
            Ok(key) => key,
            Err(error) => {
                tracing::error!(%error, "the master key is not the one that this cluster was formed with");
                return None;
            }
        };
        let lost = CancellationToken::new();
        let fence = fencing::begin(&self.group, epoch, self.election_min);
        let streams = Arc::new(Streams::default());
        let closing = Arc::<AtomicBool>::default();
        let context = self.context.clone();
        let terms = Terms {
            node: self.context.node,
            epoch,
            format: Box::new(move || context.directory.format()),
            carry_out: self.effects_carried_out(epoch, streams.clone()),
            lost: lost.clone(),
            closing: closing.clone(),
        };
        Some(Arc::new(Owner {
            node: self.context.clone(),
            shard: self.shard,
            epoch,
            since: Instant::now(),
            fence,
            group: self.group.clone(),
            reader: self.group.reader(),
            committer: Committer::start(self.group.clone(), terms),
            buckets,
            webhook_coordinator: Mutex::default(),
            deployment_key,
            lost,
            tasks: TaskTracker::new(),
            status_counts: StatusCounts::default(),
            settling: Arc::default(),
            streams,
            channels: Mutex::new(HashMap::new()),
            recovering: Mutex::default(),
            closing,
            transferring: AtomicBool::new(false),
            wiping: Semaphore::new(WIPED_AT_ONCE),
            bulk: Shares::new(Semaphore::MAX_PERMITS, MOST_BULK_OF_ONE),
            message_bytes: MessageBytes::default(),
        }))
    }

    /// Carries out effects: announces deliveries to the node's engine, and relayed events to `streams`.
    fn effects_carried_out(&self, epoch: Epoch, streams: Arc<Streams>) -> CarryOut {
        let (context, shard) = (self.context.clone(), self.shard);
        Box::new(move |effects| {
            let mut jobs = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Deliver(job) => jobs.push(job),
                    Effect::Relayed(home) => streams.relayed.notify(home),
                }
            }
            context.deliveries.announce(shard, epoch, jobs);
        })
    }

    /// The node that led the group before this one, and how long ago it was last heard; `None` if no other node has led
    /// since this node started, or last owned the shard.
    fn former_owner(&self) -> Option<(NodeId, Duration)> {
        let (from, heard) = self.group.led_by()?;
        let since = self.ended.lock().is_none_or(|ended| heard > ended);
        since.then(|| (from, heard.elapsed()))
    }
}

/// Marks the shard as formed in the directory, once.
async fn say_formed(owner: Arc<Owner>) {
    let directory = &owner.node.directory;
    while !directory.read(|state| state.placement.get(&owner.shard).is_some_and(|place| place.formed)) {
        let deadline = Instant::now() + BARRIER_PATIENCE;
        if directory.update(DirectoryCommand::ShardFormed(owner.shard), Vec::new(), deadline).await.is_ok() {
            return;
        }
    }
}

/// Moves the leadership to the node that should have it, once that node has been up and caught up for a while; at once
/// if this node should not lead any more.
async fn keep_leader_placed(owner: Arc<Owner>) {
    let mut seen_ready = 0;
    // Since when a move of the leadership is pending.
    let mut held_since: Option<Instant> = None;
    let mut checks = supervise::ticks(PLACE_CHECK);
    loop {
        checks.tick().await;
        failpoint::reach(Point::UpkeepTurn);
        let Some(Wish { target, at_once }) = wished_leader(&owner).await else {
            seen_ready = 0;
            held_since = None;
            continue;
        };
        seen_ready = if owner.serves() { seen_ready + 1 } else { 0 };
        if seen_ready >= SETTLED_CHECKS || (at_once && seen_ready > 0) {
            // A user may be looking at a code that the next owner would not know.
            let held = *held_since.get_or_insert_with(Instant::now);
            if !at_once && owner.status_counts.count(Status::Qr) > 0 && held.elapsed() < HOLD_PATIENCE {
                continue;
            }
            // One transfer at a time, so that callers wait for one shard at a time.
            let Ok(_permit) = owner.node.transferring.acquire().await else { return };
            if !at_once && !takes_one_more(&owner, target, held.elapsed() >= HOLD_PATIENCE).await {
                continue;
            }
            seen_ready = 0;
            held_since = None;
            if !at_once {
                tracing::info!(shard = owner.shard, target, "leadership goes to the node that should have it");
            }
            transfer_leadership(&owner, target).await;
        }
    }
}

/// Whether the wanted node may be given the leadership of one more shard now. A node that has just come back has empty
/// caches and may have to log in thousands of channels, so it gets its leaderships a few at a time, over all nodes:
/// each one when it has warmed up from the one before. A node that never finishes warming up gets them all the same
/// (`waited_enough`).
async fn takes_one_more(owner: &Owner, target: NodeId, waited_enough: bool) -> bool {
    let node_status = owner.node.nodes.status_of(target, Instant::now() + STATUS_PATIENCE).await;
    node_status.is_some_and(|node_status| node_status.ready && (!node_status.warming_up || waited_enough))
}

/// Who should lead a shard that this node leads.
struct Wish {
    target: NodeId,
    at_once: bool,
}

/// The node that should lead instead of this one, if it is ready.
async fn wished_leader(owner: &Owner) -> Option<Wish> {
    let own = owner.node.node;
    let (place, able, own_leads) = owner.node.directory.read(|state| {
        let place = state.placement.get(&owner.shard).cloned();
        let leads = |id: &NodeId| state.nodes.get(id).is_some_and(|node| node.state.leads());
        let able: Vec<NodeId> = place.iter().flat_map(|place| &place.replicas).copied().filter(leads).collect();
        (place, able, leads(&own))
    });
    let place = place?;
    if !own_leads && place.replicas.contains(&own) && !owner.node.nodes.is_drained_of_callers() {
        // Load balancers have to learn first that this node takes no more calls.
        return None;
    }
    // A node whose disk is nearly full accepts nothing for the shard; another one may.
    let rooms = &owner.node.rooms;
    let has_room = |node: &NodeId| !rooms.is_full(*node);
    let able: Vec<NodeId> = able.into_iter().filter(|node| *node == own || has_room(node)).collect();
    let must_go = !place.replicas.contains(&own) || !own_leads || !has_room(&own);
    let wanted = Some(place.leader).filter(|leader| able.contains(leader));
    if !must_go && wanted.is_none_or(|wanted| wanted == own) {
        return None;
    }
    let voters = owner.group.members().voters;
    let others = able.into_iter().filter(|node| must_go && Some(*node) != wanted);
    let candidates = wanted.into_iter().chain(others).filter(|node| *node != own && voters.contains(node));
    for target in candidates {
        if owner.node.nodes.is_caught_up(target, owner.shard, owner.group.applied()).await {
            return Some(Wish { target, at_once: must_go });
        }
    }
    None
}

/// Closes an owner's sessions in order and transfers the leadership to `target`.
pub async fn transfer_leadership(owner: &Arc<Owner>, target: NodeId) {
    if !owner.begin_closing() {
        // The transfer in progress ends the ownership, whether or not it succeeds.
        let _ = tokio::time::timeout(CLOSE_PATIENCE + TRANSFER_PATIENCE, owner.lost.cancelled()).await;
        return;
    }
    let deadline = Instant::now() + CLOSE_PATIENCE;
    tracing::info!(shard = owner.shard, target, "transferring the shard");
    failpoint::reach(Point::TransferBegun);
    owner.close_channels(deadline).await;
    failpoint::reach(Point::TransferClosed);
    let deadline = deadline.max(Instant::now() + TRANSFER_PATIENCE);
    if let Err(error) = owner.group.transfer_leader(target, deadline).await
        && !owner.lost.is_cancelled()
    {
        tracing::warn!(shard = owner.shard, target, %error, "the leadership was not transferred");
        // The ownership begins again once all tasks of this one have ended.
        owner.lost.cancel();
    }
}

/// Wipes channels as the directory deletes them, and those that were deleted while no owner was watching.
async fn watch_directory(owner: Arc<Owner>) {
    let mut changes = owner.node.directory.changes();
    wipe_deleted(&owner).await;
    loop {
        match changes.recv().await {
            Ok(Change::Channel(id)) => {
                let mine = owner.node.directory.read(|state| {
                    let record = state.channels.get(&id)?;
                    let deleted = record.deleted_at.is_some();
                    let here = state.shard_of(Slot::of_channel(id)) == Some(owner.shard);
                    (deleted && here).then_some(record.customer_id)
                });
                if let Some(customer) = mine {
                    wipe_soon(&owner, customer, id);
                }
            }
            Ok(Change::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => wipe_deleted(&owner).await,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

async fn wipe_deleted(owner: &Arc<Owner>) {
    let deleted: Vec<_> = owner.node.directory.read(|state| {
        let here = state.channels.values().filter(|record| record.deleted_at.is_some());
        let here = here.filter(|record| state.shard_of(record.slot()) == Some(owner.shard));
        here.map(|record| (record.customer_id, record.id)).collect()
    });
    for (customer, id) in deleted {
        wipe_soon(owner, customer, id);
    }
}

/// All channels of a deleted account end at once; their stored data is wiped a few channels at a time.
fn wipe_soon(owner: &Arc<Owner>, customer: CustomerId, channel: ChannelId) {
    let wiping = owner.clone();
    owner.tasks.spawn(async move { wiping.wipe(customer, channel).await });
}
