//! Faults of the product, put back on purpose as somebody might make them: what looks for faults has to find each. The product does
//! not contain them; `mutations/build.sh` applies their patches to a copy, and builds a gateway whose failpoints bear their names.

model::words! {
    /// A fault that is put back, by the name of its failpoint in a build that has it.
    Bug {
        /// A send is answered before it is committed: one whose owner dies just then was answered and is lost.
        AnswerBeforeCommit = "bug::answer_before_commit",
        /// An owner goes on speaking to the network when its time is up, and the state machine takes entries of an older
        /// epoch: two owners speak for one channel.
        IgnoreFence = "bug::ignore_fence",
        /// The next owner writes what it finds in the outbox under new message ids: the network cannot drop repeats.
        ResendUnderNewId = "bug::resend_under_new_id",
        /// The next owner does not look for deliveries that wait: they are never attempted.
        ForgetDeliveries = "bug::forget_deliveries",
        /// A copy of the directory is used however old it is: a node that hears nothing lets revoked keys in.
        ServeStaleKey = "bug::serve_stale_key",
        /// The log is written and not synced, and said to be: a power cut takes what was acknowledged.
        SkipFsync = "bug::skip_fsync",
        /// The last row of a snapshot is not sent: the follower's state lacks it.
        ForgetSnapshotTail = "bug::forget_snapshot_tail",
        /// The next home of a bucket fills and refills it twice over.
        DoubleBucket = "bug::double_bucket",
        /// An item is acknowledged to the network before it is committed: one whose owner dies just then is lost.
        AcknowledgeBeforeCommit = "bug::acknowledge_before_commit",
        /// An item that the network sends again is taken for a new one: it is stored twice and told of twice.
        TakeRepeatForNew = "bug::take_repeat_for_new",
        /// A channel is found by its id whosever it is.
        FindForeignChannel = "bug::find_foreign_channel",
        /// What waits in the outbox is written newest first.
        ReverseOutbox = "bug::reverse_outbox",
        /// The next owner does not recover its channels: they stay without a session.
        LeaveUnclaimed = "bug::leave_unclaimed",
    }
}
