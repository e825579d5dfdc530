//! `GET /v1/admin/check`: what is wrong or soon will be, what to do about it, and whether a node can be lost now.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use model::id::{NodeId, ShardId};
use model::target::TargetPolicy;
use model::time::Timestamp;
use raft::room::Level as Room;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shard::assessment::{GroupState, named};
use shard::report::unlike;
use shard::router::NodeStatus;

use super::survey::ClusterView;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, Route};

/// A median sync time from which a disk delays every send.
const SLOW_SYNC: Duration = Duration::from_millis(50);
/// A 99th percentile of the sync time that warns of such a disk.
const SLOW_SYNC_SOMETIMES: Duration = Duration::from_millis(100);

/// Clocks that differ this much put inconsistent times into events and audit entries.
const CLOCK_WARNING: Duration = Duration::from_millis(500);
/// Clocks that differ this much make tokens and links expire at the wrong time.
const CLOCK_FAILING: Duration = Duration::from_secs(5);

/// Warn when this part of a node's session slots is in use, in percent.
const SLOTS_WARNING: u64 = 90;

/// Warn when a certificate expires within this time.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// With fewer nodes, no cluster survives the loss of one.
const ENOUGH_NODES: usize = 3;

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/check", show)
            .doc("check_cluster", "Check the cluster for problems, and whether it can lose a node now")
            .ok::<CheckView>(),
    ]
}

/// Condition of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Operational,
    /// Everything works, but a check is `failing`.
    Degraded,
    /// Some channels cannot be served, or no node accepts requests.
    Outage,
}

model::words! {
    #[derive(Default, PartialOrd, Ord, JsonSchema)]
    Level {
        #[default]
        Ok = "ok",
        /// Worth knowing; nothing is at risk now.
        Warning = "warning",
        Failing = "failing",
    }
}

/// A result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name of the check.
    #[schemars(extend("enum" = CHECKS))]
    pub check: Cow<'static, str>,
    /// Severity; with `warning`, nothing is at risk now.
    pub level: Level,
    /// Node that the finding is about; `null` if it is about the cluster.
    pub node_id: Option<NodeId>,
    pub message: String,
    /// What to do; `null` when there is nothing to do.
    pub remedy: Option<Cow<'static, str>>,
}

type Judge = fn(&ClusterView, &TargetPolicy) -> Vec<Finding>;

/// The checks: name, function, and the message when nothing is wrong.
const TABLE: [(&str, Judge, &str); 14] = [
    ("nodes", |view, _| nodes(view), "all nodes answer: {nodes}"),
    ("shards", |view, _| shards(view), "every shard has a leader, and all its replicas keep up"),
    ("replicas", |view, _| replicas(view), "no replicas were found to differ"),
    ("lose_a_node", |view, _| lose_a_node(view), "any one node can be lost now"),
    ("leads", |view, _| leads(view), "every shard is led by the node that should lead it"),
    ("tasks", |view, _| tasks(view), "no task of a node has panicked within the last hour"),
    ("fsync", |view, _| fsync(view), "every disk syncs fast enough"),
    ("clock", |view, _| clock(view), "the clocks agree"),
    ("disk", |view, _| disk(view), "there is free space on every disk"),
    ("slots", |view, _| slots(view), "every node can take more sessions"),
    ("connections", |view, _| connections(view), "no port has refused a connection lately"),
    ("certificates", |view, _| certificates(view, Timestamp::now()), "no certificate expires soon"),
    ("secrets", |view, _| secrets(view), "everything is encrypted under one master key, which every node has"),
    (
        "configuration",
        |view, policy| alike(view).into_iter().chain(configuration(policy)).collect(),
        "the nodes' configurations agree where they have to, and nothing is allowed that is unsafe in production",
    ),
];

pub const CHECKS: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TABLE[at].0;
        at += 1;
    }
    names
};

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterCheck")]
pub struct CheckView {
    pub status: Condition,
    /// Whether any one node can be lost now without an outage; always `false` with fewer than three nodes.
    pub can_lose_a_node: bool,
    /// Findings, at least one for each check.
    pub checks: Vec<Finding>,
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let view = ClusterView::of(call.cluster()).await;
    let checks = findings(&view, &call.app.config.target_policy);
    let status = condition(&view, &checks);
    Ok(Reply::ok(&CheckView { status, can_lose_a_node: at_risk(&view).is_empty(), checks }))
}

