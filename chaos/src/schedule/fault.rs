//! The faults that a run can inject, as data: schedules list them, reports name them, and runs execute them.

use std::time::Duration;

use raft::failpoint::Point;
use serde::{Deserialize, Serialize};

use crate::history::FaultKind;

/// A node by its rank among the members, counted from 0 in the order of ids, as schedules do not know ids.
pub type Rank = u8;

/// The nodes whose processes are affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    One(Rank),
    /// The node that leads the shard with the most channels when the fault begins.
    BusiestOwner,
    /// A majority of the nodes, from this rank on.
    Majority(Rank),
    All,
}

/// A fault, or an action of an operator or a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// `kill -9`; restarted at the end.
    Kill(Who),
    /// SIGSTOP until the end.
    Pause(Who),
    /// No packets between a node and all others, in both directions.
    Isolate(Rank),
    /// A node receives from the others, but they do not receive from it.
    Mute(Rank),
    /// The others receive from a node, but it does not receive from them.
    Deaf(Rank),
    /// A node and the next one are disconnected from each other, but not from the others.
    Bridge(Rank),
    /// A node cannot reach the messaging network.
    Offline(Rank),
    /// `percent` of the packets from and to a node are lost.
    Loss { node: Rank, percent: u8 },
    /// A node's bandwidth for sending is limited to `kbit` kilobits per second; further packets wait in a queue.
    Congest { node: Rank, kbit: u16 },
    /// Traffic between a node and its peers is delayed by `ms` milliseconds, and by up to `spread` more. With `ms` 0
    /// this mostly reorders: one connection overtakes the other.
    Delay { node: Rank, ms: u16, spread: u16 },
    /// A node's wall clock jumps, and jumps back at the end.
    Clock { node: Rank, seconds: i32 },
    /// A node's machine reboots: the node is killed, and restarted at the end with a monotonic clock that shows an
    /// uptime of `days` days, which may be less than before.
    Boot { node: Rank, days: u16 },
    /// A node's disk fails. If that ends the node, it is restarted at the end.
    Disk { node: Rank, how: DiskFault },
    /// A power cut of nodes: unsynced data is lost, or only some pages of it, drawn from the seed `torn`. Restarted at
    /// the end.
    PowerCut { who: Who, torn: Option<u16> },
    /// A node dies, or waits for a moment, at one of the failpoints of [`Point::ALL`]; restarted at the end.
    Failpoint { node: Rank, point: u8, dies: bool },
    /// The messaging network misbehaves.
    Network(NetworkFault),
    /// A node is drained: it transfers its leaderships, and gets them back at the end.
    Drain(Rank),
    /// A node gets another weight and the shards move; undone at the end.
    Reweigh { node: Rank, weight: u8 },
    /// A node joins; it is removed at the end.
    Join,
    /// All nodes are restarted, one after the other.
    RollingRestart,
    /// A node's files are damaged while it is stopped; at the end it is replaced by a new node.
    Damage { node: Rank, how: Damage },
    /// While the next node is down, this one and the others accept writes. Then all die, and this one's folder is
    /// emptied or restored from an older copy. Both start, and the others later. At the end the node is replaced by a
    /// new one.
    Foreign { node: Rank, how: Foreign },
    /// A channel is stopped during many sends, and its owner is killed `after_ms` milliseconds after the request. At
    /// the end the owner is restarted, and the channel resumed.
    Stop { how: Stop, after_ms: u16 },
    /// A node receives nothing of the directory, while another creates an endpoint for a channel that this one owns.
    StaleDirectory(Rank),
    /// A task of a node panics at one of the failpoints of [`Point::ALL`]. A node that ends is restarted at the end.
    Panic { node: Rank, point: u8 },
    /// Unusual load by tenants.
    Tenants(TenantFault),
}

/// What replaces the data folder of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// An empty folder.
    Wiped,
    /// A copy from before the last writes that the node accepted.
    Restored,
}

/// How a channel is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Its customer disconnects it.
    Disconnect,
    /// It is disabled.
    Disable,
    /// Its phone logs it out.
    Unlink,
}

