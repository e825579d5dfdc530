//! What can be done to a world, as data: a schedule names it, a report tells of it, a run does it.

use std::time::Duration;

use raft::failpoint::Point;
use serde::{Deserialize, Serialize};

use crate::history::FaultKind;

/// A node by its rank among the members, counted from 0 by id: schedules know no ids.
pub type Rank = u8;

/// Which processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    One(Rank),
    /// Whichever leads the shard with the most channels at that moment.
    BusiestOwner,
    /// A majority of the nodes, from this rank on.
    Majority(Rank),
    All,
}

/// One thing that goes wrong, or that an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// `kill -9`; started again at the end.
    Kill(Who),
    /// SIGSTOP until the end.
    Pause(Who),
    /// No packets between a node and all others, in both directions.
    Isolate(Rank),
    /// A node hears the others and they do not hear it.
    Mute(Rank),
    /// The others hear a node and it does not hear them.
    Deaf(Rank),
    /// This node and the next do not hear each other; all others hear everybody.
    Bridge(Rank),
    /// A node does not reach the messaging network.
    Offline(Rank),
    /// So many of a hundred packets from and to a node get lost.
    Loss { node: Rank, percent: u8 },
    /// What a node sends waits in a queue that lets so many kilobits a second through.
    Congest { node: Rank, kbit: u16 },
    /// What a node and its peers say to each other arrives so many milliseconds later, and up to `spread` more. Where the
    /// spread is all of it, one connection overtakes the other.
    Delay { node: Rank, ms: u16, spread: u16 },
    /// A node's wall clock jumps, and jumps back at the end.
    Clock { node: Rank, seconds: i32 },
    /// A node's machine boots: the node dies, and the steady clock with which it is started again at the end stands as if the
    /// machine had run for so many days. That may be less than before.
    Boot { node: Rank, days: u16 },
    /// A node's disk goes wrong; where the node ends for it, it is started again at the end.
    Disk { node: Rank, how: DiskFault },
    /// The machines of these nodes lose power: what was not synced is lost, or some pages of it, by this seed. Started again at
    /// the end.
    PowerCut { who: Who, torn: Option<u16> },
    /// A node dies, or waits for a moment, at one of the places of [`Point::ALL`]; started again at the end.
    Failpoint { node: Rank, point: u8, dies: bool },
    /// The messaging network misbehaves.
    Network(NetworkFault),
    /// A node hands its shards over, and takes them back at the end.
    Drain(Rank),
    /// A node gets another weight and the shards move; back at the end.
    Reweigh { node: Rank, weight: u8 },
    /// One more node joins; at the end it is removed.
    Join,
    /// All nodes are stopped and started, one after the other.
    RollingRestart,
    /// A node's files are damaged while it is stopped; it is removed and another put in its place.
    Damage { node: Rank, how: Damage },
    /// While the next node is away, this one and the third answer; then all die, this one loses its folder or gets an older one,
    /// and starts beside the one that was away, and the third later. It is removed and another put in its place.
    Foreign { node: Rank, how: Foreign },
    /// A channel is stopped in the midst of many sends, and its owner dies so many milliseconds after it was told to. The owner
    /// is started again at the end, and the channel let on.
    Stop { how: Stop, after_ms: u16 },
    /// A node hears nothing of the directory, and a customer has another node make an endpoint for a channel that this one owns.
    StaleDirectory(Rank),
    /// A task of a node panics at one of the places of [`Point::ALL`]; where the node ends for it, it is started again at the end.
    Panic { node: Rank, point: u8 },
    /// Tenants do what is special.
    Tenants(TenantFault),
}

/// What a node finds in the place of its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// Nothing.
    Wiped,
    /// What was there before it answered the last calls.
    Restored,
}

/// What stops a channel.
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

/// What tenants do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantFault {
    /// One does all that its limits allow, while another one is measured.
    Noise,
    /// One sends what is as large as it may be, and what is larger.
    Sizes,
    /// Phones write to channels under ids that others have used.
    Namesakes,
    /// Phones change what their chats and groups are called.
    Notices,
}

/// How the messaging network misbehaves, as the simulator's control port takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkFault {
    /// Acceptances come this many milliseconds late, and up to half of that more.
    SlowAccept(u16),
    /// So many of a hundred sends are lost before they count.
    LoseSends(u8),
    /// So many of a hundred sends are delivered and not acknowledged.
    LoseAcceptances(u8),
    /// So many of a hundred sends are refused.
    Refuse(u8),
    /// Nobody may log in.
    RefuseLogins,
    /// Logins take this many milliseconds.
    SlowLogins(u16),
    /// The network does not drop what it has accepted before: whatever is sent again arrives again.
    KeepRepeats,
    /// What the gateway acknowledges is not heard.
    HoldAcks,
    /// A node's sessions end, and it may not log in.
    CutNode(Rank),
}

/// What a disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFault {
    /// Each sync takes this many milliseconds more, and each write [a little](slow_write).
    Slow(u16),
    /// So many KiB may still be written.
    Full(u16),
    /// Syncs fail.
    FailSyncs,
    /// Writes fail.
    FailWrites,
}

/// How much longer each write takes on a disk whose syncs take so many milliseconds more: a two-hundredth of it. A node does
/// many writes for each sync, some on the threads that do everything else. With much more than this it would stand still,
/// which is another fault.
pub fn slow_write(sync_ms: u16) -> Duration {
    Duration::from_micros(u64::from(sync_ms) * 5)
}

/// What happens to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// A bit of the log is flipped.
    FlippedBit,
    /// A bit of each table of the state is flipped.
    FlippedTables,
    /// A file of the log is cut off.
    Truncated,
    /// The folder is empty.
    Wiped,
}

/// What works on its own, one thing after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Nodes and the wires between them.
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
    /// As the command line takes it.
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
    /// How many of `nodes` nodes it may put out of work.
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
    /// What it is, in a word, as JSON has it.
    pub fn word(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
            Ok(serde_json::Value::String(word)) => word,
            _ => String::new(),
        }
    }

    /// What judges have to allow for.
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
            // All that a node says goes over one link.
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
        // People count nodes from one.
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