/// The condition of the cluster, by the findings.
pub fn condition(view: &ClusterView, findings: &[Finding]) -> Condition {
    if !view.groups_in(GroupState::NoLeader).is_empty() || view.in_service().next().is_none() {
        Condition::Outage
    } else if findings.iter().any(|finding| finding.level == Level::Failing) {
        Condition::Degraded
    } else {
        Condition::Operational
    }
}

/// Runs all checks. Each gives at least one finding, even if nothing is wrong.
pub fn findings(view: &ClusterView, policy: &TargetPolicy) -> Vec<Finding> {
    let mut found = Vec::new();
    for (check, judge, well) in TABLE {
        let made = judge(view, policy);
        if made.is_empty() {
            let message = well.replace("{nodes}", &view.survey.len().to_string());
            found.push(Finding { check: check.into(), level: Level::Ok, node_id: None, message, remedy: None });
        }
        found.extend(made.into_iter().map(|made| Finding { check: check.into(), ..made }));
    }
    found
}

impl Finding {
    pub fn is_ok(&self) -> bool {
        self.level == Level::Ok
    }

    /// A finding without the name of its check, which [`findings`] fills in.
    fn of_cluster(level: Level, message: String, remedy: &'static str) -> Self {
        Self { check: "".into(), level, node_id: None, message, remedy: Some(remedy.into()) }
    }

    fn of_node(node: NodeId, level: Level, message: String, remedy: &'static str) -> Self {
        Self { node_id: Some(node), ..Self::of_cluster(level, message, remedy) }
    }
}

/// The level of something that fails, or is near to failing; `None` if neither.
fn level(fails: bool, is_near: bool) -> Option<Level> {
    if fails { Some(Level::Failing) } else { is_near.then_some(Level::Warning) }
}

fn nodes(view: &ClusterView) -> Vec<Finding> {
    let silent = view.survey.iter().filter_map(|(node, heard)| {
        let reason = heard.as_ref().err()?;
        let remedy = "check its process, its log, and the network to its peer port";
        Some(Finding::of_node(*node, Level::Failing, format!("node {node} does not answer: {reason}"), remedy))
    });
    let nobody_is_ready = view.in_service().next().is_none().then(|| {
        let message = "every node that answers is drained: load balancers find no node to send requests to".to_owned();
        Finding::of_cluster(Level::Failing, message, "run gateway undrain for a node that is to serve")
    });
    let draining = view.heard().filter(|(_, heard)| heard.report.status.draining).map(|(node, _)| {
        let message = format!("node {node} is drained: it transfers its shards and accepts no more");
        Finding { remedy: None, ..Finding::of_node(node, Level::Warning, message, "") }
    });
    let stale = view.heard().filter(|(_, heard)| !heard.report.directory_is_fresh).map(|(node, _)| {
        let message =
            format!("node {node} does not know whether its copy of the directory is up to date, and refuses requests");
        Finding::of_node(node, Level::Failing, message, "check that it reaches the other nodes")
    });
    let mut versions: Vec<&str> = view.heard().map(|(_, heard)| heard.report.status.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mixed = (versions.len() > 1).then(|| {
        let message = format!("the nodes run several releases: {}", versions.join(", "));
        Finding::of_cluster(Level::Warning, message, "complete the upgrade")
    });
    silent.chain(nobody_is_ready).chain(draining).chain(stale).chain(mixed).chain(format(view)).collect()
}

/// Warns when every node understands a higher format than the cluster has.
fn format(view: &ClusterView) -> Option<Finding> {
    let understood: Option<Vec<_>> =
        view.survey.values().map(|heard| heard.as_ref().ok().map(|heard| heard.report.status.format)).collect();
    let highest = understood?.into_iter().min().filter(|highest| *highest > view.format)?;
    let message =
        format!("the cluster has format {}, and every node understands {highest}, which is not used yet", view.format);
    Some(Finding::of_cluster(
        Level::Warning,
        message,
        "run gateway format raise, once no node has to go back to its former release",
    ))
}

fn shards(view: &ClusterView) -> Vec<Finding> {
    let of = |state: GroupState, level: Level, problem: &str, remedy: &'static str| {
        let groups = view.groups_in(state);
        (!groups.is_empty()).then(|| Finding::of_cluster(level, format!("{} {problem}", named(&groups)), remedy))
    };
    let leaderless = of(
        GroupState::NoLeader,
        Level::Failing,
        "without a leader: channels there are not served",
        "start the nodes that do not answer",
    );
    let short = of(
        GroupState::Degraded,
        Level::Failing,
        "with replicas that do not answer, are behind or stopped",
        "start the nodes that do not answer; a replica that is behind catches up by itself; if one stopped (gateway \
         shards), the log of its node says why",
    );
    let stalled = view.heard().filter_map(|(node, heard)| {
        let groups = heard.report.host.groups.iter().filter(|group| group.stalled).map(|group| group.id);
        let groups: Vec<ShardId> = groups.collect();
        let message = format!("node {node} leads {} and commits nothing there", named(&groups));
        let remedy =
            "nothing at first: it steps down; if this continues, see the logs and disks of that node and of the \
             followers";
        (!groups.is_empty()).then(|| Finding::of_node(node, Level::Failing, message, remedy))
    });
    leaderless.into_iter().chain(short).chain(stalled).collect()
}

