//! The types that openraft is configured with, private to this crate.

use std::fmt;

use bytes::Bytes;
use openraft::raft::responder::Responder;
use openraft::type_config::alias::{EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf};
use openraft::{OptionalSend, RaftTypeConfig};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::core_runtime::CoreRuntime;

/// A machine's command, as it is in the log. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command(Bytes);

/// Largest command, in bytes. A larger entry would block its whole group while it crosses a slow link; one that the
/// transport refuses would block it for good.
pub const MAX_COMMAND: usize = 1 << 20;

impl Command {
    /// A command to be proposed; every proposed command is created here.
    ///
    /// # Errors
    /// The size of the command, if it exceeds [`MAX_COMMAND`].
    pub(crate) fn new(bytes: Bytes) -> Result<Self, usize> {
        if bytes.len() <= MAX_COMMAND { Ok(Self(bytes)) } else { Err(bytes.len()) }
    }

    /// A command that is in a log already. Logs of earlier releases hold larger ones.
    pub(crate) fn logged(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A machine's reply to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply(pub(crate) Bytes);

/// Implements openraft's type configuration for a type, with this gateway's types and the given runtime.
///
/// The leader id is the standard one, with at most one leader a term: a term is the epoch that fences an owner, so two
/// leaders must never share one, as openraft's default allows.
macro_rules! gateway_types {
    ($name:ident on $runtime:ty) => {
        impl openraft::RaftTypeConfig for $name {
            type D = $crate::types::Command;
            type R = $crate::types::Reply;
            type NodeId = u64;
            type Node = ();
            type Term = u64;
            type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>;
            type Vote = openraft::impls::Vote<Self::LeaderId>;
            type Payload = openraft::EntryPayload<$crate::types::Command, u64, ()>;
            type Entry = openraft::Entry<<Self::LeaderId as openraft::vote::RaftLeaderId>::Committed, Self::Payload>;
            type AsyncRuntime = $runtime;
            type Responder<T>
                = $crate::types::Waiter<T>
            where
                T: openraft::OptionalSend + 'static;
            type Batch<T>
                = openraft::impls::InlineBatch<T>
            where
                T: openraft::OptionalSend + 'static;
            type ErrorSource = openraft::impls::BoxedErrorSource;
        }

        impl $crate::types::GatewayTypes for $name {}
    };
}
#[cfg(feature = "simulation")]
pub(crate) use gateway_types;

/// openraft's types on tokio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeConfig {}

gateway_types!(TypeConfig on CoreRuntime);

/// Passes the result of a proposal to its waiter. A waiter that is gone is no error: proposers may time out, or not
/// need the result.
pub(crate) struct Waiter<T>(pub(crate) oneshot::Sender<T>);

impl<C: RaftTypeConfig, T: OptionalSend + 'static> Responder<C, T> for Waiter<T> {
    fn on_complete(self, result: T) {
        let _ = self.0.send(result);
    }
}

/// The gateway's types on any runtime: tokio or simulated time.
pub(crate) trait GatewayTypes:
    RaftTypeConfig<
        D = Command,
        R = Reply,
        NodeId = u64,
        Node = (),
        Term = u64,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
    >
{
}

pub(crate) type Entry = EntryOf<TypeConfig>;
pub(crate) type LogId = LogIdOf<TypeConfig>;
pub(crate) type Vote = VoteOf<TypeConfig>;
pub(crate) type Membership = StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = SnapshotMetaOf<TypeConfig>;
pub(crate) type Snapshot<D> = SnapshotOf<TypeConfig, D>;

/// A log id from its parts.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(openraft::vote::leader_id_std::CommittedLeaderId::new(term), index)
}

pub(crate) fn term_of(id: &LogId) -> u64 {
    id.leader_id.term
}
