//! The cluster as the HTTP layer sees it: the directory, and calls to owners on any node.

mod buckets;
mod deliveries;
mod gauges;
mod media;
mod outbound;
mod picture;
mod place;
mod usage;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, try_join_all};
use model::address::Suffixes;
use model::error::CallError;
use model::format::Format;
use model::id::{ChannelId, CustomerId, DeliveryId, MessageId, NodeId, RequestId, ShardId, Slot};
use model::limit::{BucketLevel, BucketRule};
use model::seal::WrappedKey;
use model::time::Timestamp;
use model::webhook::RetrySchedule;
use network::driver::Network;
use raft::directory::command::Command as DirectoryCommand;
use raft::directory::records::AuditEntry;
use raft::directory::{Directory, STREAMED_FOR, UpdateError};
use raft::host::{Fatal, Host, OpenError};
use raft::room::Room;
use raft::supervise;
use raft::transport::Peers;
use raft::transport::admission::Port;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::backup::exports::Exports;
use crate::call::request::Request;
use crate::call::{Answer, Call, ChannelStatus, OwnerRequest, OwnerResponse, STATUSES_AT_ONCE, Work, of_kind};
use crate::deliveries::{Deliveries, DeliveryRules};
use crate::figures::Point;
use crate::format::{RaiseError, Release};
use crate::history::deliveries::MessageDeliveries;
use crate::history::{self, HistoryQuery, Page};
use crate::layout::driver;
use crate::layout::load_balancer::Rules;
use crate::layout::removal::{self, Rest, Risk};
use crate::layout::service::{self, Obstacle};
use crate::leases::Leases;
use crate::media::blobs::{BlobError, Blobs};
pub use crate::media::command::MediaRoom;
use crate::media::fetch::Fetcher;
use crate::media::store::{MediaConfig, MediaStore};
use crate::membership::{Excluded, Membership, MembershipConfig};
use crate::nodes::Nodes;
use crate::owner::hosting::{Owners, transfer_leadership};
use crate::owner::start_limiter::{Slots, StartLimiter};
use crate::owner::taken_over::TakeOvers;
use crate::owner::{FETCH_PATIENCE, NodeContext, OPERATION_PATIENCE, OutboxBytes};
use crate::reads::Reads;
use crate::report::{Certificates, Survey};
use crate::retention::Retention;
use crate::rewrap;
use crate::room::Rooms;
use crate::router::{About, NodeStatus, Readiness, Router};
use crate::secrets::Secrets;
use crate::shares::Shares;
use crate::stream::{StreamRequest, StreamResponse};
use crate::webhook::attempt::Attempter;

/// Time for finding the owner and for the commit, in addition to the wait of the call itself.
const CALL_MARGIN: Duration = Duration::from_secs(6);

/// How long another node may take to confirm that it can take over a shard's leadership while this node stops. An
/// overloaded node answers late, but giving up costs the shard an election and all its sessions.
const SUCCESSOR_PATIENCE: Duration = Duration::from_secs(2);

/// The longest time that work at an owner waits for the network.
const WORK_WAIT: Duration = Duration::from_secs(10);

/// The most downloads of media from the network that run at once on a node, in all and for one account. Each holds a
/// few pieces in memory and may take minutes. An account may run as many uploads, which the driver bounds further.
const MOST_DOWNLOADS: usize = 32;
const MOST_TRANSFERS_OF_ONE: usize = 8;
const _: () = assert!(MOST_TRANSFERS_OF_ONE * 4 <= MOST_DOWNLOADS, "others have their share beside three accounts");

/// The most calls on a node that wait for media on its way, in all and for one account. Each polls ten times a second.
const MOST_MEDIA_WAITS: usize = 1024;
const MOST_MEDIA_WAITS_OF_ONE: usize = 64;

/// The configuration of a node in its cluster.
pub struct ClusterConfig {
    pub release: Release,
    pub membership: MembershipConfig,
    pub secrets: Secrets,
    pub certificates: Certificates,
    /// Configuration keys that must be equal on all nodes, with their values on this one.
    pub alike: BTreeMap<String, String>,
    /// The listening ports of this node, for its status.
    pub ports: Vec<Arc<Port>>,
    pub network: Arc<dyn Network>,
    pub suffixes: Suffixes,
    pub session_starts_per_second: u32,
    /// How long a draining node reports that it is not ready before it transfers its leaderships.
    pub drain_wait: Duration,
    /// Whether leaderships move automatically when one node has much more load than the others.
    pub balance_leads: bool,
    pub attempter: Attempter,
    pub retry_schedule: RetrySchedule,
    pub delivery_rules: DeliveryRules,
    pub retention: Retention,
    /// How long the data of a deleted customer is kept.
    pub deletion_grace: Duration,
    pub media: MediaConfig,
}

