//! One observation: a call, a request at a receiver, a frame of a stream, a fault.

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

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds with milliseconds, for people.
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

/// A client's request and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The client. It has only one call in flight at a time.
    pub client: u32,
    /// The customer's name in the run's [`Stage`].
    pub tenant: String,
    /// The node that received the call; 0 is the messaging network.
    pub node: u64,
    pub begin: At,
    pub end: At,
    #[serde(flatten)]
    pub op: Op,
    pub outcome: Outcome,
}

/// The kind of a call. Ids are the gateway's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// The text is unique within the run, so that messages can be traced by it.
    Send {
        channel: String,
        text: String,
    },
    /// A phone sends a message to the channel's number.
    Inbound {
        channel: String,
        text: String,
    },
    /// A phone sends a message to the channel's number under an id that it chooses, and that another message may have.
    InboundAs {
        channel: String,
        from: String,
        id: String,
    },
    /// A phone causes a notice with unique contents for the channel: a group's new subject.
    Notice {
        channel: String,
        says: String,
    },
    /// The phone reads the channel's messages.
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
    /// The channel may not run until it is enabled again.
    DisableChannel {
        channel: String,
    },
    EnableChannel {
        channel: String,
    },
    /// The channel stops at its customer's request until it is connected again.
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
    /// Fields that are `None` stay unchanged.
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
    /// Access to a resource of another customer; `what` is method and path.
    Trespass {
        what: String,
    },
    /// A call that costs a token of the customer's bucket.
    Draw,
    /// Upload of a small file for later sends.
    Upload,
    /// A call over a new connection.
    AskAnew,
    /// A request of the largest permitted size, or larger.
    Sized {
        what: String,
        size: Size,
    },
}

/// A size in relation to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// The largest permitted size.
    Within,
    /// Larger than permitted.
    Beyond,
}

/// The outcome of a call, as far as the caller knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    Done(Answer),
    /// 4xx, or status 0 if the connection was refused: the call has no effect, and never will.
    Refused {
        status: u16,
        code: String,
    },
    /// 5xx, a lost connection or a timeout: the call may have had its effect, or may still have it.
    Unknown {
        why: String,
    },
}

/// The reason of an outcome that is unknown because the call timed out.
pub const UNANSWERED: &str = "no answer in time";

/// The part of a response that is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Nothing,
    Taken {
        message: String,
        queued: bool,
    },
    /// The id of what was created.
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
    /// The ids in a list.
    Ids {
        ids: Vec<String>,
    },
}

impl Call {
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Outcome::Done(_))
    }

    /// The error code of a refusal.
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

    /// The message id of an accepted send.
    pub fn taken(&self) -> Option<&str> {
        match self.answer() {
            Some(Answer::Taken { message, .. }) => Some(message),
            _ => None,
        }
    }

    /// The id of what the call created.
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
    /// `data.message_id`, if the event has one.
    pub message: Option<String>,
    /// `data.status` of `message.status`.
    pub status: Option<String>,
    /// The sender's number of a `message.received`.
    #[serde(default)]
    pub from: Option<String>,
    /// Whether the signature is valid; `None` if the receiver does not know the secret.
    pub signed: Option<bool>,
    /// The receiver's response; `None` if it hangs or closes the connection.
    pub answered: Option<u16>,
}

/// An event as a stream showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub at: At,
    pub tenant: String,
    pub stream: u32,
    /// Counts the connections of a stream; each resumes where the one before ended.
    pub connection: u32,
    pub node: u64,
    pub event: String,
    /// `None` for the stream's own frames (`stream.gap`, `stream.closing`).
    pub event_id: Option<String>,
    pub channel: Option<String>,
    pub message: Option<String>,
    /// The contents of an [`Op::Notice`].
    #[serde(default)]
    pub notice: Option<String>,
}

