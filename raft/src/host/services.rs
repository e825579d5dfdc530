//! Server side of [`crate::network`]: handles other nodes' requests to the groups that are open here.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures::FutureExt;
use futures::future::BoxFuture;
use model::id::NodeId;
use openraft::RaftState;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::Inner;
use super::compare::hash_at;
use crate::codec;
use crate::contacts::is_loyal;
use crate::group::{Core, Raft};
use crate::machine::GroupId;
use crate::network::{is_cut, service, status};
use crate::state::snapshot::{Sink, SnapshotData};
use crate::telemetry;
use crate::transport::{Class, Peers, RaftService};
use crate::types::{Snapshot, SnapshotMeta, TypeConfig, Vote};

/// Answers to the heartbeats of one frame become ready together: they wait this long to share a frame.
const ANSWER_PATIENCE: Duration = Duration::from_millis(2);

/// A snapshot transfer is dropped when no part has arrived for this long, at the latest after twice this time: its
/// sender is gone, and the parts take up room. A sending leader gives up on a part after a fraction of it.
const SILENCE: Duration = Duration::from_secs(120);

/// A snapshot that is being received.
struct Incoming<S> {
    /// Distinguishes this transfer from earlier and later ones.
    transfer: u64,
    from: NodeId,
    next: u64,
    /// `None` while a part is being written.
    sink: Option<S>,
}

/// Snapshots that are being received, one per group.
struct Arrivals<S> {
    transfers: u64,
    of: HashMap<GroupId, Incoming<S>>,
}

impl<S> Default for Arrivals<S> {
    fn default() -> Self {
        Self { transfers: 0, of: HashMap::new() }
    }
}

impl<S> Arrivals<S> {
    /// Starts a transfer and returns its number. A transfer in progress is dropped with its files.
    fn begin(&mut self, group: GroupId, from: NodeId, sink: S) -> u64 {
        self.transfers += 1;
        self.of.insert(group, Incoming { transfer: self.transfers, from, next: 0, sink: Some(sink) });
        self.transfers
    }

    /// Number of parts received; drops the transfer if that is no more than `had`.
    fn unless_silent(&mut self, group: GroupId, transfer: u64, had: u64) -> Option<u64> {
        let has = self.of.get(&group).filter(|incoming| incoming.transfer == transfer)?.next;
        if has == had {
            self.of.remove(&group);
        }
        (has > had).then_some(has)
    }

    /// Takes the transfer's sink out while this part, its next one, is being written.
    fn take(&mut self, group: GroupId, from: NodeId, number: u64) -> Option<(u64, S)> {
        let incoming = self.of.get_mut(&group).filter(|incoming| incoming.from == from && incoming.next == number)?;
        Some((incoming.transfer, incoming.sink.take()?))
    }

    /// Puts the sink back for the next part, unless another transfer has begun: the parts of two must not be mixed.
    fn go_on(&mut self, group: GroupId, transfer: u64, sink: S) {
        if let Some(incoming) = self.of.get_mut(&group).filter(|incoming| incoming.transfer == transfer) {
            incoming.next += 1;
            incoming.sink = Some(sink);
        }
    }

    fn remove(&mut self, group: GroupId, transfer: u64) {
        if self.of.get(&group).is_some_and(|incoming| incoming.transfer == transfer) {
            self.of.remove(&group);
        }
    }
}

struct Services {
    host: Weak<Inner>,
    incoming: Mutex<Arrivals<Sink>>,
}

/// Numbers of the services that concern a group.
fn of_groups() -> impl Iterator<Item = u16> {
    (service::VOTE..=service::READ_INDEX).chain([service::STATE_HASH])
}

/// Registers all services of a host.
pub(crate) fn register(peers: &Peers, host: Weak<Inner>) {
    let services = Arc::new(Services { host, incoming: Mutex::default() });
    for number in of_groups() {
        peers.serve_raft(number, Arc::new(Numbered { services: services.clone(), number }));
    }
}

/// Removes a host's services from the transport.
pub(crate) fn unregister(peers: &Peers) {
    for number in of_groups() {
        peers.unserve(number);
    }
}