/// Unusual load by tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantFault {
    /// One tenant uses all that its limits allow, while another one's service is measured.
    Noise,
    /// A tenant sends requests of the largest permitted size, and larger ones.
    Sizes,
    /// Phones send messages under ids that other messages have.
    Namesakes,
    /// Phones rename their chats and groups.
    Notices,
}

/// How the messaging network misbehaves, in the terms of the simulator's control port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkFault {
    /// Acceptances are delayed by this many milliseconds, and by up to half as much again.
    SlowAccept(u16),
    /// This percentage of sends is lost before acceptance.
    LoseSends(u8),
    /// This percentage of sends is accepted and delivered, but the acceptance is lost.
    LoseAcceptances(u8),
    /// This percentage of sends is refused.
    Refuse(u8),
    /// All logins are refused.
    RefuseLogins,
    /// Logins take this many milliseconds.
    SlowLogins(u16),
    /// The network does not deduplicate: a repeated send is delivered again.
    KeepRepeats,
    /// Acknowledgements by the gateway are withheld.
    HoldAcks,
    /// A node's sessions end, and it cannot log in.
    CutNode(Rank),
}

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFault {
    /// Each sync takes this many milliseconds more, and each write [a little](slow_write).
    Slow(u16),
    /// Only this many KiB can still be written.
    Full(u16),
    /// Syncs fail.
    FailSyncs,
    /// Writes fail.
    FailWrites,
}

/// Delay of each write on a disk whose syncs are delayed by `sync_ms`: a two-hundredth of that. A node does many writes
/// per sync, some of them on the threads that do everything else. A much longer delay would stop the node, which is
/// another fault.
pub fn slow_write(sync_ms: u16) -> Duration {
    Duration::from_micros(u64::from(sync_ms) * 5)
}

/// Damage to a node's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// A bit of the log is flipped.
    FlippedBit,
    /// A bit of each table of the state is flipped.
    FlippedTables,
    /// A file of the log is truncated.
    Truncated,
    /// The folder is emptied.
    Wiped,
}

/// Lanes run at the same time; the faults of one lane follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Nodes and the network between them.
    Nodes,
    /// The messaging network.
    Network,
    /// The operator.
    Operator,
    /// Customers and their phones.
    Tenants,
}

/// A kind of fault, before it is known whom it meets and how hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Kill,
    KillOwner,
    KillMajority,
    KillAll,
    Pause,
    Isolate,
    OneWay,
    Bridge,
    Offline,
    Loss,
    Congest,
    Delay,
    Reorder,
    Clock,
    Boot,
    Disk,
    PowerCut,
    Failpoint,
    Network,
    Drain,
    Reweigh,
    Join,
    RollingRestart,
    Damage,
    Foreign,
    Stop,
    StaleDirectory,
    Panic,
    Noise,
    Sizes,
    Namesakes,
    Notices,
}

impl Kind {
    /// The name on the command line.
    pub fn name(self) -> String {
        use clap::ValueEnum;
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub fn lane(self) -> Lane {
        match self {
            Self::Network => Lane::Network,
            Self::Drain | Self::Reweigh | Self::Join | Self::RollingRestart => Lane::Operator,
            Self::Noise | Self::Sizes | Self::Namesakes | Self::Notices => Lane::Tenants,
            _ => Lane::Nodes,
        }
    }
}

impl Fault {
    /// How many of `nodes` nodes the fault may disable.
    pub fn breaks(self, nodes: usize) -> usize {
        match self {
            Self::Kill(who) | Self::Pause(who) | Self::PowerCut { who, .. } => match who {
                Who::One(_) | Who::BusiestOwner => 1,
                Who::Majority(_) => nodes / 2 + 1,
                Who::All => nodes,
            },
            Self::Isolate(_)
            | Self::Mute(_)
            | Self::Deaf(_)
            | Self::Bridge(_)
            | Self::Offline(_)
            | Self::Loss { .. }
            | Self::Congest { .. }
            | Self::Delay { .. }
            | Self::Clock { .. }
            | Self::Boot { .. }
            | Self::Disk { .. }
            | Self::Failpoint { .. }
            | Self::Network(NetworkFault::CutNode(_))
            | Self::RollingRestart
            | Self::Damage { .. }
            | Self::Stop { .. }
            | Self::StaleDirectory(_)
            | Self::Panic { .. } => 1,
            Self::Foreign { .. } => nodes,
            Self::Tenants(_) | Self::Network(_) | Self::Drain(_) | Self::Reweigh { .. } | Self::Join => 0,
        }
    }
}

impl Fault {
    /// The fault's name in JSON.
    pub fn word(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
            Ok(serde_json::Value::String(word)) => word,
            _ => String::new(),
        }
    }