/// The effect of a fault, for which the checks must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A process ends without notice.
    Crash,
    /// A process stands still.
    Pause,
    /// Nodes cannot reach each other, or with loss or delay, but reach the network.
    PeerCut,
    /// A node cannot reach the network, or only slowly.
    NetworkCut,
    /// A slow, full or failing disk.
    Disk,
    /// Files of a stopped node are changed.
    Damage,
    /// A clock jumps.
    Clock,
    /// Join, drain, remove, rebalance, rolling restart.
    Membership,
    /// The network loses sends before acceptance.
    LoseSends,
    /// The network loses its acceptances.
    LoseAcceptances,
    /// The network refuses sends, or logins permanently.
    Refuse,
    /// The network is slow to accept sends, logins or acknowledgements.
    Slow,
    /// The network does not drop repeated message ids.
    KeepRepeats,
    Failpoint,
    /// A tenant uses all that its limits allow, beside another that is measured.
    Noise,
    /// Unusual but harmless actions of tenants.
    Use,
}

/// A fault, from the moment before it begins to the moment after it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    pub from: At,
    pub to: At,
    pub kind: FaultKind,
    /// The affected nodes; empty if all or none are.
    pub nodes: Vec<u64>,
    /// For people: `kill -9 of node 2`.
    pub what: String,
}

impl Fault {
    /// Whether the fault was active at any moment between `from` and `to`, or ended less than `after` before `from`.
    pub fn touches(&self, from: At, to: At, after: Duration) -> bool {
        self.from <= to && from <= self.to.plus(after)
    }
}

/// Damage to the files of a node, and the node's reaction (I11).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Damage {
    pub at: At,
    pub node: u64,
    /// The file, and the damage to it.
    pub what: String,
    /// The log line with which the node refused to run on the file or to serve it; `None` if it ran.
    pub refused: Option<String>,
    /// Whether the node may drop or repair the damaged part without loss (a torn tail, a cache).
    pub harmless: bool,
}

/// The leader of a group when the harness looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderSeen {
    /// When the harness asked, and when it got the response: it was so at some moment in between.
    pub asked: At,
    pub at: At,
    pub group: u16,
    pub leader: Option<u64>,
    pub term: u64,
}

/// The progress of a group whose leader had entries that were not applied when the harness looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// As in [`LeaderSeen`].
    pub asked: At,
    pub at: At,
    pub group: u16,
    pub leader: u64,
    pub term: u64,
    /// The last entry that the leader had applied.
    pub applied: u64,
    /// The number of further entries in its log.
    pub lag: u64,
    /// Whether the leader itself reported that it commits nothing.
    #[serde(default)]
    pub named: bool,
    /// Bytes sent of the snapshots in transfer to voters; `None` if there are none.
    #[serde(default)]
    pub sent: Option<u64>,
}

/// A node's process that ended other than by the harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub at: At,
    pub node: u64,
    /// Its exit code or signal, and the last line of its log.
    pub how: String,
}

/// The participants of a run, which the checks need to know beside the records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub tenants: Vec<Tenant>,
    /// Channels that are connected from the beginning to the end.
    pub channels: Vec<Channel>,
    /// Channels that are created and deleted during the run, and were connected for a while or meant to be.
    #[serde(default)]
    pub passing: Vec<Channel>,
    /// Endpoints that do not change from the beginning to the end.
    pub endpoints: Vec<Endpoint>,
    /// Customers with a small bucket.
    pub limited: Vec<Limited>,
    /// Channels that are stopped while they have much to send, and resumed. They are among the `passing` ones, too.
    #[serde(default)]
    pub stopped: Vec<Channel>,
    /// The customer that is measured while another one makes noise.
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
    /// `None` if it receives the events of all channels of the customer.
    pub channel: Option<String>,
    pub manner: Manner,
    /// When the response to its creation arrived, if it was created during the run: it receives what began after that.
    #[serde(default)]
    pub since: Option<At>,
}

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    Good,
    /// Accepts after a while.
    Slow,
    /// Answers the first attempt of every fifth delivery with 500.
    Flaky,
    Broken,
    Hangs,
    Cuts,
    /// 410, after which the gateway disables the endpoint.
    Gone,
    Redirects,
}

impl Manner {
    /// Whether everything must be delivered in the end.
    pub fn takes_all(self) -> bool {
        matches!(self, Self::Good | Self::Slow | Self::Flaky)
    }

    /// Whether the gateway keeps its deliveries, however it answers.
    pub fn stays_on(self) -> bool {
        self != Self::Gone
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limited {
    pub tenant: String,
    pub burst: f64,
    pub per_second: f64,
    /// The group whose owner is the coordinator.
    pub home: u16,
}