/// Why a node cannot join its cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("opening the directory: {0}")]
    Directory(#[from] OpenError),
    #[error("opening the media store: {0}")]
    Media(#[from] BlobError),
}

/// The context of one request.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub request_id: RequestId,
    pub deadline: Instant,
}

/// One node's view of the cluster.
pub struct Cluster {
    node: NodeId,
    host: Arc<Host>,
    directory: Arc<Directory>,
    context: Arc<NodeContext>,
    owners: Arc<Owners>,
    /// Makes requests that are not deliveries: tests of endpoints.
    attempter: Arc<Attempter>,
    router: Arc<Router>,
    leases: Leases,
    exports: Arc<Exports>,
    deletion_grace: Duration,
    load_balancer: Rules,
    /// Set when the process is about to end.
    stopping: AtomicBool,
    /// The number of drains that have completed since the start.
    drains: watch::Sender<u64>,
    excluded: watch::Sender<Option<Excluded>>,
    stop: CancellationToken,
    tasks: parking_lot::Mutex<Vec<JoinHandle<()>>>,
}

impl Cluster {
    /// Joins this node to its cluster. Returns before the cluster is available: see [`Cluster::readiness`].
    ///
    /// # Errors
    /// When the directory's replica or the media folder cannot be opened.
    pub async fn start(config: ClusterConfig, host: Arc<Host>, peers: Arc<Peers>) -> Result<Arc<Self>, ClusterError> {
        crate::telemetry::describe();
        let node = config.membership.own.id;
        let stop = CancellationToken::new();
        let directory = Directory::open(node, &host, peers.clone()).await?;
        let owners = Arc::new(Owners::default());
        let blobs = Blobs::start(config.media.blobs.clone(), host.clone(), peers.clone(), directory.clone()).await?;
        let about = About {
            node,
            release: config.release,
            master_keys: config.secrets.known(),
            certificates: config.certificates,
            alike: config.alike,
            ports: config.ports,
            drain_wait: config.drain_wait,
        };
        let start_limiter = Arc::new(StartLimiter::new(config.session_starts_per_second));
        let router = Router::new(
            about,
            host.clone(),
            peers.clone(),
            directory.clone(),
            owners.clone(),
            blobs.clone(),
            start_limiter.clone(),
        );
        let exports = Exports::start(host.clone(), peers, directory.clone());
        let secrets = Arc::new(config.secrets);
        let attempter = Arc::new(config.attempter);
        let fetcher = Fetcher::like(&attempter);
        let media = MediaStore::new(config.media, blobs, fetcher, directory.clone(), secrets.clone());
        let deliveries = Deliveries::start(
            attempter.clone(),
            config.retry_schedule,
            config.delivery_rules,
            directory.clone(),
            stop.clone(),
        );
        let context = Arc::new(NodeContext {
            node,
            directory: directory.clone(),
            network: config.network,
            secrets,
            suffixes: config.suffixes,
            start_limiter,
            slots: Slots::new(config.membership.own.max_channels),
            deliveries: Arc::new(deliveries),
            media: Arc::new(media),
            downloads: Shares::new(MOST_DOWNLOADS, MOST_TRANSFERS_OF_ONE),
            uploads: Shares::new(Semaphore::MAX_PERMITS, MOST_TRANSFERS_OF_ONE),
            nodes: router.clone(),
            rooms: Arc::new(Rooms::new(node, host.room().clone())),
            retention: Arc::new(config.retention),
            expiring: Semaphore::new(1),
            transferring: Semaphore::new(1),
            take_overs: TakeOvers::default(),
            outbox_bytes: OutboxBytes::default(),
            reads: Reads::default(),
            media_waits: Shares::new(MOST_MEDIA_WAITS, MOST_MEDIA_WAITS_OF_ONE),
        });
        let cluster = Arc::new(Self {
            node,
            host: host.clone(),
            directory: directory.clone(),
            context: context.clone(),
            owners: owners.clone(),
            attempter,
            router: router.clone(),
            leases: Leases::default(),
            exports,
            deletion_grace: config.deletion_grace,
            load_balancer: Rules::new(config.balance_leads),
            stopping: AtomicBool::new(false),
            drains: watch::Sender::new(0),
            excluded: watch::Sender::new(None),
            stop: stop.clone(),
            tasks: parking_lot::Mutex::default(),
        });
        let membership = Arc::new(Membership {
            config: config.membership,
            host,
            directory: directory.clone(),
            context: context.clone(),
            router,
            owners,
            stop: stop.clone(),
        });
        cluster.start_tasks(membership);
        Ok(cluster)
    }

