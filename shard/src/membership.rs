//! A node's place in its cluster: it forms the directory with its fellows, says who it is, makes the cluster when it is
//! the first to lead, and hosts the shards that the placement gives it.

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

/// How long one update of the directory may take before it is tried again.
const UPDATE_PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks at what is still missing.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Between two looks at the placement, when nothing is heard of it.
const LOOK_AT_PLACES: Duration = Duration::from_secs(1);

/// How many times in a row all nodes that answer must refuse this one before it gives up: one that starts itself may
/// refuse for a moment.
const REFUSALS: u32 = 2;

/// How long the other members leave the first step to the one that should take it.
const AFTER_YOU: Duration = Duration::from_secs(2);

/// What a node is told about its cluster.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    pub cluster_id: Uuid,
    pub shard_count: u16,
    /// The nodes that form the cluster, or, for one that was let in later, those that it finds it by.
    pub first_members: BTreeSet<NodeId>,
    /// Who this node is. `registered_at` is set when it registers.
    pub own: NodeRecord,
    /// The shortest election time-out.
    pub election_min: Duration,
}

/// The node cannot be part of its cluster.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Excluded {
    #[error(transparent)]
    Rejected(Rejection),
    /// No other node speaks with this one.
    #[error("the other nodes refuse this one: {0}")]
    Refused(String),
    /// The node could not open all that the others have sealed.
    #[error("is not the only master key of this cluster's secrets: some are encrypted under {0}")]
    MasterKey(MasterKeyId),
}

/// What a node has to do with a shard.
enum Part {
    Replica,
    /// Nothing, and its group does not reckon with this node.
    Gone,
    /// Not known, or not yet: nothing is opened, and nothing removed.
    Unclear,
}

/// A replica that runs here.
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
    /// Gives the directory's group its first members, if this node is one of them and the group is new.
    ///
    /// All first members may do so: they give the same members, and the group's log begins with them either way. The
    /// one with the lowest id goes first, so that usually there is one candidate.
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
    /// [`Excluded`] when the cluster knows this node with another data folder, or will not speak with it.
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

    /// Makes the cluster, once all first members have registered and this node leads the directory.
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
                // Another leader may have formed the cluster sooner; the next look shows it.
                let _ = self.directory.update(Command::Form { cluster, placement }, Vec::new(), deadline).await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Makes sure that this node opens all that the cluster has sealed, before it leads anything. Waits until the others say
    /// what that is: by what this node heard last, it may lack a key that has gone since.
    ///
    /// # Errors
    /// [`Excluded::MasterKey`] when it does not.
    pub async fn check_master_key(&self) -> Result<(), Excluded> {
        while self.directory.refresh(Instant::now() + UPDATE_PATIENCE).await.is_err() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let lacking = self.directory.read(|state| self.context.secrets.lacking(state));
        lacking.map_or(Ok(()), |master| Err(Excluded::MasterKey(master)))
    }

    /// Hosts what the placement gives to this node, as it changes, until stopped. Returns when all owners have ended.
    pub async fn host_shards(&self) {
        let mut changes = self.directory.changes();
        let mut hosted: HashMap<ShardId, Hosted> = HashMap::new();
        // Shards of others whose remains here, if there were any, are gone.
        let mut cleared: HashSet<ShardId> = HashSet::new();
        loop {
            failpoint::reach(Point::PlacesTurn);
            let shards: Vec<ShardId> = self.directory.read(|state| state.placement.keys().copied().collect());
            for shard in shards {
                // Anew for each: what was to be done for those before it may have taken long.
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
                // What was not clear, or failed, is tried again.
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

    /// What this node has to do with a shard.
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
        // An old copy of the directory may not show that the shard was placed here again.
        if self.directory.is_fresh() { Part::Gone } else { Part::Unclear }
    }

    /// Removes what is left of a shard whose group has taken this node's vote away. False when that has to be looked at again.
    async fn clear(&self, shard: ShardId, hosted: &mut HashMap<ShardId, Hosted>) -> bool {
        let cleared = async {
            // A group that no leader has reached holds nothing, and must not stay open.
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

    /// Whether a shard is placed elsewhere by what the directory says at this moment. It may be placed here again without this
    /// node having heard of it: its group then counts on the log and the vote that would be removed.
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
            // Groups that another node begins are waited for elsewhere, so as not to hold up those that this node
            // begins.
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
