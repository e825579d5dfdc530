//! A node's membership in its cluster: it forms the directory with the other first members, registers itself, makes the
//! cluster if it is the first leader, and hosts the shards that the placement assigns to it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{NodeId, ShardId};
use model::seal::MasterKeyId;
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::command::{Command, Rejection};
use raft::directory::records::{ClusterRecord, NodeRecord, PlacementRecord};
use raft::directory::{Change, Directory, UpdateError};
use raft::failpoint::{self, Point};
use raft::group::Group;
use raft::host::Host;
use raft::supervise;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::layout;
use crate::machine::ShardMachine;
use crate::owner::NodeContext;
use crate::owner::hosting::{Hosting, Owners};
use crate::router::Router;

/// Timeout of one directory update; it is retried after that.
const UPDATE_PATIENCE: Duration = Duration::from_secs(5);

/// Pause between two checks of a condition that is still missing.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Pause between two checks of the placement when no change is signalled.
const LOOK_AT_PLACES: Duration = Duration::from_secs(1);

/// How many times in a row all nodes that answer must refuse this one before it gives up: a starting node may refuse
/// briefly.
const REFUSALS: u32 = 2;

/// How long the other members wait for the one that should take the first step.
const AFTER_YOU: Duration = Duration::from_secs(2);

/// A node's configuration of its cluster.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    pub cluster_id: Uuid,
    pub shard_count: u16,
    /// The nodes that form the cluster; for a node that joined later, the nodes through which it finds the cluster.
    pub first_members: BTreeSet<NodeId>,
    /// This node's record. `registered_at` is set at registration.
    pub own: NodeRecord,
    /// The shortest election timeout.
    pub election_min: Duration,
}

/// The node cannot be part of its cluster.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Excluded {
    #[error(transparent)]
    Rejected(Rejection),
    /// Other nodes refuse this one, and none accepts it.
    #[error("the other nodes refuse this one: {0}")]
    Refused(String),
    /// The node lacks a master key under which the cluster has sealed something.
    #[error("is not the only master key of this cluster's secrets: some are encrypted under {0}")]
    MasterKey(MasterKeyId),
}

/// This node's role in a shard.
enum Part {
    Replica,
    /// None, and the shard's group does not count this node.
    Gone,
    /// Not known yet: nothing is opened and nothing removed.
    Unclear,
}

/// A replica that runs on this node.
struct Hosted {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Hosted {
    async fn end(self) {
        self.stop.cancel();
        // A task that panicked has ended as well.
        let _ = self.task.await;
    }
}

pub struct Membership {
    pub config: MembershipConfig,
    pub host: Arc<Host>,
    pub directory: Arc<Directory>,
    pub context: Arc<NodeContext>,
    pub router: Arc<Router>,
    pub owners: Arc<Owners>,
    pub stop: CancellationToken,
}

impl Membership {
    /// Initializes the directory's group with the first members, if this node is one of them and the group is new.
    ///
    /// All first members may do this: they give the same membership, and the group's log begins with it either way. The
    /// member with the lowest id goes first, so that there is usually one candidate.
    pub async fn form_directory(&self) {
        let members = &self.config.first_members;
        self.form(self.directory.group(), members, members.first() == Some(&self.config.own.id)).await;
    }

    async fn form(&self, group: &Group, members: &BTreeSet<NodeId>, first: bool) {
        if !members.contains(&self.config.own.id) || !group.is_pristine() {
            return;
        }
        if !first {
            tokio::time::sleep(AFTER_YOU).await;
            if !group.is_pristine() {
                return;
            }
        }
        if let Err(error) = group.initialize(members.clone()).await {
            tracing::debug!(group = group.id(), %error, "the group was formed by another");
        }
    }

