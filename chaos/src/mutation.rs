//! Bugs of the product, put back on purpose as somebody might write them: the checks must find each. The product does
//! not contain them; `mutations/build.sh` applies their patches to a copy, and builds a gateway with their failpoints.

model::words! {
    /// A bug that is put back, by the name of its failpoint in a build that has it.
    Bug {
        /// A send is answered before it is committed: if its owner dies in between, an answered send is lost.
        AnswerBeforeCommit = "bug::answer_before_commit",
        /// An owner goes on speaking to the network after its fence has expired, and the state machine accepts entries
        /// of an older epoch: two owners speak for one channel.
        IgnoreFence = "bug::ignore_fence",
        /// The next owner sends what is in the outbox under new message ids, so that the network cannot drop repeats.
        ResendUnderNewId = "bug::resend_under_new_id",
        /// The next owner does not look for pending deliveries: they are never attempted.
        ForgetDeliveries = "bug::forget_deliveries",
        /// A copy of the directory is used whatever its age: a disconnected node accepts revoked keys.
        ServeStaleKey = "bug::serve_stale_key",
        /// The log is reported as synced without an fsync: a power cut loses what was acknowledged.
        SkipFsync = "bug::skip_fsync",
        /// The last row of a snapshot is not sent: the follower's state lacks it.
        ForgetSnapshotTail = "bug::forget_snapshot_tail",
        /// A coordinator fills and refills the buckets of rate limits with twice their amounts.
        DoubleBucket = "bug::double_bucket",
        /// An item is acknowledged to the network before it is committed: if its owner dies in between, it is lost.
        AcknowledgeBeforeCommit = "bug::acknowledge_before_commit",
        /// An item that the network delivers again is treated as new: it is stored twice and reported twice.
        TakeRepeatForNew = "bug::take_repeat_for_new",
        /// A channel is found by its id, whatever customer it belongs to.
        FindForeignChannel = "bug::find_foreign_channel",
        /// The outbox is written newest first.
        ReverseOutbox = "bug::reverse_outbox",
        /// The next owner does not recover its channels: they stay without a session.
        LeaveUnclaimed = "bug::leave_unclaimed",
    }
}
