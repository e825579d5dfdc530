//! Each bug, the invariant that it breaks, and the fault that makes it show.

use super::harm::Harm;
use crate::check::Invariant;
use crate::mutation::Bug;

/// A bug that must be found.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    pub bug: Bug,
    /// The invariant whose check must find it.
    pub invariant: Invariant,
    pub harm: Harm,
    /// The number of runs, each with another seed, within which it is found.
    pub runs: u64,
}

const fn proof(bug: Bug, invariant: Invariant, harm: Harm, runs: u64) -> Proof {
    Proof { bug, invariant, harm, runs }
}

/// All bugs that must be found.
pub const PROOFS: &[Proof] = &[
    proof(Bug::FindForeignChannel, Invariant::I12, Harm::None, 2),
    proof(Bug::TakeRepeatForNew, Invariant::I5, Harm::Repeats, 2),
    proof(Bug::ReverseOutbox, Invariant::I4, Harm::NoNetwork, 5),
    proof(Bug::ServeStaleKey, Invariant::I6, Harm::OldDirectory, 5),
    proof(Bug::IgnoreFence, Invariant::I3, Harm::DeafNode, 5),
    proof(Bug::AnswerBeforeCommit, Invariant::I1, Harm::LonelyDeath, 5),
    proof(Bug::AcknowledgeBeforeCommit, Invariant::I5, Harm::LonelyDeath, 5),
    proof(Bug::ResendUnderNewId, Invariant::I2, Harm::DeathOfOwner, 5),
    proof(Bug::ForgetDeliveries, Invariant::I5, Harm::DeathAmidDeliveries, 5),
    proof(Bug::DoubleBucket, Invariant::I7, Harm::DeathOfOwner, 5),
    proof(Bug::LeaveUnclaimed, Invariant::I10, Harm::DeathOfOwner, 5),
    proof(Bug::SkipFsync, Invariant::I1, Harm::PowerCut, 5),
    proof(Bug::ForgetSnapshotTail, Invariant::I9, Harm::LongAway, 5),
];