    /// Registers this node, retrying until the directory answers.
    ///
    /// # Errors
    /// [`Excluded`] when the cluster knows this node with another data folder, or refuses to talk to it.
    pub async fn register(&self) -> Result<(), Excluded> {
        let mut refused = 0;
        loop {
            let own = NodeRecord { registered_at: Timestamp::now(), ..self.config.own.clone() };
            let deadline = Instant::now() + UPDATE_PATIENCE;
            match self.directory.update(Command::RegisterNode(own), Vec::new(), deadline).await {
                Ok(_) => return Ok(()),
                Err(UpdateError::Rejected(rejection)) => return Err(Excluded::Rejected(rejection)),
                Err(UpdateError::Unavailable | UpdateError::TooLarge { .. } | UpdateError::Format { .. }) => {}
            }
            let refusal = self.router.refusal(&self.config.first_members).await;
            refused = if refusal.is_some() { refused + 1 } else { 0 };
            if let Some(reason) = refusal.filter(|_| refused >= REFUSALS) {
                return Err(Excluded::Refused(reason));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Makes the cluster once all first members have registered and this node leads the directory.
    pub async fn make_cluster(&self) {
        loop {
            let (made, nodes) = self
                .directory
                .read(|state| (state.cluster.is_some(), state.nodes.values().cloned().collect::<Vec<_>>()));
            if made {
                return;
            }
            let present: BTreeSet<NodeId> = nodes.iter().map(|node| node.id).collect();
            let complete = self.config.first_members.is_subset(&present);
            if complete && self.directory.group().leader() == Some(self.config.own.id) {
                let present: Vec<NodeId> = present.into_iter().collect();
                let format = match self.router.agree(&present).await {
                    Ok(format) => format,
                    Err(error) => {
                        tracing::info!(%error, "the cluster is not formed yet");
                        tokio::time::sleep(LOOK_AGAIN).await;
                        continue;
                    }
                };
                let nodes: Vec<NodeRecord> = nodes.iter().map(|node| (**node).clone()).collect();
                let cluster = ClusterRecord {
                    cluster_id: self.config.cluster_id,
                    shard_count: self.config.shard_count,
                    slots: ClusterRecord::even_slots(self.config.shard_count),
                    deployment_key: self.context.secrets.new_deployment_key(),
                    formed_at: Timestamp::now(),
                    format,
                    exchange: None,
                    session_key: None,
                    data_keys: None,
                };
                let placement = layout::place(self.config.shard_count, &nodes);
                let deadline = Instant::now() + UPDATE_PATIENCE;
                // Another leader may have formed the cluster first; the next iteration sees it.
                let _ = self.directory.update(Command::Form { cluster, placement }, Vec::new(), deadline).await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Checks that this node can open everything that the cluster has sealed, before it leads anything. The check needs
    /// a fresh copy of the directory: an old one may refer to a key that has been dropped since.
    ///
    /// # Errors
    /// [`Excluded::MasterKey`] when the node lacks a key.
    pub async fn check_master_key(&self) -> Result<(), Excluded> {
        while self.directory.refresh(Instant::now() + UPDATE_PATIENCE).await.is_err() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let lacking = self.directory.read(|state| self.context.secrets.lacking(state));
        lacking.map_or(Ok(()), |master| Err(Excluded::MasterKey(master)))
    }

    /// Hosts the replicas that the placement assigns to this node, until stopped. Returns when all owners have ended.
    pub async fn host_shards(&self) {
        let mut changes = self.directory.changes();
        let mut hosted: HashMap<ShardId, Hosted> = HashMap::new();
        // Shards placed elsewhere, of which this node holds no data any more.
        let mut cleared: HashSet<ShardId> = HashSet::new();
        loop {
            failpoint::reach(Point::PlacesTurn);
            let shards: Vec<ShardId> = self.directory.read(|state| state.placement.keys().copied().collect());
            for shard in shards {
                // The placement is read again for each shard: the work for the shards before it may have taken long.
                let Some(place) = self.place_of(shard) else { continue };
                match self.part_in(&place).await {
                    Part::Replica if !hosted.contains_key(&place.shard) => {
                        let stop = self.stop.child_token();
                        if let Some(hosting) = self.open(&place, stop.clone()).await {
                            let hosting =
                                async move { supervise::restarted("the owner of a shard", || hosting.run()).await };
                            hosted.insert(place.shard, Hosted { stop, task: tokio::spawn(hosting) });
                            cleared.remove(&place.shard);
                        }
                    }
                    Part::Gone if !cleared.contains(&place.shard) => {
                        let is_cleared = self.clear(place.shard, &mut hosted).await;
                        if is_cleared {
                            cleared.insert(place.shard);
                        }
                    }
                    Part::Replica | Part::Gone | Part::Unclear => {}
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => break,
                change = changes.recv() => match change {
                    Ok(Change::Layout | Change::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Ok(_) => continue,
                    Err(broadcast::error::RecvError::Closed) => break,
                },
                // Shards that were unclear or failed are retried.
                () = tokio::time::sleep(LOOK_AT_PLACES) => {}
            }
        }
        for (_, hosted) in hosted {
            hosted.end().await;
        }
    }

    fn place_of(&self, shard: ShardId) -> Option<Arc<PlacementRecord>> {
        self.directory.read(|state| state.placement.get(&shard).cloned())
    }

    /// This node's role in a shard.
    async fn part_in(&self, place: &PlacementRecord) -> Part {
        if place.replicas.contains(&self.config.own.id) {
            return Part::Replica;
        }
        if !place.settled {
            // The shard's group may still need the vote of the replica that was here.
            return match self.host.holds(place.shard).await {
                Ok(true) => Part::Replica,
                Ok(false) => Part::Unclear,
                Err(error) => {
                    tracing::error!(shard = place.shard, %error, "what is left of a shard cannot be read");
                    Part::Unclear
                }
            };
        }
        // A stale copy of the directory may not show that the shard was placed here again.
        if self.directory.is_fresh() { Part::Gone } else { Part::Unclear }
    }

    /// Removes the data of a shard whose group has removed this node from its voters. False if it has to be retried.
    async fn clear(&self, shard: ShardId, hosted: &mut HashMap<ShardId, Hosted>) -> bool {
        let cleared = async {
            // A group that no leader has reached holds no data, but must not stay open.
            let is_open = self.host.group(shard).is_some();
            if is_open || self.host.holds(shard).await.map_err(|error| error.to_string())? {
                if !self.has_left(shard).await {
                    return Ok(false);
                }
                tracing::info!(shard, "the shard has moved away: its replica here is removed");
                if let Some(former) = hosted.remove(&shard) {
                    former.end().await;
                }
                self.host.remove_group(shard).await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(true)
        };
        let cleared = cleared.await;
        cleared
            .inspect_err(|error| tracing::error!(shard, %error, "a former replica cannot be removed"))
            .unwrap_or(false)
    }

    /// Whether a shard is placed elsewhere by a fresh copy of the directory. An old copy may not show that the shard
    /// was placed here again: its group then counts on the log and the vote that would be removed.
    async fn has_left(&self, shard: ShardId) -> bool {
        let hearing = self.directory.refresh(Instant::now() + UPDATE_PATIENCE);
        let is_heard = self.stop.run_until_cancelled(hearing).await.is_some_and(|heard| heard.is_ok());
        is_heard
            && self.place_of(shard).is_some_and(|place| place.settled && !place.replicas.contains(&self.config.own.id))
    }

    async fn open(&self, place: &PlacementRecord, stop: CancellationToken) -> Option<Hosting> {
        let group = match self.host.open_group(place.shard, Box::new(|| Box::new(ShardMachine))).await {
            Ok(group) => group,
            Err(error) => {
                tracing::error!(shard = place.shard, %error, "the shard's replica cannot be opened");
                return None;
            }
        };
        if !place.formed {
            let members = place.replicas.iter().copied().collect();
            let first = place.leader == self.config.own.id;
            // Another node's groups are awaited in tasks of their own, so as not to delay the groups that this node
            // forms.
            if first {
                self.form(&group, &members, true).await;
            } else {
                self.form_later(group.clone(), members);
            }
        }
        Some(Hosting {
            context: self.context.clone(),
            owners: self.owners.clone(),
            shard: place.shard,
            group,
            election_min: self.config.election_min,
            stop,
            ended: Mutex::default(),
            left: Mutex::default(),
        })
    }

    fn form_later(&self, group: Group, members: BTreeSet<NodeId>) {
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let form = async {
                tokio::time::sleep(AFTER_YOU).await;
                if group.is_pristine() {
                    let _ = group.initialize(members).await;
                }
            };
            stop.run_until_cancelled(form).await
        });
    }
}