    /// The kind of fault for which the checks must allow.
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Kill(_)
            | Self::PowerCut { .. }
            | Self::Boot { .. }
            | Self::Foreign { .. }
            | Self::Stop { .. }
            | Self::Panic { .. } => FaultKind::Crash,
            Self::Tenants(TenantFault::Noise) => FaultKind::Noise,
            Self::Tenants(_) => FaultKind::Use,
            Self::Pause(_) => FaultKind::Pause,
            Self::Isolate(_)
            | Self::Mute(_)
            | Self::Deaf(_)
            | Self::Bridge(_)
            | Self::Loss { .. }
            | Self::Delay { .. } => FaultKind::PeerCut,
            // All that a node sends shares one link, so congestion affects the messaging network as well.
            Self::Offline(_) | Self::Congest { .. } => FaultKind::NetworkCut,
            Self::Clock { .. } => FaultKind::Clock,
            Self::Disk { .. } => FaultKind::Disk,
            Self::Failpoint { dies: true, .. } => FaultKind::Crash,
            Self::Failpoint { dies: false, .. } | Self::StaleDirectory(_) => FaultKind::Failpoint,
            Self::Drain(_) | Self::Reweigh { .. } | Self::Join | Self::RollingRestart => FaultKind::Membership,
            Self::Damage { .. } => FaultKind::Damage,
            Self::Network(fault) => match fault {
                NetworkFault::SlowAccept(_)
                | NetworkFault::RefuseLogins
                | NetworkFault::SlowLogins(_)
                | NetworkFault::HoldAcks => FaultKind::Slow,
                NetworkFault::KeepRepeats => FaultKind::KeepRepeats,
                NetworkFault::LoseSends(_) => FaultKind::LoseSends,
                NetworkFault::LoseAcceptances(_) => FaultKind::LoseAcceptances,
                NetworkFault::Refuse(_) => FaultKind::Refuse,
                NetworkFault::CutNode(_) => FaultKind::NetworkCut,
            },
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Reports count nodes from one.
        let nth = |rank: Rank| u16::from(rank) + 1;
        match *self {
            Self::Kill(who) => write!(f, "kill -9 of {who}"),
            Self::Pause(who) => write!(f, "SIGSTOP of {who}"),
            Self::Isolate(node) => write!(f, "partition: node #{} alone", nth(node)),
            Self::Mute(node) => write!(f, "one-way partition: node #{} unheard", nth(node)),
            Self::Deaf(node) => write!(f, "one-way partition: node #{} hears nobody", nth(node)),
            Self::Bridge(node) => write!(f, "bridge partition: node #{} and the next apart", nth(node)),
            Self::Offline(node) => write!(f, "node #{} cut off the messaging network", nth(node)),
            Self::Loss { node, percent } => write!(f, "{percent}% loss at node #{}", nth(node)),
            Self::Congest { node, kbit } => write!(f, "node #{} sends {kbit} kbit/s", nth(node)),
            Self::Delay { node, ms: 0, spread } => {
                write!(f, "words from and to node #{} overtake each other, by up to {spread} ms", nth(node))
            }
            Self::Delay { node, ms, spread } => {
                write!(f, "words from and to node #{} {ms} to {} ms late", nth(node), ms + spread)
            }
            Self::Clock { node, seconds } => write!(f, "clock of node #{} {seconds:+} s", nth(node)),
            Self::Boot { node, days } => write!(f, "node #{} boots, its steady clock at {days} days", nth(node)),
            Self::Disk { node, how } => write!(f, "disk of node #{}: {how}", nth(node)),
            Self::PowerCut { who, torn: None } => write!(f, "power cut of {who}"),
            Self::PowerCut { who, torn: Some(_) } => write!(f, "power cut of {who}, amid writes"),
            Self::Failpoint { node, point, dies } => {
                write!(f, "node #{} {} at {}", nth(node), if dies { "dies" } else { "waits" }, place(point))
            }
            Self::Network(fault) => write!(f, "network: {fault}"),
            Self::Drain(node) => write!(f, "drain of node #{}", nth(node)),
            Self::Reweigh { node, weight } => write!(f, "rebalance: node #{} weighs {weight}", nth(node)),
            Self::Join => f.write_str("one more node joins and leaves"),
            Self::RollingRestart => f.write_str("rolling restart"),
            Self::Damage { node, how } => write!(f, "files of node #{} {how}", nth(node)),
            Self::Foreign { node, how } => write!(f, "all restart, files of node #{} {how}", nth(node)),
            Self::Stop { how, after_ms } => {
                write!(f, "a channel {how} amid many sends, kill -9 of its owner {after_ms} ms later")
            }
            Self::StaleDirectory(node) => write!(f, "node #{} hears nothing of the directory", nth(node)),
            Self::Panic { node, point } => write!(f, "a task of node #{} panics at {}", nth(node), place(point)),
            Self::Tenants(fault) => write!(f, "{fault}"),
        }
    }
}