    /// Starts the background tasks that run as long as the node.
    fn start_tasks(self: &Arc<Self>, membership: Arc<Membership>) {
        let (fatal, joining) =
            (self.host.fatal().clone(), place::join(membership, self.excluded.clone(), self.stop.clone()));
        // This task holds the replicas of the shards and cannot be resumed after a failure, so that ends the node.
        let mut tasks = vec![tokio::spawn(async move {
            supervise::required("the hosting of shards", &fatal, joining).await;
        })];
        let mut keep = |task, begin: fn(Arc<Self>, CancellationToken) -> BoxFuture<'static, ()>| {
            let cluster = self.clone();
            tasks.push(supervise::spawn(task, move || begin(cluster.clone(), cluster.stop.clone())));
        };
        keep("the directory's expiry", |cluster, stop| {
            cluster.directory.clone().run_expiry(cluster.deletion_grace, stop)
        });
        keep("the rest of deletions", |cluster, stop| cluster.directory.clone().keep_deletions_finished(stop));
        keep("the directory's members", |cluster, stop| cluster.directory.clone().keep_members(stop));
        keep("the layout", |cluster, stop| {
            driver::run(cluster.directory.clone(), cluster.router.clone(), cluster.load_balancer, stop).boxed()
        });
        keep("the exchange of the master key", |cluster, stop| {
            rewrap::run(cluster.directory.clone(), cluster.context.secrets.clone(), stop).boxed()
        });
        keep("the directory's freshness", |cluster, stop| cluster.directory.clone().keep_fresh(stop));
        keep("the gauges", |cluster, stop| gauges::keep(cluster, stop).boxed());
        keep("the notes of take-overs", |cluster, stop| {
            let (nodes, directory) = (cluster.router.clone(), cluster.directory.clone());
            async move { cluster.context.take_overs.run(nodes, directory, stop).await }.boxed()
        });
        keep("the figures of this node", |cluster, stop| {
            let router = cluster.router.clone();
            async move { router.figures().keep(|since| router.own_state(since), stop).await }.boxed()
        });
        keep("the survey of room on disks", |cluster, stop| {
            cluster.context.rooms.clone().keep(cluster.router.clone(), cluster.directory.clone(), stop).boxed()
        });
        keep("the node's own record", |cluster, stop| place::follow_own_record(cluster, stop).boxed());
        *self.tasks.lock() = tasks;
    }

    /// Ends this node when it cannot go on safely.
    pub fn fatal(&self) -> &Fatal {
        self.host.fatal()
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Keys, endpoints, customers and channels, read from memory; updates go through the directory's leader.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The name of the network driver, as in the configuration.
    pub fn driver(&self) -> &'static str {
        self.context.network.name()
    }

    pub fn secrets(&self) -> &Secrets {
        &self.context.secrets
    }

    /// A data key for a new customer, wrapped with the cluster's master key.
    ///
    /// # Errors
    /// 503 until the cluster is formed; `internal_error` on a node that lacks the master key, and is about to end.
    pub fn new_data_key(&self, customer: CustomerId) -> Result<WrappedKey, CallError> {
        let cluster = self.directory.read(|state| state.cluster.clone()).ok_or_else(CallError::no_leader)?;
        self.secrets().new_data_key(cluster.master(), customer).map_err(|error| {
            tracing::error!(%error, "a data key cannot be encrypted");
            CallError::internal_error()
        })
    }

    /// Schedules reads of many rows on this node.
    pub fn reads(&self) -> &Reads {
        &self.context.reads
    }

    pub fn readiness(&self) -> Readiness {
        self.router.readiness()
    }

    /// The groups that this node leads without being able to commit its proposals.
    pub fn stalled(&self) -> Vec<ShardId> {
        self.host.health().stalled
    }

    /// Whether a quorum of the directory's voters lacks disk space for more customer data.
    pub fn directory_lacks_room(&self) -> bool {
        self.context.rooms.quorum_is_full(&self.directory.group().members().voters)
    }

    /// The free space of this node's disks.
    pub fn room(&self) -> &Room {
        self.host.room()
    }

    /// Changes when this node has been drained: its remaining clients should reconnect to another node.
    pub fn drains(&self) -> watch::Receiver<u64> {
        self.drains.subscribe()
    }

    /// The exports of group states for backups.
    pub fn exports(&self) -> &Arc<Exports> {
        &self.exports
    }

    /// The statuses of the nodes that answer at once.
    pub async fn node_statuses(&self) -> BTreeMap<NodeId, NodeStatus> {
        self.router.node_statuses().await
    }

    /// The report of each node, or why it gave none. Nodes have `patience` to answer.
    pub async fn survey(&self, patience: Duration) -> Survey {
        self.router.survey(patience).await
    }

    /// The activity of each node since a time, in steps of `step` seconds, or why it gave none.
    pub async fn figures(&self, since: Timestamp, step: u32) -> BTreeMap<NodeId, Result<Vec<Point>, String>> {
        self.router.figures_of_all(since, step).await
    }

    /// For each group that runs on this node, its applied index and a hash of its state at that index. `None` when not
    /// all could be read by the deadline.
    pub async fn state_hashes(&self, deadline: Instant) -> Option<Vec<(ShardId, u64, u64)>> {
        let mut hashes = Vec::new();
        for group in self.host.health().running {
            let (applied, hash) = self.host.group(group)?.state_hash(deadline).await.ok()?;
            hashes.push((group, applied, hash));
        }
        Some(hashes)
    }

    /// Raises the cluster's format to the highest that all members understand.
    ///
    /// # Errors
    /// [`RaiseError`]; the call may be repeated.
    pub async fn raise_format(&self, audit: AuditEntry, deadline: Instant) -> Result<Format, RaiseError> {
        self.router.raise_format(&self.directory, audit, deadline).await
    }

    /// Whether a node can be drained, judged by the nodes that answer now.
    ///
    /// # Errors
    /// Why not; `force` ignores some obstacles.
    pub async fn judge_drain(&self, node: NodeId, force: bool) -> Result<(), Obstacle> {
        let node_status = self.node_statuses().await;
        let ready =
            node_status.iter().filter(|(_, node_status)| node_status.is_ready()).map(|(node, _)| *node).collect();
        let voters = self.directory.group().members().voters;
        let nodes: Vec<_> = self.directory.read(|state| state.nodes.values().map(|node| (**node).clone()).collect());
        service::judge(node, &nodes, &voters, &node_status.into_keys().collect(), &ready, force)
    }

    /// Whether a node can be removed without a group losing its quorum, by the nodes that answer now, and what remains.
    ///
    /// # Errors
    /// What would go wrong; `force` ignores some risks.
    pub async fn judge_removal(&self, node: NodeId, force: bool) -> Result<Rest, Risk> {
        let alive: BTreeSet<NodeId> = self.node_statuses().await.into_keys().collect();
        let voters = self.directory.group().members().voters;
        self.directory.read(|state| {
            let placement: Vec<_> = state.placement.values().map(|place| &**place).collect();
            removal::judge(node, &placement, &voters, &driver::holders(state), &alive, force)
        })
    }

    /// Completes when the cluster has refused this node, with the reason; else never.
    pub async fn excluded(&self) -> Excluded {
        let mut excluded = self.excluded.subscribe();
        match excluded.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().expect("just waited for it"),
            Err(_) => std::future::pending().await,
        }
    }

    /// Sends a request to a channel's owner, which first takes a token from the channel's bucket if `charge` is set.
    /// Returns the level of the bucket after the charge.
    pub async fn channel<R: Request>(
        &self,
        customer: CustomerId,
        channel: ChannelId,
        charge: Option<BucketRule>,
        request: R,
        context: &CallContext,
    ) -> (Option<BucketLevel>, Result<R::Reply, CallError>) {
        let work = request.work();
        let wait = match work {
            // Sends and pairings wait for the network at the owner.
            Work::Send(_) | Work::Qr | Work::PairCode(_) => Some(WORK_WAIT),
            Work::Operate { .. } => Some(OPERATION_PATIENCE),
            Work::MessageMedia { .. } => Some(FETCH_PATIENCE),
            _ => None,
        };
        let deadline = wait.map_or(context.deadline, |wait| context.deadline.max(Instant::now() + wait + CALL_MARGIN));
        let asked = async {
            let shard = self.shard_of(Slot::of_channel(channel))?;
            let request = OwnerRequest::Channel { customer, channel, charge, work };
            self.router.ask(Call::new(shard, request, context.request_id.clone()), deadline).await
        };
        match asked.await {
            Ok(Answer::Result { channel_level, result }) => (channel_level, R::result(result)),
            Ok(Answer::NotLeader) => (None, Err(CallError::no_leader())),
            Err(error) => (None, Err(error)),
        }
    }

    /// The statuses of many channels, from all their shards.
    ///
    /// # Errors
    /// 503 when one of the shards has no owner in time.
    pub async fn channel_statuses(
        &self,
        ids: &[ChannelId],
        context: &CallContext,
    ) -> Result<HashMap<ChannelId, ChannelStatus>, CallError> {
        let mut by_shard: HashMap<ShardId, Vec<(CustomerId, ChannelId)>> = HashMap::new();
        self.directory.read(|state| {
            for id in ids {
                if let (Some(record), Some(shard)) = (state.channels.get(id), state.shard_of(Slot::of_channel(*id))) {
                    by_shard.entry(shard).or_default().push((record.customer_id, *id));
                }
            }
        });
        let parts = by_shard.into_iter().map(|(shard, channels)| async move {
            let mut all = Vec::with_capacity(channels.len());
            for channels in channels.chunks(STATUSES_AT_ONCE) {
                let request = OwnerRequest::ChannelStatuses { channels: channels.to_vec() };
                let answer = self.ask_shard(shard, request, context).await?;
                all.extend(of_kind!(answer, OwnerResponse::ChannelStatuses(statuses) => statuses)?);
            }
            Ok::<_, CallError>(all)
        });
        Ok(try_join_all(parts).await?.into_iter().flatten().collect())
    }

    /// A page of stored messages of the query's channels, from all their shards, in order. It has at most the query's
    /// limit, and fewer when the search took too long: then the page's frontier says how far it reaches.
    ///
    /// # Errors
    /// As [`Cluster::channel_statuses`].
    pub async fn history(
        &self,
        customer: CustomerId,
        query: HistoryQuery,
        context: &CallContext,
    ) -> Result<Page, CallError> {
        let pages = self.by_shard(&query.channels).into_iter().map(|(shard, channels)| {
            let request = OwnerRequest::History { customer, query: HistoryQuery { channels, ..query.clone() } };
            async move {
                let answer = self.ask_shard(shard, request, context).await?;
                of_kind!(answer, OwnerResponse::History(page) => page)
            }
        });
        let mut page = history::merge(try_join_all(pages).await?, &query);
        for row in &mut page.rows {
            if let Some(media) = &mut row.media {
                self.context.media.link_shown(media, customer, row.channel_id);
            }
        }
        Ok(page)
    }

    /// The deliveries of a message, after `after`, in each channel that has stored it: as many as fit one response.
    ///
    /// # Errors
    /// As [`Cluster::channel_statuses`].
    pub async fn message_deliveries(
        &self,
        channels: Vec<ChannelId>,
        message: MessageId,
        after: Option<DeliveryId>,
        context: &CallContext,
    ) -> Result<Vec<MessageDeliveries>, CallError> {
        let parts = self.by_shard(&channels).into_iter().map(|(shard, channels)| {
            let request = OwnerRequest::MessageDeliveries { channels, message: message.clone(), after };
            async move {
                let answer = self.ask_shard(shard, request, context).await?;
                of_kind!(answer, OwnerResponse::MessageDeliveries(found) => found)
            }
        });
        Ok(try_join_all(parts).await?.into_iter().flatten().collect())
    }

    /// Groups channels by their shard.
    pub(crate) fn by_shard(&self, channels: &[ChannelId]) -> HashMap<ShardId, Vec<ChannelId>> {
        let mut by_shard: HashMap<ShardId, Vec<ChannelId>> = HashMap::new();
        self.directory.read(|state| {
            for id in channels {
                if let Some(shard) = state.shard_of(Slot::of_channel(*id)) {
                    by_shard.entry(shard).or_default().push(*id);
                }
            }
        });
        by_shard
    }

    /// Makes all owners keep the events of a customer for its streams from now on; streams repeat this while they live.
    /// Returns when every owner knows.
    ///
    /// # Errors
    /// 503 while the directory has no leader; `not_found` when the customer is deleted.
    pub async fn announce_stream(&self, customer: CustomerId, deadline: Instant) -> Result<(), UpdateError> {
        if self.directory.streamed_within(customer, STREAMED_FOR / 2) {
            return Ok(());
        }
        let until = Timestamp::now().plus(STREAMED_FOR);
        let command = DirectoryCommand::Streamed { customer, until };
        self.directory.update(command, Vec::new(), deadline).await.map(drop)
    }

    /// Sends a stream request to the coordinator of a customer.
    ///
    /// # Errors
    /// 503 when the coordinator does not answer in time.
    pub async fn stream(
        &self,
        customer: CustomerId,
        request: StreamRequest,
        context: &CallContext,
    ) -> Result<StreamResponse, CallError> {
        let answer = self.ask(Slot::of_customer(customer), OwnerRequest::Stream { customer, request }, context).await?;
        of_kind!(answer, OwnerResponse::Stream(done) => done)
    }

    /// Reports from now on that this node is not ready, and refuses leaderships, while it continues to serve requests,
    /// so that load balancers notice before anything changes.
    pub fn announce_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.router.set_draining(true);
    }

    /// Transfers the leadership of every group that this node leads, so that it can stop without an interruption.
    pub async fn transfer_all(&self) {
        let transfers = self.owners.all().into_iter().map(|owner| async move {
            if !owner.lost.is_cancelled()
                && let Some(target) = self.successor(owner.shard, &owner.group).await
            {
                transfer_leadership(&owner, target).await;
            }
        });
        join_all(transfers).await;
        self.transfer_directory().await;
    }

    async fn transfer_directory(&self) {
        let directory = self.directory.group();
        if directory.leader() == Some(self.node)
            && let Some(target) = self.successor(directory.id(), directory).await
        {
            let _ = directory.transfer_leader(target, Instant::now() + CALL_MARGIN).await;
        }
    }

    /// Another voter that has caught up.
    async fn successor(&self, group_id: u16, group: &raft::group::Group) -> Option<NodeId> {
        let mut others: Vec<NodeId> = group.members().voters.into_iter().filter(|node| *node != self.node).collect();
        // Each group begins its search at another node, so that not all leaderships go to the same one.
        let first = usize::from(group_id).checked_rem(others.len()).unwrap_or(0);
        others.rotate_left(first);
        for node in others {
            if self.router.is_caught_up_within(SUCCESSOR_PATIENCE, node, group_id, group.applied()).await {
                return Some(node);
            }
        }
        None
    }

    /// Ends all owners and tasks. Channels that were not transferred are recovered by the next owner.
    pub async fn stop(&self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        join_all(tasks).await;
        self.context.media.blobs.stop().await;
    }

    async fn ask(&self, slot: Slot, request: OwnerRequest, context: &CallContext) -> Result<Answer, CallError> {
        self.ask_shard(self.shard_of(slot)?, request, context).await
    }

    async fn ask_shard(
        &self,
        shard: ShardId,
        request: OwnerRequest,
        context: &CallContext,
    ) -> Result<Answer, CallError> {
        self.router.ask(Call::new(shard, request, context.request_id.clone()), context.deadline).await
    }

    /// Sends the same request to the owners of several shards.
    async fn ask_each(
        &self,
        shards: Vec<ShardId>,
        request: OwnerRequest,
        context: &CallContext,
    ) -> Result<Vec<OwnerResponse>, CallError> {
        let request = &request;
        let asked =
            |shard| async move { of_kind!(self.ask_shard(shard, request.clone(), context).await?, done => done) };
        try_join_all(shards.into_iter().map(asked)).await
    }

    fn shard_of(&self, slot: Slot) -> Result<ShardId, CallError> {
        self.directory.read(|state| state.shard_of(slot)).ok_or_else(CallError::no_leader)
    }
}
