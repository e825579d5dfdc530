//! Hosts in one process over real sockets: elections, failover, restarts, membership changes, reads.
#![allow(clippy::unwrap_used, reason = "a test")]

mod backup;
mod bounds;
mod witness;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use model::format::Foreign;
use tempfile::TempDir;

use super::compare::Compared;
use super::*;
use crate::group::{ChangeError, ProposeError};
use crate::machine::{Position, State, View};
use crate::room::tests::NEVER;
use crate::testing::{Authority, peers_config};
use crate::transport::PeersConfig;

/// Keeps the last value of `key=value` commands, and a list of all commands. The command `panic` panics once.
struct Toy {
    count: u64,
    panic: Arc<AtomicBool>,
}

impl Machine for Toy {
    fn restore(&mut self, state: &dyn View) {
        self.count = state.scan(b"list/", b"list0", usize::MAX).len() as u64;
    }

    fn apply(&mut self, _at: Position, command: &[u8], state: &mut dyn State) -> Result<Bytes, Foreign> {
        if command == b"panic" && self.panic.swap(false, Ordering::SeqCst) {
            panic!("asked to");
        }
        let mut key = b"list/".to_vec();
        key.extend_from_slice(&self.count.to_be_bytes());
        state.put(&key, command);
        if let Some(at) = command.iter().position(|byte| *byte == b'=') {
            let mut key = b"key/".to_vec();
            key.extend_from_slice(&command[..at]);
            state.put(&key, &command[at + 1..]);
        }
        self.count += 1;
        Ok(Bytes::copy_from_slice(&self.count.to_be_bytes()))
    }
}

type Addresses = Arc<Mutex<HashMap<NodeId, String>>>;

impl Host {
    /// Compares the replicas of a group that this node leads.
    async fn compare(&self, id: GroupId) -> Compared {
        let core = self.inner.core(id).expect("the group is open");
        super::compare::compare(&core, &self.inner.shared.comparisons).await
    }
}

struct Node {
    peers: Arc<Peers>,
    host: Host,
    group: Group,
    panic: Arc<AtomicBool>,
}

struct Cluster {
    group: GroupId,
    authority: Authority,
    addresses: Addresses,
    folders: HashMap<NodeId, TempDir>,
    limits: LogLimits,
    timing: Timing,
    nodes: HashMap<NodeId, Node>,
}