/// The name of one of [`Point::ALL`].
fn place(point: u8) -> &'static str {
    Point::ALL.get(usize::from(point)).map_or("nowhere", |point| point.name())
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wiped => "wiped",
            Self::Restored => "put back from an older copy",
        })
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Disconnect => "disconnected",
            Self::Disable => "disabled",
            Self::Unlink => "logged out by its phone",
        })
    }
}

impl std::fmt::Display for TenantFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Noise => "a tenant does all that its limits allow",
            Self::Sizes => "a tenant sends what is as large as it may be, and larger",
            Self::Namesakes => "phones write under ids that others have used",
            Self::Notices => "phones rename groups",
        })
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(rank) => write!(f, "node #{}", u16::from(*rank) + 1),
            Self::BusiestOwner => f.write_str("the owner of the busiest shard"),
            Self::Majority(_) => f.write_str("a majority"),
            Self::All => f.write_str("all nodes"),
        }
    }
}

impl std::fmt::Display for NetworkFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SlowAccept(ms) => write!(f, "acceptances {ms} ms late"),
            Self::LoseSends(percent) => write!(f, "{percent}% of sends lost"),
            Self::LoseAcceptances(percent) => write!(f, "{percent}% of acceptances lost"),
            Self::Refuse(percent) => write!(f, "{percent}% of sends refused"),
            Self::RefuseLogins => f.write_str("logins refused"),
            Self::SlowLogins(ms) => write!(f, "logins take {ms} ms"),
            Self::KeepRepeats => f.write_str("repeats are not dropped"),
            Self::HoldAcks => f.write_str("acknowledgements held back"),
            Self::CutNode(node) => write!(f, "node #{} refused", u16::from(*node) + 1),
        }
    }
}

impl std::fmt::Display for DiskFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Slow(ms) => {
                write!(f, "syncs take {ms} ms more and writes {} µs", slow_write(*ms).as_micros())
            }
            Self::Full(kib) => write!(f, "{kib} KiB are left"),
            Self::FailSyncs => f.write_str("syncs fail"),
            Self::FailWrites => f.write_str("writes fail"),
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FlippedBit => "damaged (a bit of the log flipped)",
            Self::FlippedTables => "damaged (a bit of each table flipped)",
            Self::Truncated => "damaged (the log cut off)",
            Self::Wiped => "wiped",
        })
    }
}
