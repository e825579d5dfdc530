//! Finds the owner of a shard on any node and sends it a call; retries while the shard has no owner.

mod format;
mod own;
mod places;
mod survey;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use model::error::{CallError, ErrorCode};
use model::format::Format;
use model::id::{NodeId, ShardId};
use model::msgpack;
use model::seal::MasterKeyId;
use model::time::Timestamp;
use parking_lot::{Mutex, RwLock};
use raft::directory::Directory;
use raft::directory::records::PlacementRecord;
use raft::group::{Leadership, has_caught_up};
use raft::host::Host;
use raft::supervise;
use raft::transport::admission::Port;
use raft::transport::{Class, Handler, MAX_BODY, PeerError, Peers};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use self::own::Readiness;
pub(crate) use self::own::rss_bytes;
use self::places::Places;
use crate::answer;
use crate::call::{Answer, CALL_VERSION, Call, OwnerRequest, Work};
use crate::figures::{Figures, Point};
use crate::format::Release;
use crate::media::blobs::Blobs;
use crate::nodes::Nodes;
use crate::owner::hosting::Owners;
use crate::owner::start_limiter::StartLimiter;
pub use crate::report::NodeStatus;
use crate::report::{Certificates, NodeReport};

/// The service number under which nodes call owners.
pub const SHARD_SERVICE: u16 = 257;

/// How long a call is retried until an owner answers it.
const OWNER_PATIENCE: Duration = Duration::from_secs(5);

/// The pause between two tries to find an owner. The first pauses are short, because a transfer of a shard's leadership
/// takes some tens of milliseconds; after every [`TRIES_A_PAUSE`] tries the pause doubles. When a shard has no owner
/// because CPUs are overloaded, thousands of calls wait for one, and their retries must not prolong the overload.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);
const TRIES_A_PAUSE: usize = 5;

/// How long a node may take to report its applied index of a shard's log.
const PROBE_PATIENCE: Duration = Duration::from_millis(250);

/// How long a new replica may take to fetch media before it is asked again.
const WHOLE_PATIENCE: Duration = Duration::from_secs(30);

/// Time that is reserved at the end of a call's budget for the response to travel back.
const WAY_BACK: Duration = Duration::from_millis(50);

/// Initial capacity of an encoded body, in bytes; most calls and responses fit.
const USUAL_BODY: usize = 512;

#[derive(Serialize, Deserialize)]
enum Request {
    /// A call for the owner of a shard.
    Call(Box<Call>),
    /// Asks for the index up to which the node has applied a shard's log.
    Applied(ShardId),
    /// Asks for the node's status.
    #[serde(rename = "Vitals")]
    NodeStatus,
    /// Asks for the node's status with its groups, its disk and its clock.
    #[serde(rename = "Facts")]
    NodeReport,
    /// As `Applied`, but the node first fetches the shard's media that it lacks.
    Whole(ShardId),
    /// Seals the data folder: from now on only releases that understand this format may open it.
    Seal(Format),
    /// Asks for the node's activity since a time, in steps of `step` seconds. From format 3 on.
    Figures { since: Timestamp, step: u32 },
}

/// A borrowed [`Request`]: the caller keeps the call, to repeat it when nobody answers.
#[derive(Serialize)]
enum Lent<'a> {
    Call(&'a Call),
}

#[derive(Serialize, Deserialize)]
enum Response {
    Answer(Answer),
    Applied(Option<u64>),
    #[serde(rename = "Vitals")]
    NodeStatus(NodeStatus),
    #[serde(rename = "Facts")]
    NodeReport(Box<NodeReport>),
    /// Whether the data folder is sealed, or why not.
    Sealed(Result<(), String>),
    Figures(Vec<Point>),
}

/// What a node reports of itself that does not change while it runs.
pub struct About {
    pub node: NodeId,
    pub release: Release,
    /// The ids of the master keys that the node was configured with.
    pub master_keys: Vec<MasterKeyId>,
    pub certificates: Certificates,
    /// See [`NodeReport::alike`](crate::report::NodeReport::alike).
    pub alike: BTreeMap<String, String>,
    pub ports: Vec<Arc<Port>>,
    /// How long a draining node reports that it is not ready before its leaderships move, for load balancers to notice.
    pub drain_wait: Duration,
}

