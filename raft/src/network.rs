//! openraft's network: turns its requests for one peer and group into calls on the transport.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use model::id::NodeId;
use openraft::error::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec;
use crate::contacts::{Contacts, is_loyal};
use crate::copies::Copies;
use crate::failpoint::{self, Point, Wire};
use crate::machine::{DIRECTORY_GROUP, GroupId};
use crate::rate_limiter::RateLimiter;
use crate::replication::{commit_patience, pipelined};
use crate::state::snapshot::{SnapshotData, Source};
use crate::telemetry;
use crate::timing::Timing;
use crate::transport::{Class, PeerError, Peers};
use crate::types::{Snapshot, SnapshotMeta, TypeConfig, Vote};

type Rpc<T> = Result<T, RPCError<TypeConfig>>;

/// Numbers of the host's services on the transport.
pub(crate) mod service {
    pub(crate) const VOTE: u16 = 1;
    pub(crate) const PRE_VOTE: u16 = 2;
    pub(crate) const APPEND: u16 = 3;
    /// An append without entries, which may wait a little to share a frame with others.
    pub(crate) const HEARTBEAT: u16 = 4;
    pub(crate) const TRANSFER: u16 = 5;
    pub(crate) const SNAPSHOT_BEGIN: u16 = 6;
    pub(crate) const SNAPSHOT_CHUNK: u16 = 7;
    pub(crate) const SNAPSHOT_END: u16 = 8;
    pub(crate) const READ_INDEX: u16 = 9;
    /// Exchange of sync positions of logs; concerns no group.
    pub(crate) const WITNESS: u16 = 10;
    /// Hash of a group's state at an index.
    pub(crate) const STATE_HASH: u16 = 11;
}

/// First byte of each answer of the host's services.
pub(crate) mod status {
    pub(crate) const OK: u8 = 0;
    /// The group is not open on that node, or not running.
    pub(crate) const NO_GROUP: u8 = 1;
    /// The request is malformed or out of order.
    pub(crate) const BAD: u8 = 2;
    /// That node has no free space for entries.
    pub(crate) const NO_ROOM: u8 = 3;
}

/// Whether a failpoint blocks the requests of this group.
pub(crate) fn is_cut(group: GroupId) -> bool {
    group == DIRECTORY_GROUP && failpoint::is_cut(Wire::Directory)
}

/// Heartbeats of all groups within this time share a frame.
const HEARTBEAT_PATIENCE: Duration = Duration::from_millis(10);
/// A chunk is written to disk before it is answered.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(15);
/// Installing a snapshot includes restoring the machine.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(180);

/// Timeouts of requests.
#[derive(Clone, Copy)]
pub(crate) struct Timeouts {
    /// Leadership transfers: shorter than the shortest election timeout.
    pub(crate) control: Duration,
    /// Votes: they wait for the voter's core and disk. An answer counts until the candidate stands again; before that
    /// it sends pre-votes, which are answered after the vote.
    pub(crate) vote: Duration,
    /// Heartbeats: wait for the follower's core, and the next one for the answer; below the shortest election timeout.
    pub(crate) heartbeat: Duration,
}

/// Appends wait for the follower's disk and the link; the transport detects a dead peer long before this. On the
/// slowest supported links, at about 64 KiB/s, the largest entry takes half of this time.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);

impl Timeouts {
    pub(crate) fn of(timing: &Timing) -> Self {
        Self {
            control: timing.election_min * 3 / 4,
            vote: timing.election_max * 4,
            heartbeat: timing.heartbeat * 5 / 2,
        }
    }
}

/// Creates the networks of one group.
#[derive(Clone)]
pub(crate) struct Factory {
    pub(crate) peers: Arc<Peers>,
    pub(crate) group: GroupId,
    pub(crate) timeouts: Timeouts,
    /// See [`crate::group::Running`].
    pub(crate) votes_from: Instant,
    /// Number of reads that wait for a heartbeat.
    pub(crate) reads: Arc<AtomicUsize>,
    pub(crate) contacts: Arc<Contacts<Instant>>,
    /// Shared by all groups of the node.
    pub(crate) rate_limiter: Arc<RateLimiter>,
    pub(crate) copies: Arc<Copies>,
}

impl RaftNetworkFactory<TypeConfig> for Factory {
    type Network = Network;

    async fn new_client(&mut self, target: NodeId, _node: &()) -> Network {
        Network { factory: self.clone(), target, role: Role::Log }
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, _node: &()) -> Network {
        Network { factory: self.clone(), target, role: Role::Heartbeat }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Log,
    Heartbeat,
}

/// Connection of one group to one peer.
#[derive(Clone)]
pub(crate) struct Network {
    factory: Factory,
    target: NodeId,
    role: Role,
}

/// Prefixes a body with the group.
pub(crate) fn addressed(group: GroupId, body: &[u8]) -> Bytes {
    [&group.to_be_bytes()[..], body].concat().into()
}

impl Network {
    fn error(&self, error: PeerError, action: RPCTypes, timeout: Duration) -> RPCError<TypeConfig> {
        match error {
            PeerError::TimedOut => {
                RPCError::Timeout(Timeout { action, id: self.factory.peers.node(), target: self.target, timeout })
            }
            PeerError::Busy => RPCError::Network(NetworkError::from_string(error)),
            PeerError::Unreachable(_) | PeerError::Refused(_) => unreachable(error),
        }
    }