/// Groups whose leaders have found replicas that differ.
fn replicas(view: &ClusterView) -> Vec<Finding> {
    let remedy = "find the nodes whose data is wrong, keep a copy of their data folders, remove them from the cluster, and let \
                  them join again with empty data folders";
    let differing = view.heard().flat_map(|(leader, heard)| {
        heard.report.host.groups.iter().filter(|group| !group.differing.is_empty()).map(move |group| {
            let nodes: Vec<String> = group.differing.iter().map(ToString::to_string).collect();
            let message = format!(
                "{} is not the same at node {leader}, which leads it, and at node {}: one of them has lost data, or \
                 has data that the other does not have",
                named(&[group.id]),
                nodes.join(", ")
            );
            Finding::of_cluster(Level::Failing, message, remedy)
        })
    });
    differing.collect()
}

/// The nodes that cannot be lost now, each with the groups that would stop.
fn at_risk(view: &ClusterView) -> Vec<(NodeId, Vec<ShardId>)> {
    let would_stop = |node: NodeId| -> Vec<ShardId> {
        view.groups.iter().filter(|group| !group.survives_without(node)).map(|group| group.id).collect()
    };
    view.heard().map(|(node, _)| (node, would_stop(node))).filter(|(_, groups)| !groups.is_empty()).collect()
}

fn lose_a_node(view: &ClusterView) -> Vec<Finding> {
    let few = view.survey.len() < ENOUGH_NODES;
    let (level, remedy) = match few {
        // Only a warning, as two nodes can never lose one; check `can_lose_a_node` before a node is stopped.
        true => (Level::Warning, "grow the cluster to three nodes; until then stopping a node is an outage"),
        false => (Level::Failing, "stop no node until this is resolved"),
    };
    let said = at_risk(view).into_iter().map(|(node, groups)| {
        Finding::of_node(node, level, format!("losing node {node} now would stop {}", named(&groups)), remedy)
    });
    said.collect()
}

fn leads(view: &ClusterView) -> Vec<Finding> {
    let elsewhere: Vec<ShardId> =
        view.groups.iter().filter(|group| group.is_led_elsewhere()).map(|group| group.id).collect();
    if elsewhere.is_empty() {
        return Vec::new();
    }
    let message = format!("{} led by a node other than the intended one", named(&elsewhere));
    let remedy = "nothing: leadership returns by itself once the intended node has caught up";
    vec![Finding::of_cluster(Level::Warning, message, remedy)]
}

/// Tasks that panicked. They were restarted, but the cause may still be there.
fn tasks(view: &ClusterView) -> Vec<Finding> {
    let remedy =
        "report what its log says about it and right before it; if it continues, the work of that task is not done";
    let judged = view.heard().flat_map(|(node, heard)| {
        heard.report.host.panics.iter().map(move |(task, count)| {
            let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
            Finding::of_node(node, Level::Warning, format!("node {node}: {task} panicked {times} recently"), remedy)
        })
    });
    judged.collect()
}

fn fsync(view: &ClusterView) -> Vec<Finding> {
    let remedy = "give the data folder a faster disk of its own";
    let judged = view.heard().filter_map(|(node, heard)| {
        let Some(syncs) = heard.report.host.syncs else {
            let message = format!("node {node} cannot write to its data folder");
            return Some(Finding::of_node(node, Level::Failing, message, "see its log and its disk"));
        };
        let level = level(syncs.p50 > SLOW_SYNC, syncs.p99 > SLOW_SYNC_SOMETIMES)?;
        let message = format!(
            "node {node}: a sync takes {:.1?} at the median, {:.1?} at the 99th percentile",
            syncs.p50, syncs.p99
        );
        Some(Finding::of_node(node, level, message, remedy))
    });
    judged.collect()
}