/// Sends calls to the owners of shards, and serves the requests of other nodes.
pub struct Router {
    node: NodeId,
    about: About,
    host: Arc<Host>,
    peers: Arc<Peers>,
    directory: Arc<Directory>,
    owners: Arc<Owners>,
    /// The node that last answered as the owner of a shard that has no replica here.
    hints: RwLock<HashMap<ShardId, NodeId>>,
    /// Tells whether a replica on this node has all the media of its shard.
    blobs: Arc<Blobs>,
    /// Tells how busy this node is with opening the channels that it took over.
    start_limiter: Arc<StartLimiter>,
    /// Permits for the calls of peers.
    places: Places,
    /// When this node began to drain; a draining node takes no leadership.
    draining: Mutex<Option<Instant>>,
    started_at: Timestamp,
    figures: Figures,
}

impl Router {
    pub fn new(
        about: About,
        host: Arc<Host>,
        peers: Arc<Peers>,
        directory: Arc<Directory>,
        owners: Arc<Owners>,
        blobs: Arc<Blobs>,
        start_limiter: Arc<StartLimiter>,
    ) -> Arc<Self> {
        let router = Arc::new(Self {
            node: about.node,
            about,
            host,
            peers: peers.clone(),
            directory,
            owners,
            hints: RwLock::default(),
            blobs,
            start_limiter,
            places: Places::default(),
            draining: Mutex::default(),
            started_at: Timestamp::now(),
            figures: Figures::default(),
        });
        peers.serve(SHARD_SERVICE, router.clone());
        router
    }

    /// Answers another node's call within the call's budget.
    async fn answer(&self, from: NodeId, call: Call) -> Answer {
        let Some(owner) = self.owners.get(call.shard) else { return Answer::NotLeader };
        let account = call
            .request
            .account(|channel| self.directory.read(|state| Some(state.channels.get(&channel)?.customer_id)));
        let Some(_place) = self.places.take(from, call.shard, account) else {
            return Answer::Result { channel_level: None, result: Err(CallError::no_leader()) };
        };
        // When the budget is used up, the caller has given up.
        tokio::time::timeout(call.budget, answer::to(&owner, call)).await.unwrap_or(Answer::NotLeader)
    }

    /// Starts or ends draining: a draining node refuses leaderships.
    pub fn set_draining(&self, draining: bool) {
        let mut since = self.draining.lock();
        *since = draining.then(|| since.unwrap_or_else(Instant::now));
    }

    pub fn is_draining(&self) -> bool {
        self.draining.lock().is_some()
    }

    /// The node to ask: the leader that the local replica knows, else the last owner that answered, else each replica.
    fn next_candidate(&self, shard: ShardId, tries: usize) -> Option<NodeId> {
        // `known_leader` is `None` for a replica that has not joined its group yet.
        let known = self.host.group(shard).and_then(|group| group.known_leader());
        let hint = self.hints.read().get(&shard).copied();
        let place = self.directory.read(|state| state.placement.get(&shard).cloned());
        candidate(known, hint, place.as_deref(), tries)
    }

    /// Completes when the local replica knows another leader than `node`; never if this node has no replica.
    async fn succeeded(&self, shard: ShardId, node: NodeId) {
        let Some(group) = self.host.group(shard) else { return std::future::pending().await };
        let mut leadership = group.leadership();
        let another = |now: &raft::group::Leadership| now.leader.is_some_and(|leader| leader != node);
        if leadership.wait_for(another).await.is_err() {
            std::future::pending().await
        }
    }

    async fn ask_node(&self, node: NodeId, request: Request, deadline: Instant) -> Result<Response, PeerError> {
        self.ask_encoded(node, body_of(&request), deadline).await
    }

    async fn ask_encoded(&self, node: NodeId, request: Bytes, deadline: Instant) -> Result<Response, PeerError> {
        let answer = self.peers.call(node, Class::Call, SHARD_SERVICE, request, deadline).await?;
        msgpack::from_slice(&answer).map_err(|error| PeerError::Refused(error.to_string()))
    }

    /// The statuses of all nodes that answer within 250 ms, this node included.
    pub async fn node_statuses(&self) -> BTreeMap<NodeId, NodeStatus> {
        let deadline = Instant::now() + PROBE_PATIENCE;
        let answers = self
            .members()
            .into_iter()
            .map(|node| async move { self.status_of(node, deadline).await.map(|node_status| (node, node_status)) });
        join_all(answers).await.into_iter().flatten().collect()
    }