/// One service, by its number.
struct Numbered {
    services: Arc<Services>,
    number: u16,
}

impl Numbered {
    fn begin(&self, from: NodeId, class: Class, mut body: Bytes) -> Result<BoxFuture<'static, Bytes>, u8> {
        let group = body.try_get_u16().map_err(|_| status::BAD)?;
        if is_cut(group) {
            return Err(status::NO_GROUP);
        }
        let found = self.services.host.upgrade().and_then(|host| Some((host.core(group)?, host)));
        let Some((core, inner)) = found else {
            // A snapshot that was being received for the closed group is of no use.
            self.services.incoming.lock().of.remove(&group);
            return Err(status::NO_GROUP);
        };
        let services = self.services.clone();
        let takes_entries = inner.shared.room.takes_entries();
        let held = core.clone();
        Ok(match self.number {
            service::VOTE | service::PRE_VOTE | service::TRANSFER => tracked(&held, votes(self.number, core, body)),
            // A heartbeat that a read waits for.
            service::APPEND if class == Class::Control => {
                tracked(&held, append(core, body, takes_entries, Until::Taken))
            }
            service::APPEND => tracked(&held, append(core, body, takes_entries, Until::Synced)),
            service::HEARTBEAT => tracked(&held, heartbeat(from, core, body)),
            // Without room, the transfer is dropped: its parts take some. The leader restarts it until there is room.
            service::SNAPSHOT_BEGIN | service::SNAPSHOT_CHUNK if !takes_entries => {
                services.incoming.lock().of.remove(&group);
                return Err(status::NO_GROUP);
            }
            service::SNAPSHOT_BEGIN => tracked(&held, services.begin(from, core, body)),
            service::SNAPSHOT_CHUNK => tracked(&held, services.chunk(from, group, body)),
            service::SNAPSHOT_END => tracked(&held, services.end(from, core, body)),
            service::READ_INDEX => tracked(&held, async move { answer(core.leader_read_index().await) }),
            // Not tracked: a group that closes must not wait for it.
            service::STATE_HASH => served(state_hash(inner, core, body)).boxed(),
            _ => return Err(status::BAD),
        })
    }
}

impl RaftService for Numbered {
    fn handle(&self, from: NodeId, class: Class, body: Bytes) -> BoxFuture<'static, Bytes> {
        self.begin(from, class, body).unwrap_or_else(|status| std::future::ready(refused(status)).boxed())
    }

    fn patience(&self) -> Duration {
        if self.number == service::HEARTBEAT { ANSWER_PATIENCE } else { Duration::ZERO }
    }
}

/// The body of an answer, or the status of a refusal.
type Served = Result<Bytes, u8>;