fn clock(view: &ClusterView) -> Vec<Finding> {
    let judged = view.heard().filter_map(|(node, heard)| {
        let off = heard.clock_off_by();
        let level = level(off > CLOCK_FAILING, off > CLOCK_WARNING)?;
        let way = if heard.clock_ahead > 0 { "ahead" } else { "behind" };
        let message = format!("the clock of node {node} is {off:.1?} {way} of that of the node that answers");
        Some(Finding::of_node(node, level, message, "run a time service such as chrony on every node"))
    });
    judged.collect()
}

fn disk(view: &ClusterView) -> Vec<Finding> {
    let judged = view.heard().filter_map(|(node, heard)| {
        let NodeStatus { room, large_room, least_free, .. } = &heard.report.status;
        let (level, so) = match (room, large_room.max(room)) {
            (Room::Full, _) => (Level::Failing, "it refuses sends, and inbound messages wait"),
            (_, Room::Low | Room::Full) => (Level::Warning, "it refuses media and large bodies"),
            _ => return None,
        };
        let message = format!("node {node} has {} MiB left on a disk: {so}", least_free >> 20);
        let remedy = "free some space: a shorter history.retention_days deletes stored messages, and a shorter \
                      media.retention_days applies to media that arrives later; the node recovers by itself";
        Some(Finding::of_node(node, level, message, remedy))
    });
    judged.collect()
}

fn slots(view: &ClusterView) -> Vec<Finding> {
    let judged = view.heard().filter_map(|(node, heard)| {
        let (used, slots) = (heard.report.status.sessions, u64::from(*view.slots.get(&node)?));
        let message = format!("node {node} holds {used} of at most {slots} sessions");
        let remedy = "add a node, or raise node.max_channels if its memory allows";
        (used * 100 > slots * SLOTS_WARNING).then(|| Finding::of_node(node, Level::Warning, message, remedy))
    });
    judged.collect()
}

fn connections(view: &ClusterView) -> Vec<Finding> {
    let judged = view.heard().flat_map(|(node, heard)| {
        heard.report.status.crowded_ports.iter().map(move |port| {
            let message =
                format!("node {node} refused a connection to its {port} port within the last minute");
            let remedy = "see who opens them; raise connections.most and the limit of open files to four times that, or \
                          connections.most_per_address for one client";
            Finding::of_node(node, Level::Warning, message, remedy)
        })
    });
    judged.collect()
}

fn certificates(view: &ClusterView, now: Timestamp) -> Vec<Finding> {
    let judged = view.heard().flat_map(|(node, heard)| {
        heard.report.certificates.iter().filter_map(move |certificate| {
            let (level, how) = if certificate.expires_at <= now {
                (Level::Failing, "has expired")
            } else if certificate.expires_at < now.plus(EXPIRES_SOON) {
                (Level::Warning, "expires soon")
            } else {
                return None;
            };
            let message = format!("{} of node {node} {how}: {}", certificate.key, certificate.expires_at);
            let remedy = match certificate.key.starts_with("peer.") {
                true => "if the cluster has its authority's key, the node renews it by itself, and its log says why it did not; \
                         otherwise have the authority sign another one",
                false => "renew it: new files are loaded within seconds",
            };
            Some(Finding::of_node(node, level, message, remedy))
        })
    });
    judged.collect()
}

fn secrets(view: &ClusterView) -> Vec<Finding> {
    let lacks = view.heard().filter_map(|(node, heard)| {
        let lacking = view.sealed_under.keys().find(|master| !heard.report.master_keys.contains(master))?;
        let message = format!("node {node} does not have the master key {lacking}, under which something is encrypted");
        let remedy = "name it in secrets.master_key_file, or in secrets.previous_master_key_file";
        // Earlier releases do not report their keys.
        (!heard.report.master_keys.is_empty()).then(|| Finding::of_node(node, Level::Failing, message, remedy))
    });
    let several = (view.sealed_under.len() > 1).then(|| {
        let message = format!("data keys are encrypted under {} master keys", view.sealed_under.len());
        let remedy = "the cluster completes this by itself: gateway secrets status shows the progress";
        Finding::of_cluster(Level::Warning, message, remedy)
    });
    let rotates = view.authority_rotates.then(|| {
        let message = "the certificate authority between the nodes is being rotated".to_owned();
        Finding::of_cluster(Level::Warning, message, "gateway secrets status shows which nodes it waits for")
    });
    lacks.chain(several).chain(rotates).collect()
}

