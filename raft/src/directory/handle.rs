//! The directory, as the rest of a node uses it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use model::format::{Foreign, Format};
use model::id::{CustomerId, NodeId};
use model::msgpack;
use model::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::command::{Command, Proposal, Rejection, Reply};
use super::machine::{DirectoryMachine, Outcome};
use super::records::AuditEntry;
use super::state::{Change, DirectoryState};
use super::{AuditPage, AuditPlace, AuditQuery};
use crate::freshness::{CONFIRM_EVERY, OtherCopies};
use crate::group::{Group, MAX_COMMAND, Members, ProposeError};
use crate::host::{Host, OpenError};
use crate::local_copy::{LocalCopy, STREAMED_FOR};
use crate::machine::DIRECTORY_GROUP;
use crate::supervise;
use crate::transport::{Class, Handler, Peers};

/// Number of the service for requests between nodes about the directory.
pub const DIRECTORY_SERVICE: u16 = 256;

/// Pause before a proposer retries.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// Request between nodes.
#[derive(Serialize, Deserialize)]
enum Request {
    /// Propose, wait until every node has applied it or has too old a copy, then answer.
    Update { proposal: Bytes, budget: Duration },
    /// Get the leader's read index; the answer refreshes the requester's copy.
    Confirm { budget: Duration },
    /// Answer once this index is applied.
    Applied { index: u64, budget: Duration },
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Outcome(Box<Outcome>),
    NotLeader,
    /// The update may or may not have been applied.
    Unknown,
    ReadIndex(u64),
    Applied,
    NotApplied,
}

/// Why an update has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The state machine rejected the command; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// No leader answered in time. The update may still be applied.
    #[error("the directory has no leader that answers")]
    Unavailable,
    /// The update exceeds the size of a log entry; nothing was proposed.
    #[error("the update takes {bytes} bytes, more than the {MAX_COMMAND} that can be written at once")]
    TooLarge { bytes: usize },
    /// Nodes of an older release may be members and would not understand it; nothing was proposed.
    #[error(
        "it needs format {needed}, and the cluster has {has}: run `gateway format raise`, once no node has to go back \
         to its former release"
    )]
    Format { needed: Format, has: Format },
}

/// Handle of the directory. Reads come from this node's copy in memory, whose age is [`Directory::age`].
pub struct Directory {
    pub(super) node: NodeId,
    group: Group,
    peers: Arc<Peers>,
    copy: LocalCopy,
    other_copies: OtherCopies,
}