fn tracked(core: &Core, work: impl Future<Output = Served> + Send + 'static) -> BoxFuture<'static, Bytes> {
    core.tracked(served(work)).boxed()
}

fn served(work: impl Future<Output = Served> + Send) -> impl Future<Output = Bytes> + Send {
    work.map(|served| served.unwrap_or_else(refused))
}

fn refused(status: u8) -> Bytes {
    Bytes::copy_from_slice(&[status])
}

fn accepted(body: &[u8]) -> Bytes {
    [&[status::OK][..], body].concat().into()
}

/// Encodes a result. All errors of openraft here mean that the group has stopped.
fn answer<T: Serialize, E>(result: Result<T, E>) -> Served {
    result.map(|value| accepted(&codec::encode(&value))).map_err(|_| status::NO_GROUP)
}

fn decoded<T: DeserializeOwned>(body: Bytes) -> Result<T, u8> {
    codec::decode(body).map_err(|_| status::BAD)
}

async fn votes(number: u16, core: Arc<Core>, body: Bytes) -> Served {
    let running = core.running().ok_or(status::NO_GROUP)?;
    if number != service::TRANSFER && Instant::now() < running.votes_from {
        return Err(status::NO_GROUP);
    }
    let raft = running.raft;
    match number {
        service::TRANSFER => answer(raft.handle_transfer_leader(decoded(body)?).await),
        service::VOTE => answer(raft.vote(decoded(body)?).await),
        _ => answer(raft.pre_vote(decoded(body)?).await),
    }
}

/// Reaches the group's core when it is first polled; the transport polls in the order of the requests.
///
/// A node without room refuses entries. Its leader continues with the members that have room, and heartbeats are still
/// accepted, so the node neither stands for election nor stops: it catches up once there is room.
async fn append(core: Arc<Core>, body: Bytes, takes_entries: bool, until: Until) -> Served {
    let response = try_append(&core, body, takes_entries, until).await?;
    Ok(accepted(&codec::encode_append_answer(&response)))
}

async fn heartbeat(from: NodeId, core: Arc<Core>, body: Bytes) -> Served {
    let response = try_append(&core, body, true, Until::Taken).await?;
    core.heartbeat_ended(from, !matches!(response, AppendEntriesResponse::Conflict));
    Ok(accepted(&codec::encode_append_answer(&response)))
}

/// What an answer to a leader waits for.
#[derive(Clone, Copy)]
enum Until {
    /// This append and everything given to the log before it is synced to disk.
    Synced,
    /// The core follows the leader, with the vote on disk: this is all that a heartbeat requires.
    Taken,
}

async fn try_append(
    core: &Core,
    body: Bytes,
    takes_entries: bool,
    until: Until,
) -> Result<AppendEntriesResponse<TypeConfig>, u8> {
    let running = core.running().ok_or(status::NO_GROUP)?;
    let request = codec::decode_append(body).map_err(|_| status::BAD)?;
    if !takes_entries && !request.entries.is_empty() {
        telemetry::entries_refused();
        return Err(status::NO_ROOM);
    }
    if !core.judge_leader(&running, &request.vote, request.prev_log_id, &request.entries) {
        return Err(status::NO_GROUP);
    }
    let leader = request.vote.leader_id.voted_for;
    let response = match until {
        // If the log is synced, openraft answers at once by itself.
        Until::Taken if !running.log.is_synced() => taken(&running.raft, request).await,
        Until::Taken | Until::Synced => running.raft.append_entries(request).await.ok(),
    };
    let response = response.ok_or(status::NO_GROUP)?;
    if is_loyal(&response) {
        core.hear_leader(leader);
    }
    Ok(response)
}

/// Answers a heartbeat once the core has processed it; `None` if the core has stopped. openraft answers after all
/// pending log writes: with slow disks on followers, the leader's owner would lose its lease as if partitioned.
async fn taken(raft: &Raft, heartbeat: AppendEntriesRequest<TypeConfig>) -> Option<AppendEntriesResponse<TypeConfig>> {
    let (vote, (said, keeps_to_it)) = (heartbeat.vote, oneshot::channel());
    let mut answered = pin!(raft.append_entries(heartbeat));
    // Runs in the core after the heartbeat: if the core's vote is this leader's then, the node votes for no other.
    let asked = async move {
        let say = move |state: &RaftState<TypeConfig>| {
            // The answer may have arrived first.
            let _ = said.send(*state.vote_ref() == vote);
        };
        raft.external_request(say).await.ok()?;
        keeps_to_it.await.ok()
    };
    let kept = tokio::select! {
        biased;
        response = &mut answered => return response.ok(),
        kept = asked => kept?,
    };
    // A refusal does not wait for log writes.
    if kept { Some(AppendEntriesResponse::Success) } else { answered.await.ok() }
}

async fn state_hash(inner: Arc<Inner>, core: Arc<Core>, body: Bytes) -> Served {
    answer(hash_at(&core, decoded(body)?, &inner.shared.comparisons).await)
}

impl Services {
    async fn begin(self: Arc<Self>, from: NodeId, core: Arc<Core>, body: Bytes) -> Served {
        let running = core.running().ok_or(status::NO_GROUP)?;
        // A leader that was suspended must not replace the transfer of its successor. Earlier releases do not send
        // their vote.
        if codec::decode::<Vote>(body).is_ok_and(|vote| vote.leader_id.term < running.log.term()) {
            return Err(status::BAD);
        }
        let sink = Sink::start(&core.state, core.id);
        let transfer = self.incoming.lock().begin(core.id, from, sink);
        core.runtime().spawn(remove_when_silent(Arc::downgrade(&self), core.id, transfer));
        Ok(accepted(&[]))
    }

    /// Takes the transfer's sink out, so that no lock is held during the write.
    fn take(&self, from: NodeId, group: GroupId, number: u64) -> Result<(u64, Sink), u8> {
        self.incoming.lock().take(group, from, number).ok_or(status::BAD)
    }

    async fn chunk(self: Arc<Self>, from: NodeId, group: GroupId, mut body: Bytes) -> Served {
        let number = body.try_get_u64().map_err(|_| status::BAD)?;
        let (transfer, sink) = self.take(from, group, number)?;
        if let Err(error) = sink.push(body).await {
            tracing::warn!(group, %error, "cannot write a snapshot");
            self.incoming.lock().remove(group, transfer);
            return Err(status::BAD);
        }
        self.incoming.lock().go_on(group, transfer, sink);
        Ok(accepted(&[]))
    }

    async fn end(self: Arc<Self>, from: NodeId, core: Arc<Core>, body: Bytes) -> Served {
        let group = core.id;
        let (number, vote, meta): (u64, Vote, SnapshotMeta) = decoded(body)?;
        let (transfer, sink) = self.take(from, group, number)?;
        self.incoming.lock().remove(group, transfer);
        let running = core.running().ok_or(status::NO_GROUP)?;
        if !core.judge_leader(&running, &vote, meta.last_log_id, &[]) {
            return Err(status::NO_GROUP);
        }
        let received = sink.finish().await.map_err(|error| {
            tracing::warn!(group, %error, "cannot write a snapshot");
            status::BAD
        })?;
        tracing::info!(group, %from, upto = ?meta.last_log_id, "received a snapshot");
        let snapshot = Snapshot { meta, snapshot: SnapshotData::Received(received) };
        answer(running.raft.install_full_snapshot(vote, snapshot).await)
    }
}

/// Watches a transfer until it has ended.
async fn remove_when_silent(services: Weak<Services>, group: GroupId, transfer: u64) {
    let mut had = 0;
    loop {
        tokio::time::sleep(SILENCE).await;
        let Some(services) = services.upgrade() else { return };
        let Some(has) = services.incoming.lock().unless_silent(group, transfer, had) else { return };
        had = has;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_dropped_when_nothing_more_of_it_comes() {
        let mut arrivals = Arrivals::default();
        let transfer = arrivals.begin(3, 1, "files");
        let (taken, sink) = arrivals.take(3, 1, 0).expect("the first part of it");
        arrivals.go_on(3, taken, sink);
        assert_eq!(arrivals.unless_silent(3, transfer, 0), Some(1));
        let next = arrivals.begin(3, 2, "others");
        assert_eq!(arrivals.unless_silent(3, transfer, 1), None, "it has ended");
        assert_eq!(arrivals.take(3, 2, 0), Some((next, "others")), "and the one that followed it goes on");
        assert_eq!(arrivals.unless_silent(3, next, 0), None);
        assert!(arrivals.of.is_empty());
    }

    #[test]
    fn a_part_that_took_long_to_write_is_not_taken_for_one_of_the_transfer_that_began_meanwhile() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(3, 1, "old");
        let (old, sink) = arrivals.take(3, 1, 0).expect("the first part of it");
        assert_eq!(arrivals.take(3, 1, 0), None, "it is being written");
        arrivals.begin(3, 1, "new");
        let (new, fresh) = arrivals.take(3, 1, 0).expect("the first part of the other");
        // Both first parts are being written now; the old transfer's finishes first.
        arrivals.go_on(3, old, sink);
        assert_eq!(arrivals.take(3, 1, 1), None, "its files hold the other's first part");
        arrivals.go_on(3, new, fresh);
        arrivals.remove(3, old);
        assert_eq!(arrivals.take(3, 2, 1), None, "another node's");
        assert_eq!(arrivals.take(3, 1, 1), Some((new, "new")));
    }
}