/// Settings that must be equal on all nodes and differ, among those that nodes report.
fn alike(view: &ClusterView) -> Vec<Finding> {
    let mut said: BTreeMap<&str, Vec<(NodeId, &str)>> = BTreeMap::new();
    for (node, heard) in view.heard() {
        for (key, value) in &heard.report.alike {
            said.entry(key.as_str()).or_default().push((node, value.as_str()));
        }
    }
    let differing = said.into_iter().filter_map(|(key, values)| {
        let message = format!("{key} {}", unlike(values)?);
        let (level, remedy) = match key {
            // With different timings, the fence of one node may outlast the elections of another.
            "cluster.timing" => (
                Level::Failing,
                "stop all nodes, correct it where it is wrong, and start them: changing one node after the other is \
                 not safe",
            ),
            // A channel that moves to such a node has state that its driver cannot read, and stays in error.
            "network.driver" => (Level::Failing, "stop those whose driver is wrong, correct it, and start them"),
            // Such settings may differ for a while during a rolling change.
            _ => (Level::Warning, "correct it where it is wrong, and restart those nodes"),
        };
        Some(Finding::of_cluster(level, message, remedy))
    });
    differing.collect()
}

fn configuration(policy: &TargetPolicy) -> Vec<Finding> {
    let switched_on = [
        (policy.allow_http, "webhooks.allow_http: webhooks cross the network unencrypted"),
        (policy.allow_loopback, "webhooks.allow_loopback: customers can reach services that listen on the nodes"),
    ];
    let switches = switched_on
        .into_iter()
        .filter(|(is_on, _)| *is_on)
        .map(|(_, message)| Finding::of_cluster(Level::Warning, message.to_owned(), "switch it off in production"));
    let ranges: Vec<String> = policy.allow_cidrs.iter().map(ToString::to_string).collect();
    let reached = (!ranges.is_empty()).then(|| {
        let message = format!("webhooks.allow_cidrs: customers can reach the private ranges {}", ranges.join(", "));
        Finding::of_cluster(Level::Warning, message, "keep the ranges as narrow as the receivers need")
    });
    switches.chain(reached).collect()
}

#[cfg(test)]
mod tests {
    use model::format::Format;
    use raft::host::report::{GroupReport, HostReport};
    use shard::report::{Heard, NodeReport};
    use shard::router::NodeStatus;

    use super::*;

    /// A node that answers, ready or drained.
    fn heard(draining: bool) -> Heard {
        let status = NodeStatus {
            version: "0.2.0".to_owned(),
            format: Format::FIRST,
            draining,
            owns: Vec::new(),
            sessions: 0,
            connected: 0,
            rss_bytes: 0,
            started_at: Timestamp(0),
            work: BTreeMap::new(),
            ready: !draining,
            room: Room::Enough,
            large_room: Room::Enough,
            least_free: 0,
            crowded_ports: Vec::new(),
            warming_up: false,
        };
        let report = NodeReport {
            status,
            clock: Timestamp(0),
            host: HostReport { groups: Vec::new(), syncs: None, disk: None, panics: BTreeMap::new() },
            directory_is_fresh: true,
            master_keys: Vec::new(),
            certificates: Vec::new(),
            alike: BTreeMap::new(),
            channels: BTreeMap::new(),
        };
        Heard { report, clock_ahead: 0, clock_doubt: Duration::ZERO }
    }

    fn view(draining: &[bool]) -> ClusterView {
        ClusterView {
            survey: (1..).zip(draining.iter().map(|draining| Ok(heard(*draining)))).collect(),
            groups: Vec::new(),
            slots: BTreeMap::new(),
            format: Format::FIRST,
            sealed_under: BTreeMap::new(),
            authority_rotates: false,
        }
    }

