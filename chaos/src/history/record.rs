//! One thing that happened: a call, a request at a receiver, a frame of a stream, a fault.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds of the harness's monotonic clock since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct At(pub u64);

impl At {
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds with milliseconds, as people read a time line.
impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03} s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000)
    }
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    Call(Call),
    Webhook(Request),
    Frame(Frame),
    Fault(Fault),
    Damage(Damage),
    #[serde(rename = "lead")]
    Leader(LeaderSeen),
    Progress(Progress),
    Ended(Ended),
}

/// What one client asked and heard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// A client has one call under way at a time.
    pub client: u32,
    /// The name that the run's stage has for the customer.
    pub tenant: String,
    /// The node that was asked; 0 is the network.
    pub node: u64,
    pub begin: At,
    pub end: At,
    #[serde(flatten)]
    pub op: Op,
    pub outcome: Outcome,
}

/// What was asked. Ids are the gateway's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// The text is like no other of the run, so that what it became is found by it.
    Send {
        channel: String,
        text: String,
    },
    /// A phone writes to the channel's number.
    Inbound {
        channel: String,
        text: String,
    },
    /// A phone writes to the channel's number under an id that it has chosen, and that another one may have used.
    InboundAs {
        channel: String,
        from: String,
        id: String,
    },
    /// A phone tells the channel of something that is like nothing else it tells of: a group's new subject.
    Notice {
        channel: String,
        says: String,
    },
    /// The phone reads what the channel has sent.
    OpenChat {
        channel: String,
    },
    CreateChannel {
        name: String,
    },
    RenameChannel {
        channel: String,
        name: String,
    },
    ReadChannel {
        channel: String,
    },
    DeleteChannel {
        channel: String,
    },
    /// It may not run until it is enabled again.
    DisableChannel {
        channel: String,
    },
    EnableChannel {
        channel: String,
    },
    /// It stops, as its customer wants it, until it is connected again.
    DisconnectChannel {
        channel: String,
    },
    ConnectChannel {
        channel: String,
    },
    /// The phone logs the channel out: it may not run until a phone has scanned its code.
    UnlinkChannel {
        channel: String,
    },
    ListChannels,
    CreateKey {
        name: String,
    },
    RevokeKey {
        key: String,
    },
    /// The key authenticates a read of its own record.
    UseKey {
        key: String,
    },
    /// `hook` is the path at the receiver.
    CreateEndpoint {
        hook: String,
    },
    /// What is left out stays as it is.
    ChangeEndpoint {
        endpoint: String,
        hook: Option<String>,
        enabled: Option<bool>,
    },
    ReadEndpoint {
        endpoint: String,
    },
    DeleteEndpoint {
        endpoint: String,
    },
    ListEndpoints,
    ListMessages,
    OpenStream {
        stream: u32,
    },
    /// Something of another customer's: `what` is method and path.
    Trespass {
        what: String,
    },
    /// A call that costs a token of the customer's bucket.
    Draw,
    /// A small file for later sends.
    Upload,
    /// A call over a connection that was opened for it.
    AskAnew,
    /// Something of the largest size that is allowed, or larger.
    Sized {
        what: String,
        size: Size,
    },
}

/// How large something is beside its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// As large as it may be.
    Within,
    /// Larger.
    Beyond,
}

/// What a caller knows of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    Done(Answer),
    /// 4xx, or status 0 where nobody listened: it had no effect, and never will.
    Refused {
        status: u16,
        code: String,
    },
    /// 5xx, cut off, or no answer in time: it may have had its effect, or may still have it.
    Unknown {
        why: String,
    },
}

/// What a client says of a call that waited longer than any may last.
pub const UNANSWERED: &str = "no answer in time";

/// What an answer said, as far as somebody judges it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Nothing,
    Taken {
        message: String,
        queued: bool,
    },
    /// The id of what was made.
    Made {
        id: String,
    },
    Channel {
        name: String,
    },
    Endpoint {
        hook: String,
        enabled: bool,
    },
    /// Ids of what a list held.
    Ids {
        ids: Vec<String>,
    },
}

impl Call {
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Outcome::Done(_))
    }

    /// The code of a refusal.
    pub fn refusal(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Refused { code, .. } => Some(code),
            Outcome::Done(_) | Outcome::Unknown { .. } => None,
        }
    }

    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Done(answer) => Some(answer),
            Outcome::Refused { .. } | Outcome::Unknown { .. } => None,
        }
    }

    /// The message id of a send that was taken.
    pub fn taken(&self) -> Option<&str> {
        match self.answer() {
            Some(Answer::Taken { message, .. }) => Some(message),
            _ => None,
        }
    }

    /// What a call that makes something has made.
    pub fn made(&self) -> Option<&str> {
        match self.answer() {
            Some(Answer::Made { id }) => Some(id),
            _ => None,
        }
    }
}

/// A webhook request as it reached a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub at: At,
    /// The path, which names the endpoint and its version.
    pub hook: String,
    pub delivery: String,
    pub event: String,
    pub event_id: String,
    pub channel: String,
    /// `data.message_id`, where the event has one.
    pub message: Option<String>,
    /// `data.status` of `message.status`.
    pub status: Option<String>,
    /// The number of who wrote a `message.received`.
    #[serde(default)]
    pub from: Option<String>,
    /// Whether the signature held; none where the receiver does not know the secret.
    pub signed: Option<bool>,
    /// What the receiver answers; none when it hangs or cuts.
    pub answered: Option<u16>,
}

