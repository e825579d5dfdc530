//! A node's own status and readiness.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use model::format::Format;
use model::id::ShardId;
use model::status::Status;
use raft::directory::members::NodeState;

use super::Router;
use crate::report::NodeStatus;

/// How long a node warms up after it has taken a shard's leadership, before it should be given the next one.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long a port is reported as crowded after it refused a connection.
const LATELY: Duration = Duration::from_secs(60);

/// Whether this node is ready, as reported by `/readyz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The stores work, and every group of this node runs.
    pub store: bool,
    /// The node is a member of a formed cluster, and its copy of the directory is fresh.
    pub cluster: bool,
    /// Every shard that is placed on this node has a leader.
    pub leases: bool,
    /// Every group that this node leads commits its proposals.
    pub commits: bool,
    pub draining: bool,
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        self.store && self.cluster && self.leases && self.commits && !self.draining
    }
}

impl Router {
    /// The number of channels in each status, in shards that this node owns. Channels without a row are not counted.
    pub(crate) fn channels_by_status(&self) -> BTreeMap<Status, u64> {
        let owners = self.owners.all();
        let count = |status: Status| owners.iter().map(|owner| owner.status_counts.count(status)).sum::<u64>();
        Status::ALL.into_iter().map(|status| (status, count(status))).collect()
    }

    pub(crate) fn own_status(&self) -> NodeStatus {
        let channels = self.channels_by_status();
        NodeStatus {
            version: self.about.release.version.clone(),
            format: Format::LATEST,
            draining: self.is_draining(),
            owns: self.owners.all().iter().map(|owner| owner.shard).collect(),
            sessions: channels.iter().filter(|(status, _)| status.runs()).map(|(_, count)| count).sum(),
            connected: channels.get(&Status::Connected).copied().unwrap_or(0),
            rss_bytes: rss_bytes(),
            started_at: self.started_at,
            work: self.work(),
            ready: self.readiness().is_ready(),
            warming_up: self.is_warming_up(),
            room: self.host.room().stores(),
            large_room: self.host.room().large(),
            least_free: self.host.room().least_free(),
            crowded_ports: self.crowded_ports(),
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        // A node that the directory has yet as joining is not ready: no plan may count on it.
        let (formed, member) = self.directory.read(|state| {
            let own = state.nodes.get(&self.node);
            (state.cluster.is_some(), own.is_some_and(|own| own.state != NodeState::Joining))
        });
        let health = self.host.health();
        Readiness {
            store: health.is_ready(),
            commits: health.stalled.is_empty(),
            cluster: self.directory.is_fresh() && formed && member,
            leases: formed && self.leaderless() == 0,
            draining: self.is_draining(),
        }
    }

    /// The number of shards placed on this node of which it knows no leader.
    pub(crate) fn leaderless(&self) -> usize {
        let led = |shard: ShardId| self.host.group(shard).is_some_and(|group| group.leader().is_some());
        self.directory.read(|state| {
            // A replica that is about to join its group does not affect readiness.
            let here = state.placement.values().filter(|place| place.settled && place.replicas.contains(&self.node));
            here.filter(|place| !led(place.shard)).count()
        })
    }

    fn crowded_ports(&self) -> Vec<String> {
        let crowded = self.about.ports.iter().filter(|port| port.refused_within(LATELY));
        crowded.map(|port| port.name().to_owned()).collect()
    }

    fn work(&self) -> BTreeMap<ShardId, u64> {
        let shards: Vec<ShardId> = self.directory.read(|state| state.placement.keys().copied().collect());
        let work = |shard| Some((shard, self.host.group(shard)?.applied_per_second().round() as u64));
        shards.into_iter().filter_map(work).collect()
    }

    fn is_warming_up(&self) -> bool {
        let owned_since: HashMap<ShardId, Instant> =
            self.owners.all().iter().map(|owner| (owner.shard, owner.since)).collect();
        let shards: Vec<ShardId> = self.directory.read(|state| state.placement.keys().copied().collect());
        let mut led = shards
            .into_iter()
            .filter(|shard| self.host.group(*shard).is_some_and(|group| group.leader() == Some(self.node)));
        // A leadership that has just begun has no owner yet.
        let is_new = |shard| owned_since.get(&shard).is_none_or(|since| since.elapsed() < WARM_UP);
        self.start_limiter.backlog() > WARM_UP || led.any(is_new)
    }
}

/// The resident memory of this process in bytes; 0 if the system does not report it.
pub(crate) fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    resident.map_or(0, |kibibytes: u64| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use model::msgpack;
    use model::time::Timestamp;
    use serde::Serialize;

    use super::*;

    #[test]
    fn an_earlier_release_says_less_and_is_given_leaderships_all_the_same() {
        #[derive(Serialize)]
        struct Earlier {
            version: &'static str,
            draining: bool,
            owns: Vec<ShardId>,
            sessions: u64,
            connected: u64,
            rss_bytes: u64,
            started_at: Timestamp,
        }
        let said = Earlier {
            version: "0.1.0",
            draining: false,
            owns: vec![3],
            sessions: 0,
            connected: 0,
            rss_bytes: 0,
            started_at: Timestamp(0),
        };
        let said = msgpack::to_vec_named(&said).expect("plain fields are written");
        let node_status: NodeStatus = msgpack::from_slice(&said).expect("what it lacks has a default");
        assert!(node_status.ready && !node_status.warming_up && node_status.work.is_empty());
    }
}