    /// Asks a node to seal its data folder.
    ///
    /// # Errors
    /// Why the folder is not sealed, or must not be.
    pub(crate) async fn seal_of(&self, node: NodeId, format: Format, deadline: Instant) -> Result<(), String> {
        if node == self.node {
            return self.seal(format).await;
        }
        match self.ask_node(node, Request::Seal(format), deadline).await {
            Ok(Response::Sealed(sealed)) => sealed,
            Ok(_) => Err("its release does not know of formats".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn seal(&self, format: Format) -> Result<(), String> {
        if !format.is_known() {
            return Err(format!("this release understands formats up to {}", Format::LATEST));
        }
        let seal = self.about.release.seal.clone();
        let sealing = supervise::on_thread(move || seal(format));
        sealing.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// Why the other nodes refuse this one. `Some` if at least one of them refuses it and none answers.
    pub async fn refusal(&self, nodes: &BTreeSet<NodeId>) -> Option<String> {
        let deadline = Instant::now() + PROBE_PATIENCE;
        let others = nodes.iter().filter(|node| **node != self.node);
        let answers = join_all(others.map(|node| self.ask_node(*node, Request::NodeStatus, deadline))).await;
        if answers.iter().any(Result::is_ok) {
            return None;
        }
        answers.into_iter().find_map(|answer| match answer {
            Err(PeerError::Refused(reason)) => Some(reason),
            _ => None,
        })
    }

    /// The applied index of this node's replica, after fetching the shard's missing media. `None` if some stays
    /// missing.
    async fn own_whole(&self, shard: ShardId) -> Option<u64> {
        let applied = self.host.group(shard)?.applied();
        self.blobs.fetch_lacking_of(shard).await.then_some(applied)
    }

    /// Asks one node for its report.
    pub(crate) async fn report_of(&self, node: NodeId, deadline: Instant) -> Result<NodeReport, String> {
        if node == self.node {
            let looking = tokio::time::timeout_at(deadline.into(), self.own_report());
            return looking.await.map_err(|_| "its disk does not answer in time".to_owned());
        }
        match self.ask_node(node, Request::NodeReport, deadline).await {
            Ok(Response::NodeReport(report)) => Ok(*report),
            Ok(_) => Err("is of another release, which does not say".to_owned()),
            Err(PeerError::TimedOut) => Err("does not answer in time".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// [`Nodes::is_caught_up`] with another timeout.
    pub(crate) async fn is_caught_up_within(
        &self,
        patience: Duration,
        node: NodeId,
        shard: ShardId,
        applied: u64,
    ) -> bool {
        match self.ask_node(node, Request::Applied(shard), Instant::now() + patience).await {
            Ok(Response::Applied(Some(theirs))) => has_caught_up(theirs, applied),
            _ => false,
        }
    }
}

#[async_trait]
impl Nodes for Router {
    fn node(&self) -> NodeId {
        self.node
    }

    fn members(&self) -> Vec<NodeId> {
        self.directory.read(|state| state.nodes.keys().copied().collect())
    }

    fn is_drained_of_callers(&self) -> bool {
        self.draining.lock().is_some_and(|since| since.elapsed() >= self.about.drain_wait)
    }

    async fn ask(&self, mut call: Call, deadline: Instant) -> Result<Answer, CallError> {
        let give_up = deadline.min(Instant::now() + OWNER_PATIENCE);
        // `tries` counts all tries; `in_vain` those since the leadership last changed.
        let (mut tries, mut in_vain) = (0, 0);
        let mut leadership = None;
        loop {
            let now = Instant::now();
            call.budget = deadline.saturating_duration_since(now);
            if call.budget <= WAY_BACK || (tries > 0 && now >= give_up) {
                return Err(CallError::no_leader());
            }
            if let Some(answer) = self.try_owner(&call, deadline, tries).await {
                let is_unknown = tries > 0 && may_have_been_sent(&call, &answer);
                return if is_unknown { Err(CallError::no_leader()) } else { Ok(answer) };
            }
            tries += 1;
            in_vain += 1;
            call.request.note_repeat();
            let replica = || self.host.group(call.shard).map(|group| group.leadership());
            let leadership = leadership.get_or_insert_with(replica);
            tokio::select! {
                () = tokio::time::sleep(pause_behind(in_vain)) => {}
                () = leadership_moved(leadership.as_mut()) => in_vain = 0,
            }
        }
    }

    async fn try_owner(&self, call: &Call, deadline: Instant, tries: usize) -> Option<Answer> {
        if let Some(owner) = self.owners.get(call.shard) {
            // The deadline applies to the local owner too: a shard that is stuck must not hold its callers.
            let answering = answer::to(&owner, call.clone());
            return match tokio::time::timeout_at(deadline.into(), answering).await {
                Ok(Answer::NotLeader) | Err(_) => None,
                Ok(answer) => Some(answer),
            };
        }
        let node = self.next_candidate(call.shard, tries).filter(|node| *node != self.node)?;
        let answered = tokio::select! {
            answered = self.ask_encoded(node, body_of(&Lent::Call(call)), deadline) => Some(answered),
            // A suspended process keeps its connections open and never answers; its successor does.
            () = self.succeeded(call.shard, node) => None,
        };
        match answered {
            Some(Ok(Response::Answer(Answer::NotLeader))) | None => {}
            Some(Ok(Response::Answer(answer))) => {
                self.hints.write().insert(call.shard, node);
                return Some(answer);
            }
            Some(Ok(_)) => tracing::debug!(shard = call.shard, node, "an owner answered something else"),
            Some(Err(error)) => tracing::debug!(shard = call.shard, node, %error, "an owner did not answer"),
        }
        self.hints.write().remove(&call.shard);
        None
    }

    async fn status_of(&self, node: NodeId, deadline: Instant) -> Option<NodeStatus> {
        if node == self.node {
            return Some(self.own_status());
        }
        match self.ask_node(node, Request::NodeStatus, deadline).await {
            Ok(Response::NodeStatus(node_status)) => Some(node_status),
            _ => None,
        }
    }

    async fn is_caught_up(&self, node: NodeId, shard: ShardId, applied: u64) -> bool {
        self.is_caught_up_within(PROBE_PATIENCE, node, shard, applied).await
    }

    async fn is_whole(&self, node: NodeId, shard: ShardId, applied: u64) -> bool {
        let deadline = Instant::now() + WHOLE_PATIENCE;
        let whole = if node == self.node {
            tokio::time::timeout_at(deadline.into(), self.own_whole(shard)).await.unwrap_or_default()
        } else {
            match self.ask_node(node, Request::Whole(shard), deadline).await {
                Ok(Response::Applied(whole)) => whole,
                _ => None,
            }
        };
        whole.is_some_and(|theirs| has_caught_up(theirs, applied))
    }
}

/// The pause after this many failed tries.
fn pause_behind(tries: usize) -> Duration {
    let doublings = u32::try_from(tries / TRIES_A_PAUSE).unwrap_or(u32::MAX);
    RETRY_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE)
}

/// Completes when the leadership changes as the local replica sees it; never if this node has no replica.
async fn leadership_moved(leadership: Option<&mut watch::Receiver<Leadership>>) {
    if let Some(leadership) = leadership
        && leadership.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Whether the refusal of a repeated send leaves open whether the first one was sent. An owner looks for the stored
/// message before it refuses a repeat, except in a channel that was wiped in between, and except when the rate limit
/// refuses the repeat because the first one took the last token.
fn may_have_been_sent(call: &Call, answer: &Answer) -> bool {
    let refuses_unseen = |error: &CallError| matches!(error.code, ErrorCode::ChannelNotFound | ErrorCode::RateLimited);
    matches!(&call.request, OwnerRequest::Channel { work: Work::Send(_), .. })
        && matches!(answer, Answer::Result { result: Err(error), .. } if refuses_unseen(error))
}

/// The node to ask for a shard at the `tries`-th try. `known` is the leader that the local voting replica knows, if
/// there is such a replica; `hint` the last node that answered as the owner.
pub fn candidate(
    known: Option<Option<NodeId>>,
    hint: Option<NodeId>,
    place: Option<&PlacementRecord>,
    tries: usize,
) -> Option<NodeId> {
    if let Some(leader) = known {
        return leader;
    }
    if hint.is_some() {
        return hint;
    }
    let place = place?;
    match tries {
        0 => Some(place.leader),
        _ => place.replicas.get(tries % place.replicas.len().max(1)).copied(),
    }
}

#[async_trait]
impl Handler for Router {
    async fn handle(&self, from: NodeId, body: Bytes) -> Bytes {
        let response = match msgpack::from_slice(&body) {
            Ok(Request::Call(call)) if call.version <= CALL_VERSION => Response::Answer(self.answer(from, *call).await),
            Ok(Request::NodeStatus) => Response::NodeStatus(self.own_status()),
            Ok(Request::Seal(format)) => Response::Sealed(self.seal(format).await),
            Ok(Request::Figures { since, step }) => Response::Figures(self.figures.since(since, step)),
            Ok(Request::NodeReport) => Response::NodeReport(Box::new(self.own_report().await)),
            // A draining node takes no leadership, so it never counts as caught up.
            Ok(Request::Applied(_)) if self.is_draining() => Response::Applied(None),
            Ok(Request::Applied(shard)) => Response::Applied(self.host.group(shard).map(|group| group.applied())),
            Ok(Request::Whole(shard)) => {
                let looking = tokio::time::timeout(WHOLE_PATIENCE, self.own_whole(shard));
                Response::Applied(looking.await.unwrap_or_default())
            }
            // A request of a newer release cannot be read here; another node may understand it.
            Ok(Request::Call(_)) | Err(_) => Response::Answer(Answer::NotLeader),
        };
        let answer = body_of(&response);
        if answer.len() <= MAX_BODY {
            return answer;
        }
        tracing::warn!(bytes = answer.len(), "an answer is too large for its caller");
        let error = CallError::bad_request("the answer is too large; ask for less of it at a time");
        let refused = Answer::Result { channel_level: None, result: Err(error) };
        body_of(&Response::Answer(refused))
    }
}

/// Encodes a request or a response.
fn body_of(said: &impl Serialize) -> Bytes {
    let mut body = Vec::with_capacity(USUAL_BODY);
    msgpack::append_named(&mut body, said).expect("a call of plain fields is always written");
    Bytes::from(body)
}

#[cfg(test)]
mod tests {
    use model::id::ChannelId;
    use model::status::{Reason, Status};

    use super::*;
    use crate::call::{ChannelStatus, OwnerResponse, STATUSES_AT_ONCE};

    #[test]
    fn the_live_parts_that_are_asked_for_at_once_leave_room_on_their_connection() {
        let live = ChannelStatus {
            status: Status::LoggedOut,
            reason: Reason::ReconnectBudget,
            phone_number: Some("1".repeat(128)),
            last_seen_at: Some(Timestamp(i64::MAX)),
            updated_at: Some(Timestamp(i64::MAX)),
            node: u64::MAX,
            epoch: u64::MAX,
            shard: ShardId::MAX,
        };
        let statuses = vec![(ChannelId::random(), live); STATUSES_AT_ONCE];
        let answer = Answer::Result { channel_level: None, result: Ok(OwnerResponse::ChannelStatuses(statuses)) };
        let bytes = body_of(&Response::Answer(answer)).len();
        assert!(bytes <= MAX_BODY / 8, "{bytes}");
    }

    #[test]
    fn a_call_looks_for_an_owner_often_at_first_and_seldom_where_there_is_none_for_long() {
        let waited = |tries: usize| (1..=tries).map(pause_behind).sum::<Duration>();
        assert_eq!(waited(4), RETRY_PAUSE * 4);
        let tries = (0..).find(|tries| waited(*tries) >= OWNER_PATIENCE);
        assert!(tries.is_some_and(|tries| (20..50).contains(&tries)), "{tries:?}");
        assert_eq!(pause_behind(usize::MAX), LONGEST_PAUSE);
    }

    #[tokio::test]
    async fn a_call_that_waits_hears_at_once_that_the_leadership_has_moved() {
        let (sender, mut leadership) = watch::channel(Leadership::default());
        sender.send_replace(Leadership { leader: Some(2), ..Leadership::default() });
        leadership_moved(Some(&mut leadership)).await;
        let mut closed = std::pin::pin!(leadership_moved(Some(&mut leadership)));
        drop(sender);
        assert!(futures::poll!(&mut closed).is_pending());
        assert!(futures::poll!(std::pin::pin!(leadership_moved(None))).is_pending());
    }
}
