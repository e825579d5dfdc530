//! Bugs of the gateway that are put back on purpose, to show that the simulation finds them.

use clap::ValueEnum;
use raft::simulation::Flaw;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// A send is answered when it is proposed, and not when it is committed.
    AckBeforeCommit,
    /// The store takes commands of an owner of the past.
    NoEpochCheck,
    /// A send whose outcome is unknown is repeated under another id.
    NewIdOnRetry,
    /// The directory applies a proposal as often as it stands in the log.
    NoRepeatCheck,
    /// Reads of the directory show whatever stands here.
    StaleRead,
    /// An owner speaks to the network for as long as it believes itself the leader.
    NoFence,
    /// A state machine that does not do the same on every node.
    UnequalReplicas,
    SkipSync,
    ForgetVote,
    VoteAtOnce,
    CutSnapshot,
    NoLongAppends,
}

impl Bug {
    /// The storage flaw that stands for this bug, if the bug lies in the storage.
    pub fn flaw(self) -> Option<Flaw> {
        match self {
            Self::SkipSync => Some(Flaw::SkipSync),
            Self::ForgetVote => Some(Flaw::ForgetVote),
            Self::VoteAtOnce => Some(Flaw::VoteAtOnce),
            Self::CutSnapshot => Some(Flaw::CutSnapshot),
            Self::NoLongAppends => Some(Flaw::NoLongAppends),
            _ => None,
        }
    }
}