    async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        service: u16,
        action: RPCTypes,
        request: &Q,
        timeout: Duration,
    ) -> Rpc<A> {
        let body = addressed(self.factory.group, &codec::encode(request));
        let answer =
            self.factory.peers.call(self.target, Class::Control, service, body, Instant::now() + timeout).await;
        let answer = answer.map_err(|error| self.error(error, action, timeout))?;
        codec::decode(accepted(answer)?).map_err(damaged)
    }

    /// Sends an append at once, in the order of these calls; resolves to its answer.
    fn send_append(
        &self,
        request: &AppendEntriesRequest<TypeConfig>,
    ) -> impl Future<Output = Rpc<AppendEntriesResponse<TypeConfig>>> + Send + use<> {
        let body = codec::encode_append(self.factory.group, request);
        let heartbeat = self.factory.timeouts.heartbeat;
        let is_read = || self.factory.reads.load(Ordering::Relaxed) > 0;
        let (class, service, patience, timeout) = match self.role {
            Role::Log => (Class::Log, service::APPEND, Duration::ZERO, APPEND_TIMEOUT),
            // A heartbeat that a read waits for is not held back to share a frame.
            Role::Heartbeat if is_read() => (Class::Control, service::APPEND, Duration::ZERO, heartbeat),
            Role::Heartbeat => (Class::Control, service::HEARTBEAT, HEARTBEAT_PATIENCE, heartbeat),
        };
        let (term, sent) = (request.vote.leader_id.term, Instant::now());
        let answer = match is_cut(self.factory.group) {
            true => Err(PeerError::Unreachable("cut off by a failpoint".into())),
            false => self.factory.peers.begin(self.target, class, service, body, patience),
        };
        let this = self.clone();
        async move {
            let answer = tokio::time::timeout(timeout, async move { answer?.await }).await;
            let answer = answer.unwrap_or(Err(PeerError::TimedOut));
            let answer = answer.map_err(|error| this.error(error, RPCTypes::AppendEntries, timeout))?;
            if answer.first() == Some(&status::NO_ROOM) {
                this.factory.contacts.refused(term, this.target, sent);
            }
            let answer = codec::decode_append_answer(accepted(answer)?).map_err(damaged)?;
            if is_loyal(&answer) {
                this.factory.contacts.answered(term, this.target, sent);
            }
            Ok(answer)
        }
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        meta: &SnapshotMeta,
        source: Source,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let call = async |service: u16, body: Bytes, timeout: Duration| {
            let deadline = Instant::now() + timeout;
            let answer = self.factory.peers.call(self.target, Class::Snapshot, service, body, deadline).await;
            let answer = answer.map_err(|error| self.error(error, RPCTypes::InstallSnapshot, timeout))?;
            accepted(answer)
        };
        call(service::SNAPSHOT_BEGIN, addressed(self.factory.group, &codec::encode(&vote)), CHUNK_TIMEOUT).await?;
        let copying = self.factory.copies.begin(self.target);
        // Only now, so that nothing is read for a peer that is down.
        let mut chunks = source.read();
        let mut number = 0_u64;
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk.map_err(|error| StreamingError::Network(NetworkError::new(&error)))?;
            tokio::time::sleep_until(self.factory.rate_limiter.reserve(chunk.len(), Instant::now()).into()).await;
            let body = [&self.factory.group.to_be_bytes()[..], &number.to_be_bytes(), &chunk[..]].concat();
            call(service::SNAPSHOT_CHUNK, body.into(), CHUNK_TIMEOUT).await?;
            copying.sent(chunk.len());
            number += 1;
        }
        let end = addressed(self.factory.group, &codec::encode(&(number, vote, meta)));
        let answer = call(service::SNAPSHOT_END, end, INSTALL_TIMEOUT).await?;
        // While `copying` still counts as in progress, so that the log is not purged in between.
        self.factory.copies.taken();
        telemetry::snapshot_sent();
        Ok(codec::decode(answer).map_err(damaged)?)
    }
}

fn unreachable(reason: impl ToString) -> RPCError<TypeConfig> {
    RPCError::Unreachable(Unreachable::from_string(reason))
}

fn damaged(error: codec::CodecError) -> RPCError<TypeConfig> {
    RPCError::Network(NetworkError::new(&error))
}

