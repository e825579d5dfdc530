//! Faults of the product, put back on purpose as somebody might make them: what looks for faults has to find each. The product does
//! not contain them; `mutations/build.sh` applies their patches to a copy, and builds a gateway whose failpoints bear their names.

/// A fault that is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A send is answered before it is committed: one whose owner dies just then was answered and is lost.
    AnswerBeforeCommit,
    /// An owner goes on speaking to the network when its time is up, and the state machine takes entries of an older
    /// epoch: two owners speak for one channel.
    IgnoreFence,
    /// The next owner writes what it finds in the outbox under new message ids: the network cannot drop repeats.
    ResendUnderNewId,
    /// The next owner does not look for deliveries that wait: they are never attempted.
    ForgetDeliveries,
    /// A copy of the directory is used however old it is: a node that hears nothing lets revoked keys in.
    ServeStaleKey,
    /// The log is written and not synced, and said to be: a power cut takes what was acknowledged.
    SkipFsync,
    /// The last row of a snapshot is not sent: the follower's state lacks it.
    ForgetSnapshotTail,
    /// The next home of a bucket fills and refills it twice over.
    DoubleBucket,
    /// An item is acknowledged to the network before it is committed: one whose owner dies just then is lost.
    AcknowledgeBeforeCommit,
    /// An item that the network sends again is taken for a new one: it is stored twice and told of twice.
    TakeRepeatForNew,
    /// A channel is found by its id whosever it is.
    FindForeignChannel,
    /// What waits in the outbox is written newest first.
    ReverseOutbox,
    /// The next owner does not recover its channels: they stay without a session.
    LeaveUnclaimed,
}

impl Bug {
    pub const ALL: &[Self] = &[
        Self::AnswerBeforeCommit,
        Self::IgnoreFence,
        Self::ResendUnderNewId,
        Self::ForgetDeliveries,
        Self::ServeStaleKey,
        Self::SkipFsync,
        Self::ForgetSnapshotTail,
        Self::DoubleBucket,
        Self::AcknowledgeBeforeCommit,
        Self::TakeRepeatForNew,
        Self::FindForeignChannel,
        Self::ReverseOutbox,
        Self::LeaveUnclaimed,
    ];

    /// The name of its failpoint, in a build that has the fault.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnswerBeforeCommit => "bug::answer_before_commit",
            Self::IgnoreFence => "bug::ignore_fence",
            Self::ResendUnderNewId => "bug::resend_under_new_id",
            Self::ForgetDeliveries => "bug::forget_deliveries",
            Self::ServeStaleKey => "bug::serve_stale_key",
            Self::SkipFsync => "bug::skip_fsync",
            Self::ForgetSnapshotTail => "bug::forget_snapshot_tail",
            Self::DoubleBucket => "bug::double_bucket",
            Self::AcknowledgeBeforeCommit => "bug::acknowledge_before_commit",
            Self::TakeRepeatForNew => "bug::take_repeat_for_new",
            Self::FindForeignChannel => "bug::find_foreign_channel",
            Self::ReverseOutbox => "bug::reverse_outbox",
            Self::LeaveUnclaimed => "bug::leave_unclaimed",
        }
    }
}
