//! openraft's network over the simulated router.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use model::id::NodeId;
use openraft::error::{RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{EntryPayload, OptionalSend, RPCTypes};

use super::applier::SnapshotData;
use super::clock::{self, Instant};
use super::router::{Life, Unanswered};
use super::types::{Raft, SimulatedTypes};
use super::world::{Flaw, Shared};
use crate::contacts::{Contacts, is_loyal};
use crate::machine::GroupId;
use crate::network::Timeouts;
use crate::replication::{commit_patience, pipelined};
use crate::types::{Command, Snapshot, Vote};

/// Timeout of a snapshot; the states are small.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(15);

/// Bytes of commands above which [`Flaw::NoLongAppends`] drops an append.
const LONG_APPEND: usize = 4 << 10;

type Error = RPCError<SimulatedTypes>;
type Rpc<T> = Result<T, Error>;

fn bytes_of(request: &AppendEntriesRequest<SimulatedTypes>) -> usize {
    let bytes = |payload: &EntryPayload<Command, NodeId, ()>| match payload {
        EntryPayload::Normal(command) => command.bytes().len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    };
    request.entries.iter().map(|entry| bytes(&entry.payload)).sum()
}

/// Creates the networks of one group in one life of its node.
pub(super) struct Factory {
    pub(super) shared: Arc<Shared>,
    pub(super) life: Life,
    pub(super) group: GroupId,
    pub(super) contacts: Arc<Contacts<Instant>>,
}

impl RaftNetworkFactory<SimulatedTypes> for Factory {
    type Network = Network;

    async fn new_client(&mut self, target: NodeId, _node: &()) -> Network {
        let timeouts = Timeouts::of(&self.shared.config.timing);
        let (shared, contacts) = (self.shared.clone(), self.contacts.clone());
        Network { shared, life: self.life, group: self.group, target, timeouts, contacts }
    }
}

/// Connection of one group to one peer.
pub(super) struct Network {
    shared: Arc<Shared>,
    life: Life,
    group: GroupId,
    target: NodeId,
    timeouts: Timeouts,
    contacts: Arc<Contacts<Instant>>,
}

impl Network {
    /// Sends a request to the group at the other end: `find` looks it up there, and `serve` handles the request. An
    /// error there means no answer, as with the host.
    fn ask<Q, A, S, F>(
        &self,
        action: RPCTypes,
        find: fn(&Shared, Life, GroupId) -> Option<Raft>,
        timeout: Duration,
        request: Q,
        serve: S,
    ) -> impl Future<Output = Rpc<A>> + Send + use<Q, A, S, F>
    where
        Q: Clone + Send + 'static,
        A: Send + 'static,
        S: Fn(Raft, Q) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Option<A>> + Send,
    {
        let (shared, group, target, id) = (self.shared.clone(), self.group, self.target, self.life.node);
        let answer = self.shared.router.call(self.life, target, timeout, move |there| {
            let (raft, request, serve) = (find(&shared, there, group), request.clone(), serve.clone());
            async move { serve(raft?, request).await }
        });
        async move {
            answer.await.map_err(|error| match error {
                Unanswered::TimedOut => RPCError::Timeout(Timeout { action, id, target, timeout }),
                Unanswered::Unreachable => RPCError::Unreachable(Unreachable::from_string("nobody is there")),
            })
        }
    }

    fn send_append(
        &self,
        request: AppendEntriesRequest<SimulatedTypes>,
    ) -> impl Future<Output = Rpc<AppendEntriesResponse<SimulatedTypes>>> + Send + use<> {
        let (contacts, term, target, sent) =
            (self.contacts.clone(), request.vote.leader_id.term, self.target, clock::now());
        let refused = self.shared.config.flaw == Some(Flaw::NoLongAppends) && bytes_of(&request) > LONG_APPEND;
        let serve = move |raft: Raft, request| async move {
            if refused { None } else { raft.append_entries(request).await.ok() }
        };
        let answer = self.ask(RPCTypes::AppendEntries, Shared::raft, self.timeouts.vote, request, serve);
        async move {
            let answer = answer.await?;
            if is_loyal(&answer) {
                contacts.answered(term, target, sent);
            }
            Ok(answer)
        }
    }
}

impl RaftNetworkV2<SimulatedTypes> for Network {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<SimulatedTypes>,
        _: RPCOption,
    ) -> Rpc<AppendEntriesResponse<SimulatedTypes>> {
        self.send_append(request).await
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _: RPCOption,
    ) -> BoxFuture<'s, Rpc<BoxStream<'s, Rpc<StreamAppendResult<SimulatedTypes>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<SimulatedTypes>> + OptionalSend + Unpin + 'static,
    {
        let this = &*self;
        let answers = pipelined(input, commit_patience(self.group), move |request| this.send_append(request));
        Box::pin(std::future::ready(Ok(answers)))
    }

    async fn vote(&mut self, request: VoteRequest<SimulatedTypes>, _: RPCOption) -> Rpc<VoteResponse<SimulatedTypes>> {
        let serve = |raft: Raft, request| async move { raft.vote(request).await.ok() };
        self.ask(RPCTypes::Vote, Shared::voter, self.timeouts.control, request, serve).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<SimulatedTypes>,
        _: RPCOption,
    ) -> Rpc<VoteResponse<SimulatedTypes>> {
        if self.shared.voter(self.life, self.group).is_none() {
            return Err(RPCError::Unreachable(Unreachable::from_string("this node gives no vote yet")));
        }
        let serve = |raft: Raft, request| async move { raft.pre_vote(request).await.ok() };
        self.ask(RPCTypes::Vote, Shared::voter, self.timeouts.control, request, serve).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<SnapshotData>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<SimulatedTypes>, StreamingError<SimulatedTypes>> {
        let (meta, mut data) = (snapshot.meta, snapshot.snapshot);
        if self.shared.config.flaw == Some(Flaw::CutSnapshot) {
            let mut cut = (*data).clone();
            cut.state.lose_last();
            data = Arc::new(cut);
        }
        let install = move |raft: Raft, (meta, snapshot)| async move {
            raft.install_full_snapshot(vote, Snapshot { meta, snapshot }).await.ok()
        };
        let sent = self.ask(RPCTypes::InstallSnapshot, Shared::raft, SNAPSHOT_PATIENCE, (meta, data), install);
        tokio::select! {
            biased;
            sent = sent => Ok(sent?),
            closed = cancel => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<SimulatedTypes>,
        _: RPCOption,
    ) -> Rpc<TransferLeaderResponse<SimulatedTypes>> {
        let serve = |raft: Raft, request| async move { raft.handle_transfer_leader(request).await.ok() };
        self.ask(RPCTypes::TransferLeader, Shared::raft, self.timeouts.control, request, serve).await
    }
}