const GROUP: GroupId = 3;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = soon();
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Cluster {
    async fn start(nodes: &[NodeId], limits: LogLimits) -> Self {
        Self::start_group(GROUP, Timing::LAN, nodes, limits).await
    }

    /// Nodes that keep their leader while it writes entries that take seconds on a busy machine.
    async fn with_large_entries() -> Self {
        Self::start_group(GROUP, Timing::WAN, &[1, 2, 3], LogLimits::default()).await
    }

    async fn start_group(group: GroupId, timing: Timing, nodes: &[NodeId], limits: LogLimits) -> Self {
        let mut cluster = Self {
            group,
            authority: Authority::new(),
            addresses: Addresses::default(),
            folders: HashMap::new(),
            limits,
            timing,
            nodes: HashMap::new(),
        };
        for node in nodes {
            cluster.run(*node).await;
        }
        cluster.node(nodes[0]).group.initialize(nodes.iter().copied().collect()).await.unwrap();
        cluster
    }

    async fn peers(&self, id: NodeId) -> Arc<Peers> {
        let known = self.addresses.clone();
        let config = PeersConfig {
            lookup: Arc::new(move |node| known.lock().get(&node).cloned()),
            ..peers_config(&self.authority, id)
        };
        let peers = Peers::start(config).await.unwrap();
        self.addresses.lock().insert(id, peers.local_addr().to_string());
        peers
    }

    async fn run(&mut self, id: NodeId) {
        let peers = self.peers(id).await;
        let folder = self.folders.entry(id).or_insert_with(|| tempfile::tempdir().unwrap());
        let host = start_host(folder.path(), &peers, self.limits, self.timing).await.unwrap();
        let panic = Arc::new(AtomicBool::new(false));
        let armed = panic.clone();
        let factory: Factory = Box::new(move || Box::new(Toy { count: 0, panic: armed.clone() }));
        let group = host.open_group(self.group, factory).await.unwrap();
        self.nodes.insert(id, Node { peers, host, group, panic });
    }

    /// Stops a node: its network first, as when the process is killed.
    async fn stop(&mut self, id: NodeId) {
        let node = self.nodes.remove(&id).unwrap();
        node.peers.shutdown().await;
        node.host.shutdown().await;
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    fn group(&self, id: NodeId) -> &Group {
        &self.node(id).group
    }

    /// The node that reports itself as the leader, and is ready.
    async fn leader(&self) -> NodeId {
        let deadline = soon();
        loop {
            let ready = |node: &&NodeId| self.group(**node).leadership().borrow().ready_epoch.is_some();
            let mut leaders: Vec<_> = self.nodes.keys().filter(ready).copied().collect();
            leaders.sort_by_key(|node| self.group(*node).leadership().borrow().ready_epoch);
            if let Some(leader) = leaders.pop() {
                return leader;
            }
            assert!(Instant::now() < deadline, "no leader");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Proposes through the current leader until the command is answered.
    async fn put(&self, key: &str, value: &str) {
        let command = Bytes::from(format!("{key}={value}"));
        let deadline = soon();
        loop {
            let leader = self.leader().await;
            match self.group(leader).propose(command.clone(), deadline).await {
                Ok(_) => return,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn get(&self, node: NodeId, key: &str) -> Option<String> {
        self.group(node).linearizable(soon()).await.unwrap();
        let value = self.group(node).reader().get(format!("key/{key}").as_bytes());
        value.map(|value| String::from_utf8(value).unwrap())
    }

    /// Waits until a node's log begins after an index: earlier entries were purged, or never received.
    async fn log_starts_behind(&self, node: NodeId, index: u64) {
        let deadline = soon();
        while self.group(node).first_index() <= index {
            assert!(Instant::now() < deadline, "the log still begins at {}", self.group(node).first_index());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the leader reports exactly these nodes as caught up.
    async fn caught_up(&self, nodes: &[NodeId]) {
        let (deadline, wanted) = (soon(), nodes.iter().copied().collect::<BTreeSet<NodeId>>());
        loop {
            let found = self.group(self.leader().await).caught_up();
            if found == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{found:?} have caught up, and not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn shutdown(mut self) {
        let ids: Vec<_> = self.nodes.keys().copied().collect();
        for id in ids {
            self.stop(id).await;
        }
    }
}

async fn start_host(path: &Path, peers: &Arc<Peers>, limits: LogLimits, timing: Timing) -> Result<Host, StartError> {
    start_host_with(path, peers, limits, timing, Arc::new(|reason| eprintln!("fatal: {reason}"))).await
}

async fn start_host_with(
    path: &Path,
    peers: &Arc<Peers>,
    limits: LogLimits,
    timing: Timing,
    fatal: Fatal,
) -> Result<Host, StartError> {
    let stores = Stores::open(StoresConfig {
        node: peers.node(),
        data_dir: path.to_owned(),
        storage_id: peers.identity().storage_id,
        buffer: USUAL_BUFFER,
        fatal: Some(fatal),
    });
    let config = HostConfig {
        stores: stores.await?,
        timing,
        log: limits,
        snapshot_bytes_per_second: 64 << 20,
        room: NEVER,
        media_dir: path.to_owned(),
        peers: peers.clone(),
    };
    Host::start(config).await
}

fn small() -> LogLimits {
    LogLimits { keep_entries: 20, snapshot_every: 50, max_bytes: 1 << 20 }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_alone_leads_answers_and_keeps_its_state_over_a_restart() {
    let mut cluster = Cluster::start(&[1], LogLimits::default()).await;
    cluster.put("a", "1").await;
    assert_eq!(cluster.get(1, "a").await.as_deref(), Some("1"));
    let epoch = cluster.group(1).leadership().borrow().ready_epoch.unwrap();
    assert!(cluster.group(1).quorum_contact(epoch).unwrap().elapsed() < Duration::from_secs(1));
    assert_eq!(cluster.group(1).quorum_contact(epoch - 1), None, "it says nothing of another epoch");
    cluster.stop(1).await;
    cluster.run(1).await;
    cluster.leader().await;
    assert_eq!(cluster.get(1, "a").await.as_deref(), Some("1"));
    let later = cluster.group(1).leadership().borrow().ready_epoch.unwrap();
    assert!(later > epoch, "a restarted leader has a new epoch: {epoch}, {later}");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_stand_in_the_log_in_the_order_in_which_they_were_submitted() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    let leader = cluster.leader().await;
    let group = cluster.group(leader);
    let pending: Vec<_> = (0..2000).map(|number| group.submit(Bytes::from(format!("n={number}"))).unwrap()).collect();
    for (number, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.await.unwrap(), (number as u64 + 1).to_be_bytes().as_slice());
    }
    for id in [1, 2, 3] {
        assert_eq!(cluster.get(id, "n").await.as_deref(), Some("1999"));
    }
    let follower = if leader == 1 { 2 } else { 1 };
    let refused = cluster.group(follower).propose(Bytes::from_static(b"x=y"), soon()).await;
    assert_eq!(refused, Err(ProposeError::NotLeader { leader: Some(leader) }));
    let hashes = [1, 2, 3].map(|id| cluster.group(id).clone());
    let mut all = BTreeSet::new();
    for group in hashes {
        all.insert(group.state_hash(soon()).await.unwrap());
    }
    assert_eq!(all.len(), 1, "{all:?}");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced_and_catches_up_when_it_returns() {
    let mut cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let old = cluster.leader().await;
    let epoch = cluster.group(old).leadership().borrow().ready_epoch.unwrap();
    cluster.stop(old).await;
    let started = Instant::now();
    let new = cluster.leader().await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(cluster.group(new).leadership().borrow().ready_epoch.unwrap() > epoch);
    cluster.put("b", "2").await;
    cluster.run(old).await;
    assert_eq!(cluster.get(old, "a").await.as_deref(), Some("1"));
    assert_eq!(cluster.get(old, "b").await.as_deref(), Some("2"));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_moves_on_request_and_reads_work_everywhere() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let old = cluster.leader().await;
    let to = if old == 3 { 1 } else { 3 };
    cluster.group(old).transfer_leader(to, soon()).await.unwrap();
    assert_eq!(cluster.group(old).leader(), Some(to));
    cluster.put("a", "2").await;
    for id in [1, 2, 3] {
        assert_eq!(cluster.get(id, "a").await.as_deref(), Some("2"));
    }
    let leader = cluster.leader().await;
    let epoch = cluster.group(leader).leadership().borrow().ready_epoch.unwrap();
    let contact = cluster.group(leader).quorum_contact(epoch).unwrap();
    assert!(contact.elapsed() < Duration::from_secs(1), "{:?}", contact.elapsed());
    let group = cluster.group(leader).clone();
    let burst: Vec<_> = (0..100)
        .map(|_| {
            let group = group.clone();
            tokio::spawn(async move { group.read_index(soon()).await })
        })
        .collect();
    for read in burst {
        read.await.unwrap().unwrap();
    }
    let follower = if leader == 1 { 2 } else { 1 };
    let refused = cluster.group(follower).transfer_leader(3, Instant::now()).await;
    assert!(matches!(refused, Err(ChangeError::NotLeader { .. } | ChangeError::TimedOut)) || leader == 3);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_confirmed_by_followers_whose_disks_stand_still() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let leader = cluster.leader().await;
    let group = cluster.group(leader);
    let followers: Vec<_> = [1, 2, 3].into_iter().filter(|node| *node != leader).collect();
    let disks: Vec<_> = followers.iter().map(|node| cluster.node(*node).host.inner.shared.logs.stand_still()).collect();
    let waits = group.submit(Bytes::from_static(b"b=2")).unwrap();
    until("the followers have the entry", || {
        followers.iter().all(|node| cluster.group(*node).last_index() == group.last_index())
    })
    .await;
    group.read_index(soon()).await.unwrap();
    drop(disks);
    tokio::time::timeout_at(soon().into(), waits).await.unwrap().unwrap();
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_join_and_leave() {
    let mut cluster = Cluster::start(&[1], LogLimits::default()).await;
    cluster.put("a", "1").await;
    for id in [2, 3] {
        cluster.run(id).await;
        assert!(cluster.group(id).is_pristine());
        cluster.group(1).add_learner(id, soon()).await.unwrap();
        assert_eq!(cluster.group(id).known_leader(), None, "it does not vote");
    }
    cluster.group(1).change_members(BTreeSet::from([1, 2, 3]), false, soon()).await.unwrap();
    assert_eq!(cluster.get(3, "a").await.as_deref(), Some("1"));
    until("a voter knows who leads", || cluster.group(3).known_leader().flatten().is_some()).await;
    assert_eq!(cluster.group(1).members().voters, BTreeSet::from([1, 2, 3]));
    let leader = cluster.leader().await;
    if leader == 1 {
        cluster.group(1).transfer_leader(2, soon()).await.unwrap();
    }
    let leader = cluster.leader().await;
    cluster.group(leader).change_members(BTreeSet::from([2, 3]), false, soon()).await.unwrap();
    cluster.put("b", "2").await;
    cluster.node(1).host.remove_group(GROUP).await.unwrap();
    assert_eq!(cluster.node(1).group.propose(Bytes::new(), soon()).await, Err(ProposeError::Stopped));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_removal_was_cut_off_can_be_put_there_again() {
    let mut cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    for value in ["1", "2", "3"] {
        cluster.put("a", value).await;
    }
    let leader = cluster.leader().await;
    let (gone, rest) = if leader == 3 { (1, [2, 3]) } else { (3, [1, 2]) };
    assert_eq!(cluster.get(gone, "a").await.as_deref(), Some("3"));
    cluster.group(leader).change_members(BTreeSet::from(rest), false, soon()).await.unwrap();
    // The node stops after its log is erased and before its state is.
    let host = &cluster.node(gone).host;
    host.close(GROUP).await;
    host.inner.shared.writer.written(|done| Write::Erase { group: GROUP, done }).await.unwrap();
    cluster.stop(gone).await;
    cluster.run(gone).await;
    assert!(cluster.group(gone).is_pristine() && cluster.group(gone).reader().get(b"key/a").is_none());
    let leader = cluster.leader().await;
    cluster.group(leader).add_learner(gone, soon()).await.unwrap();
    cluster.group(leader).change_members(BTreeSet::from([1, 2, 3]), false, soon()).await.unwrap();
    assert_eq!(cluster.get(gone, "a").await.as_deref(), Some("3"));
    // Data that it has received since then stays.
    cluster.stop(gone).await;
    cluster.run(gone).await;
    assert!(!cluster.group(gone).is_pristine() && cluster.group(gone).reader().get(b"key/a").is_some());
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_away_has_not_caught_up_though_it_lacks_nothing() {
    let mut cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    cluster.caught_up(&[1, 2, 3]).await;
    let (away, rest) = if cluster.leader().await == 1 { (2, [1, 3]) } else { (1, [2, 3]) };
    cluster.stop(away).await;
    cluster.caught_up(&rest).await;
    cluster.run(away).await;
    cluster.caught_up(&[1, 2, 3]).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_machine_panics_is_built_again_under_the_same_handle() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let leader = cluster.leader().await;
    cluster.node(leader).panic.store(true, Ordering::SeqCst);
    let lost = cluster.group(leader).propose(Bytes::from_static(b"panic"), soon()).await;
    assert_eq!(lost, Err(ProposeError::Unknown));
    assert_eq!(cluster.get(leader, "a").await.as_deref(), Some("1"));
    cluster.put("a", "2").await;
    assert_eq!(cluster.get(leader, "a").await.as_deref(), Some("2"));
    let deadline = soon();
    while !cluster.node(leader).host.health().is_ready() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_in_use_is_refused_by_name() {
    let cluster = Cluster::start(&[1], LogLimits::default()).await;
    let path = cluster.folders[&1].path();
    let error =
        start_host(path, &cluster.node(1).peers, LogLimits::default(), Timing::LAN).await.err().unwrap().to_string();
    assert!(error.contains(&path.display().to_string()) && error.contains("another process"), "{error}");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_nodes_that_come_and_go_and_replicas_stay_equal() {
    let mut cluster = Cluster::start(&[1, 2, 3], small()).await;
    let mut answered = Vec::new();
    for round in 0..9_u64 {
        // Every third round the leader stops; a node that returns is mostly too far behind for the log.
        let leader = cluster.leader().await;
        let victim = if round % 3 == 0 { leader } else { leader % 3 + 1 };
        cluster.stop(victim).await;
        let pending: Vec<_> = {
            let group = cluster.group(cluster.leader().await).clone();
            (0..300)
                .filter_map(|number| {
                    let command = format!("{round}-{number}={round}");
                    group.submit(Bytes::from(command.clone())).ok().map(|pending| (command, pending))
                })
                .collect()
        };
        for (command, pending) in pending {
            // There is a quorum, so every command gets an answer, even if only that its outcome is unknown.
            let answer = tokio::time::timeout_at(soon().into(), pending).await.unwrap();
            if answer.is_ok() {
                answered.push(command);
            }
        }
        cluster.run(victim).await;
    }
    assert!(answered.len() > 1000, "{}", answered.len());
    let mut hashes = BTreeSet::new();
    for id in [1, 2, 3] {
        let group = cluster.group(id);
        group.linearizable(soon()).await.unwrap();
        let reader = group.reader();
        for command in &answered {
            let (key, value) = command.split_once('=').unwrap();
            let found = reader.get(format!("key/{key}").as_bytes());
            assert_eq!(found.as_deref(), Some(value.as_bytes()), "node {id}, {command}");
        }
        // The other nodes may be an entry behind for a moment; equal positions have equal hashes.
        group.wait_applied(cluster.group(1).applied(), soon()).await.unwrap();
        hashes.insert(group.state_hash(soon()).await.unwrap().1);
    }
    assert_eq!(hashes.len(), 1);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_with_another_state_are_found_also_while_commands_come() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let leader = cluster.leader().await;
    let victim = leader % 3 + 1;
    let deadline = soon();
    for (busy, damaged) in [(false, false), (true, false), (true, true), (false, true)] {
        if damaged {
            let disk = cluster.group(victim).core.state.clone();
            let mut batch = rocksdb::WriteBatch::default();
            batch.put_cf(disk.state(), crate::state::disk::state_key(GROUP, b"key/a"), b"2");
            disk.write(GROUP, batch).unwrap();
        }
        let expected = if damaged { Compared::Differ([victim].into()) } else { Compared::Equal };
        // A replica that lags for a moment is not at the same index, which decides nothing.
        let mut found = Compared::Undecided;
        while found == Compared::Undecided {
            assert!(Instant::now() < deadline, "no replica was at the index of its leader");
            let comparing = cluster.node(leader).host.compare(GROUP);
            let writing = async {
                if !busy {
                    return std::future::pending::<Compared>().await;
                }
                loop {
                    let _ = cluster.group(leader).propose(Bytes::from_static(b"n=1"), soon()).await;
                }
            };
            found = tokio::select! {
                found = comparing => found,
                found = writing => found,
            };
        }
        assert_eq!(found, expected, "busy: {busy}, damaged: {damaged}");
        let report = cluster.node(leader).host.report().await;
        assert_eq!(report.groups[0].differing.contains(&victim), damaged);
    }
    cluster.shutdown().await;
}