    #[test]
    fn what_has_to_be_alike_is_named_with_the_nodes_that_differ() {
        let mut view = view(&[false, false, false, false]);
        // The fourth node has an earlier release, which does not report it.
        for (node, timing) in [(1, "80ms"), (2, "250ms"), (3, "80ms")] {
            let Some(Ok(heard)) = view.survey.get_mut(&node) else { panic!("node {node} was heard") };
            let (driver, store) = if node == 1 { ("whatsapp", "s3") } else { ("simulated", "local") };
            let said = [("cluster.timing", timing), ("media.store", store), ("network.driver", driver)];
            heard.report.alike = said.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        }
        let said: Vec<(Level, String)> = alike(&view).into_iter().map(|said| (said.level, said.message)).collect();
        let timing = "cluster.timing has to be alike on all nodes: 250ms at node 2; 80ms at node 1, node 3";
        let driver = "network.driver has to be alike on all nodes: simulated at node 2, node 3; whatsapp at node 1";
        let store = "media.store has to be alike on all nodes: local at node 2, node 3; s3 at node 1";
        let failing = |message: &str| (Level::Failing, message.to_owned());
        assert_eq!(said, [failing(timing), (Level::Warning, store.to_owned()), failing(driver)]);
        view.survey.retain(|node, _| *node > 2);
        assert!(alike(&view).is_empty());
    }

    #[test]
    fn replicas_that_differ_are_named_with_their_group_and_leader() {
        let mut view = view(&[false, false, false]);
        assert!(replicas(&view).is_empty());
        let Some(Ok(heard)) = view.survey.get_mut(&2) else { panic!("node 2 was heard") };
        let group = GroupReport { id: 3, leader: Some(2), differing: [1].into(), ..GroupReport::default() };
        heard.report.host.groups = vec![group];
        let said = replicas(&view);
        assert!(said.len() == 1 && said[0].level == Level::Failing);
        assert!(
            said[0].message.starts_with("shard 3 is not the same at node 2") && said[0].message.contains("node 1:")
        );
        assert_eq!(condition(&view, &findings(&view, &TargetPolicy::default())), Condition::Degraded);
    }

    #[test]
    fn a_leader_that_commits_nothing_is_named() {
        let mut stalls = heard(false);
        let group = |id, stalled| GroupReport { id, leader: Some(2), stalled, ..GroupReport::default() };
        stalls.report.host.groups = vec![group(0, true), group(1, false), group(4, true)];
        let mut view = view(&[false, false, false]);
        view.survey.insert(2, Ok(stalls));
        let said = shards(&view);
        assert_eq!(said.len(), 1);
        assert_eq!((said[0].node_id, said[0].level), (Some(2), Level::Failing));
        assert!(said[0].message.contains("leads the directory, shard 4 and commits nothing"), "{}", said[0].message);
    }

    #[test]
    fn tasks_that_panic_are_named_with_their_node() {
        let mut view = view(&[false, false, false]);
        assert!(tasks(&view).is_empty());
        let Some(Ok(heard)) = view.survey.get_mut(&2) else { panic!("node 2 was heard") };
        heard.report.host.panics = [("the committer of a shard".to_owned(), 3), ("a port".to_owned(), 1)].into();
        let said = tasks(&view);
        assert!(said.iter().all(|said| (said.node_id, said.level) == (Some(2), Level::Warning)));
        let said: Vec<&str> = said.iter().map(|said| said.message.as_str()).collect();
        assert_eq!(
            said,
            ["node 2: a port panicked once recently", "node 2: the committer of a shard panicked 3 times recently"]
        );
    }

    #[test]
    fn little_room_is_a_warning_and_none_a_failure() {
        let found = |stores, large| {
            let mut heard = heard(false);
            heard.report.status.room = stores;
            heard.report.status.large_room = large;
            let view = ClusterView { survey: [(1, Ok(heard))].into(), ..view(&[]) };
            disk(&view).iter().map(|said| said.level).collect::<Vec<_>>()
        };
        assert_eq!(found(Room::Enough, Room::Enough), []);
        assert_eq!(found(Room::Enough, Room::Full), [Level::Warning], "media have a disk of their own");
        assert_eq!(found(Room::Low, Room::Low), [Level::Warning]);
        assert_eq!(found(Room::Full, Room::Full), [Level::Failing]);
    }

    #[test]
    fn a_cluster_of_which_no_node_is_ready_is_in_an_outage_though_all_answer() {
        let fails = |view: &ClusterView| nodes(view).iter().any(|said| said.level == Level::Failing);
        let one_is_left = view(&[true, true, false]);
        assert_eq!((condition(&one_is_left, &[]), fails(&one_is_left)), (Condition::Operational, false));
        let none_is_left = view(&[true, true, true]);
        assert_eq!((condition(&none_is_left, &[]), fails(&none_is_left)), (Condition::Outage, true));
    }
}