impl Directory {
    /// Opens the directory's group on this node and starts to answer other nodes' requests.
    ///
    /// # Errors
    /// Those of [`Host::open_group`].
    pub fn open(node: NodeId, host: &Host, peers: Arc<Peers>) -> BoxFuture<'_, Result<Arc<Self>, OpenError>> {
        Box::pin(async move {
            let copy = host.local_copy().clone();
            let for_machine = copy.shared.clone();
            let factory = Box::new(move || Box::new(DirectoryMachine::new(for_machine.clone())) as _);
            let group = host.open_group(DIRECTORY_GROUP, factory).await?;
            let directory =
                Arc::new(Self { node, group, peers: peers.clone(), copy, other_copies: OtherCopies::new() });
            peers.serve(DIRECTORY_SERVICE, directory.clone());
            Ok(directory)
        })
    }

    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Whether this node leads the directory, as far as it knows.
    pub fn leads(&self) -> bool {
        self.group.leader() == Some(self.node)
    }

    /// Reads the state that is applied here. The closure must be short: it blocks the state machine.
    pub fn read<T>(&self, with: impl FnOnce(&DirectoryState) -> T) -> T {
        self.copy.read(with)
    }

    /// Changes from now on. A watcher that lags gets a `Lagged` error, and should then re-read everything.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.copy.shared.changes.subscribe()
    }

    /// Whether a customer's events are kept for its streams.
    pub fn is_streamed(&self, customer: CustomerId) -> bool {
        self.streamed_within(customer, STREAMED_FOR)
    }

    /// Whether a stream of the customer was announced within `age`.
    pub fn streamed_within(&self, customer: CustomerId, age: Duration) -> bool {
        self.copy.shared.streamed.read().within(customer, age, Instant::now())
    }

    /// Customers whose events are kept for their streams.
    pub fn streamed(&self) -> Vec<CustomerId> {
        self.copy.shared.streamed.read().living(Instant::now()).collect()
    }

    /// Format of what the cluster's nodes may store and propose; the first format before the cluster is formed.
    pub fn format(&self) -> Format {
        self.copy.format()
    }

    /// Whether this node's copy is fresh enough to judge keys by.
    pub fn is_fresh(&self) -> bool {
        self.copy.is_fresh()
    }

    pub fn age(&self) -> Option<Duration> {
        self.copy.age()
    }

    /// Confirms this node's copy with the leader now.
    ///
    /// # Errors
    /// [`UpdateError::Unavailable`] when no leader answered by the deadline.
    pub fn refresh(&self, deadline: Instant) -> BoxFuture<'_, Result<(), UpdateError>> {
        Box::pin(async move {
            loop {
                let asked_at = Instant::now();
                if let Some(index) = self.ask_read_index(deadline).await
                    && self.group.wait_applied(index, deadline).await.is_ok()
                {
                    self.copy.shared.own_copy.confirmed(asked_at);
                    return Ok(());
                }
                self.pause_before_retry(deadline).await?;
            }
        })
    }

    /// Confirms the copy regularly until cancelled. Runs on the Raft runtime: if the node's requests delayed it, the
    /// node would refuse its callers, and finally give up what it owns.
    pub fn keep_fresh(self: Arc<Self>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let runtime = self.group.runtime().clone();
            supervise::joined(runtime.spawn(self.confirm_regularly(stop))).await;
        })
    }

    async fn confirm_regularly(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = supervise::ticks(CONFIRM_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {
                    // A failure shows as the copy's age; the next tick retries.
                    let _ = self.refresh(Instant::now() + CONFIRM_EVERY * 2).await;
                }
            }
        }
    }

    /// Commits a command. Returns when every node has applied it (if rejected: what the rejection is based on), or has
    /// a copy that is too old to act on the previous state.
    ///
    /// # Errors
    /// [`UpdateError::Rejected`], [`UpdateError::TooLarge`] and [`UpdateError::Format`] with nothing changed;
    /// [`UpdateError::Unavailable`] when no outcome is known by the deadline: the command may still be applied.
    pub fn update(
        &self,
        command: Command,
        audit: Vec<AuditEntry>,
        deadline: Instant,
    ) -> BoxFuture<'_, Result<Reply, UpdateError>> {
        Box::pin(async move {
            let (needed, has) = (command.format(), self.format());
            if needed > has {
                return Err(UpdateError::Format { needed, has });
            }
            let proposal = encode_message(&Proposal::new(command, Timestamp::now(), audit));
            if proposal.len() > MAX_COMMAND {
                return Err(UpdateError::TooLarge { bytes: proposal.len() });
            }
            loop {
                let budget = deadline.saturating_duration_since(Instant::now());
                let answer = match self.group.leader() {
                    Some(leader) if leader == self.node => self.update_as_leader(proposal.clone(), deadline).await,
                    Some(leader) => {
                        let request = Request::Update { proposal: proposal.clone(), budget };
                        self.ask(leader, Class::Call, &request, deadline).await.unwrap_or(Answer::Unknown)
                    }
                    None => Answer::NotLeader,
                };
                if let Answer::Outcome(outcome) = answer {
                    // From now on, this node's reads show what it answers. After the deadline, the leader has already
                    // accounted for the other nodes, and this node refuses requests because of its copy's age.
                    let _ = self.group.wait_applied(outcome.index, deadline).await;
                    return Ok(outcome.result?);
                }
                self.pause_before_retry(deadline).await?;
            }
        })
    }

    /// Audit entries, newest first; see [`AuditPage::read`].
    pub fn audit_log(
        &self,
        query: &AuditQuery,
        before: Option<AuditPlace>,
        limit: usize,
        looked_at: usize,
        wanted: impl FnMut(&AuditEntry) -> bool,
    ) -> AuditPage {
        AuditPage::read(&self.group.reader(), query, before, limit, looked_at, wanted)
    }

    async fn pause_before_retry(&self, deadline: Instant) -> Result<(), UpdateError> {
        if Instant::now() + RETRY_PAUSE >= deadline {
            return Err(UpdateError::Unavailable);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
        Ok(())
    }

    async fn ask_read_index(&self, deadline: Instant) -> Option<u64> {
        let leader = self.group.leader()?;
        if leader == self.node {
            // Only as the leader itself: another leader would not know that this copy is refreshed.
            return self.group.leader_read_index(deadline).await.ok();
        }
        let budget = deadline.saturating_duration_since(Instant::now());
        match self.ask(leader, Class::Control, &Request::Confirm { budget }, deadline).await {
            Some(Answer::ReadIndex(index)) => Some(index),
            _ => None,
        }
    }

    async fn ask(&self, node: NodeId, class: Class, request: &Request, deadline: Instant) -> Option<Answer> {
        let body = encode_message(request);
        let answer = self.peers.call(node, class, DIRECTORY_SERVICE, body, deadline).await.ok()?;
        decode_message(&answer)
    }

    /// On the leader: commits, then waits for the other nodes.
    async fn update_as_leader(&self, proposal: Bytes, deadline: Instant) -> Answer {
        self.others_as_leader();
        // A proposal that cannot be decoded must not reach the log: it would stop every node of this release.
        if let Err(foreign) = Proposal::read(&proposal) {
            let rejection = match foreign {
                Foreign::Newer(version) => Rejection::UnknownVersion(version),
                Foreign::Unreadable(_) => Rejection::Unreadable,
            };
            return Answer::Outcome(Box::new(Outcome { index: self.group.applied(), result: Err(rejection) }));
        }
        let reply = match self.group.propose(proposal, deadline).await {
            Ok(reply) => reply,
            Err(ProposeError::NotLeader { .. }) => return Answer::NotLeader,
            Err(_) => return Answer::Unknown,
        };
        let Some(outcome) = decode_message::<Outcome>(&reply) else { return Answer::Unknown };
        // Rejections wait, too: a caller that learns that a key is revoked already may rely on that everywhere.
        self.wait_for_others(outcome.index).await;
        Answer::Outcome(Box::new(outcome))
    }

    /// Returns when every other node has applied `index`, or has a copy that is too old to be used.
    async fn wait_for_others(&self, index: u64) {
        // Sends the commit position to the followers now rather than with the next heartbeat.
        self.group.trigger_heartbeat();
        let mut others: BTreeSet<NodeId> = self.read(|state| state.nodes.keys().copied().collect());
        // A removed node uses its copy until that is too old, and stays a learner for that long.
        let Members { voters, learners, .. } = self.group.members();
        others.extend(voters.union(&learners));
        let waits = others.into_iter().filter(|node| *node != self.node).map(|node| async move {
            // Confirmations from now on return this index or a later one, so they cannot refresh a copy that has not
            // applied it: a node that asks without applying is waited for once, not forever.
            let until = self.other_copies.refuses_from(node);
            loop {
                let budget = until.saturating_duration_since(Instant::now());
                if budget.is_zero() {
                    return;
                }
                let applied = self.ask(node, Class::Call, &Request::Applied { index, budget }, until).await;
                if matches!(applied, Some(Answer::Applied)) {
                    return;
                }
                tokio::time::sleep(RETRY_PAUSE.min(budget)).await;
            }
        });
        join_all(waits).await;
    }

    fn is_removed(&self, node: NodeId) -> bool {
        self.read(|state| state.cluster.is_some() && !state.nodes.contains_key(&node))
    }

    /// On the leader: whether a removed node may still answer from its copy.
    pub(super) fn may_answer(&self, node: NodeId) -> bool {
        self.others_as_leader().refuses_from(node) > Instant::now()
    }

    /// The other nodes' copies, tracked for the current term.
    fn others_as_leader(&self) -> &OtherCopies {
        let term = self.group.leadership().borrow().term;
        self.other_copies.leading_in(term);
        &self.other_copies
    }

    async fn answer(&self, from: NodeId, request: Request) -> Answer {
        match request {
            Request::Update { proposal, budget } => self.update_as_leader(proposal, Instant::now() + budget).await,
            // A removed node's copy must become too old: from then on, no update waits for that node.
            Request::Confirm { .. } if self.is_removed(from) => Answer::NotLeader,
            Request::Confirm { budget } => {
                // Recorded before the index is read: an update that commits meanwhile must respect this answer.
                self.others_as_leader().answered(from);
                // Only as the leader: another leader would not take this answer into account.
                let index = self.group.leader_read_index(Instant::now() + budget).await;
                index.map_or(Answer::NotLeader, Answer::ReadIndex)
            }
            Request::Applied { index, budget } => {
                let applied = self.group.wait_applied(index, Instant::now() + budget).await;
                applied.map_or(Answer::NotApplied, |()| Answer::Applied)
            }
        }
    }
}

#[async_trait]
impl Handler for Directory {
    async fn handle(&self, from: NodeId, body: Bytes) -> Bytes {
        let answer = match decode_message::<Request>(&body) {
            Some(request) => self.answer(from, request).await,
            None => Answer::NotLeader,
        };
        encode_message(&answer)
    }
}

fn encode_message<T: Serialize>(message: &T) -> Bytes {
    msgpack::to_vec_named(message).expect("a message of plain fields is always written").into()
}

fn decode_message<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    msgpack::from_slice(bytes).ok()
}