/// Strips the status from an answer.
fn accepted(mut answer: Bytes) -> Rpc<Bytes> {
    match answer.try_get_u8() {
        Ok(status::OK) => Ok(answer),
        Ok(status::NO_GROUP) => Err(unreachable("the group does not run there")),
        Ok(status::NO_ROOM) => Err(unreachable("there is no room there")),
        Ok(_) => Err(RPCError::Network(NetworkError::from_string("the peer could not read the request"))),
        Err(_) => Err(RPCError::Network(NetworkError::from_string("an empty answer"))),
    }
}

/// Decodes an answer; `None` if the peer refused, or the answer is not understood.
pub(crate) fn answered<A: DeserializeOwned>(answer: Bytes) -> Option<A> {
    codec::decode(accepted(answer).ok()?).ok()
}

impl RaftNetworkV2<TypeConfig> for Network {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Rpc<AppendEntriesResponse<TypeConfig>> {
        self.send_append(&request).await
    }

    /// Sends requests as they come, without waiting for earlier answers; yields the answers in order.
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _: RPCOption,
    ) -> BoxFuture<'s, Rpc<BoxStream<'s, Rpc<StreamAppendResult<TypeConfig>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        let this = &*self;
        let answers = pipelined(input, commit_patience(self.factory.group), move |request| {
            failpoint::reach(Point::ReplicationAppend);
            this.send_append(&request)
        });
        Box::pin(std::future::ready(Ok(answers)))
    }

    async fn vote(&mut self, request: VoteRequest<TypeConfig>, _: RPCOption) -> Rpc<VoteResponse<TypeConfig>> {
        self.ask(service::VOTE, RPCTypes::Vote, &request, self.factory.timeouts.vote).await
    }

    async fn pre_vote(&mut self, request: VoteRequest<TypeConfig>, _: RPCOption) -> Rpc<VoteResponse<TypeConfig>> {
        // Every election, except by transfer, starts with a pre-vote and this node's own vote.
        if Instant::now() < self.factory.votes_from {
            return Err(unreachable("this node gives no vote yet"));
        }
        self.ask(service::PRE_VOTE, RPCTypes::Vote, &request, self.factory.timeouts.vote).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<SnapshotData>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let SnapshotData::Source(source) = snapshot.snapshot else {
            let error = NetworkError::from_string("the snapshot has no content");
            return Err(StreamingError::Network(error));
        };
        let (group, peer, upto) = (self.factory.group, self.target, snapshot.meta.last_log_id);
        // At debug level: openraft tries a peer that is down five times a second.
        tracing::debug!(group, peer, ?upto, "sending a snapshot");
        let sent = tokio::select! {
            sent = self.send_snapshot(vote, &snapshot.meta, source) => sent,
            closed = cancel => Err(StreamingError::Closed(closed)),
        };
        if sent.is_ok() {
            tracing::info!(group, peer, ?upto, "a snapshot was sent");
        }
        sent
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        _: RPCOption,
    ) -> Rpc<TransferLeaderResponse<TypeConfig>> {
        self.ask(service::TRANSFER, RPCTypes::TransferLeader, &request, self.factory.timeouts.control).await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::testing::{Authority, peers_config};
    use crate::transport::{Lookup, PeersConfig, RaftService};

    /// Counts requests and refuses them.
    struct Counting(AtomicUsize);

    impl RaftService for Counting {
        fn handle(&self, _: NodeId, _: Class, _: Bytes) -> BoxFuture<'static, Bytes> {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Bytes::from_static(&[status::NO_GROUP])).boxed()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nobody_is_asked_to_elect_this_node_before_it_gives_votes() {
        let authority = Authority::new();
        let two = Peers::start(peers_config(&authority, 2)).await.unwrap();
        let asked = Arc::new(Counting(AtomicUsize::new(0)));
        two.serve_raft(service::PRE_VOTE, asked.clone());
        let address = two.local_addr().to_string();
        let lookup: Lookup = Arc::new(move |_| Some(address.clone()));
        let one = Peers::start(PeersConfig { lookup, ..peers_config(&authority, 1) }).await.unwrap();
        for (votes_from, times) in [(Instant::now() + Duration::from_secs(3600), 0), (Instant::now(), 1)] {
            let mut factory = Factory {
                peers: one.clone(),
                group: 1,
                timeouts: Timeouts::of(&Timing::WAN),
                votes_from,
                reads: Arc::default(),
                contacts: Arc::default(),
                rate_limiter: Arc::new(RateLimiter::new(1)),
                copies: Arc::default(),
            };
            let mut network = factory.new_client(2, &()).await;
            let request = VoteRequest::<TypeConfig>::new(Vote::new(2, 1), None);
            assert!(network.pre_vote(request, RPCOption::new(Duration::ZERO)).await.is_err());
            assert_eq!(asked.0.load(Ordering::SeqCst), times);
        }
        one.shutdown().await;
        two.shutdown().await;
    }
}