/// An event as a stream showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub at: At,
    pub tenant: String,
    pub stream: u32,
    /// Counts the connections of a stream, each of which goes on where the one before ended.
    pub connection: u32,
    pub node: u64,
    pub event: String,
    /// None for the stream's own frames (`stream.gap`, `stream.closing`).
    pub event_id: Option<String>,
    pub channel: Option<String>,
    pub message: Option<String>,
    /// What a [`Op::Notice`] has said.
    #[serde(default)]
    pub notice: Option<String>,
}

/// What kind of harm a fault does: what a judge has to allow for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A process ends without notice.
    Crash,
    /// A process stands still.
    Pause,
    /// Nodes do not reach each other, or with loss or delay; they do reach the network.
    PeerCut,
    /// A node does not reach the network, or slowly.
    NetworkCut,
    /// A slow, full or failing disk.
    Disk,
    /// Files of a stopped node are changed.
    Damage,
    /// A clock jumps.
    Clock,
    /// Join, drain, remove, rebalance, restart in order.
    Membership,
    /// The network loses sends before they count.
    LoseSends,
    /// The network loses its acceptances.
    LoseAcceptances,
    /// The network refuses sends, or logins for good.
    Refuse,
    /// The network is slow to accept, to log in, or to take acknowledgements.
    Slow,
    /// The network no longer drops repeated message ids.
    KeepRepeats,
    Failpoint,
    /// A tenant does all that its limits allow, beside another that is measured.
    Noise,
    /// Tenants do what is special and hurts nobody.
    Use,
}

/// A fault, from the moment before it begins to the moment after it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    pub from: At,
    pub to: At,
    pub kind: FaultKind,
    /// The nodes that it strikes; empty when it strikes all or none.
    pub nodes: Vec<u64>,
    /// For people: `kill -9 of node 2`.
    pub what: String,
}

impl Fault {
    /// Whether it was in force at any moment of a time, or ended less than `after` before it.
    pub fn touches(&self, from: At, to: At, after: Duration) -> bool {
        self.from <= to && from <= self.to.plus(after)
    }
}

/// Damaged files of a node, and what the node made of them (I11).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Damage {
    pub at: At,
    pub node: u64,
    /// File and what was done to it.
    pub what: String,
    /// The line with which the node refused to run or to serve it; none when it ran.
    pub refused: Option<String>,
    /// Whether the damage lies where the node may drop or repair it without loss (a torn tail, a cache).
    pub harmless: bool,
}

/// Who led a group when the harness looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderSeen {
    /// When the harness asked, and when it was answered: it was so at some moment between.
    pub asked: At,
    pub at: At,
    pub group: u16,
    pub leader: Option<u64>,
    pub term: u64,
}

/// How far a group was whose leader had entries that were not applied, when the harness looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// As in [`LeaderSeen`].
    pub asked: At,
    pub at: At,
    pub group: u16,
    pub leader: u64,
    pub term: u64,
    /// The last entry that the leader has applied. There were more.
    pub applied: u64,
    /// How many more.
    pub lag: u64,
    /// Whether the leader itself said that it commits nothing.
    #[serde(default)]
    pub named: bool,
    /// The bytes that were sent of the snapshots that were on their way to voters, where there were any.
    #[serde(default)]
    pub sent: Option<u64>,
}

/// A node's process that ended, and not because the harness ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub at: At,
    pub node: u64,
    /// Its exit code or signal, and what it said last.
    pub how: String,
}

/// Who plays in a run: what judges must know beside what happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub tenants: Vec<Tenant>,
    /// Channels that are connected from the beginning to the end.
    pub channels: Vec<Channel>,
    /// Channels that came and went, and were connected for a while or were to be.
    #[serde(default)]
    pub passing: Vec<Channel>,
    /// Endpoints that stay as they are from the beginning to the end.
    pub endpoints: Vec<Endpoint>,
    /// Customers with a small bucket.
    pub limited: Vec<Limited>,
    /// Channels that are stopped while they have much to send, and let on again. They stand among the passing ones, too.
    #[serde(default)]
    pub stopped: Vec<Channel>,
    /// The customer that is measured while another makes noise.
    #[serde(default)]
    pub quiet: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    pub name: String,
    pub customer: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    pub id: String,
    pub tenant: String,
    pub number: String,
    /// The number that it writes to.
    pub recipient: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub id: String,
    pub tenant: String,
    pub hook: String,
    pub events: Vec<String>,
    /// None when it hears of all channels of the customer.
    pub channel: Option<String>,
    pub manner: Manner,
    /// When its making was answered, where that was amid the run: it hears of what began after that.
    #[serde(default)]
    pub since: Option<At>,
}

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    Good,
    /// Answers well, after a while.
    Slow,
    /// Every fifth delivery is answered 500 at first.
    Flaky,
    Broken,
    Hangs,
    Cuts,
    /// 410, after which the gateway switches the endpoint off.
    Gone,
    Redirects,
}

impl Manner {
    /// Whether everything must arrive in the end.
    pub fn takes_all(self) -> bool {
        matches!(self, Self::Good | Self::Slow | Self::Flaky)
    }

    /// Whether the gateway goes on owing it everything, however it answers.
    pub fn stays_on(self) -> bool {
        self != Self::Gone
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limited {
    pub tenant: String,
    pub burst: f64,
    pub per_second: f64,
    /// The group whose owner counts.
    pub home: u16,
}
