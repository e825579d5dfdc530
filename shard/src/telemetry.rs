//! What the metrics of this crate say, for those who read them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Gives every metric its help text.
pub fn describe() {
    describe_gauge!("gateway_channels", "Channels of the shards that this node owns, by status.");
    describe_gauge!("gateway_worker_slots", "Session slots of this node, used and free.");
    describe_gauge!("gateway_sse_streams", "Event streams that are open on this node.");
    describe_gauge!(
        "gateway_webhook_backlog",
        "Webhook deliveries that this node knows to wait (pending) or attempts (in_flight)."
    );
    describe_gauge!(
        "gateway_webhook_pace",
        "Attempts a second that this node makes at most at deliveries that have waited."
    );
    describe_counter!(
        "gateway_channel_transitions_total",
        "Moves of the channels' status machine, by origin, target and reason."
    );
    describe_counter!("gateway_sends_total", "Sends that ended, by message type and outcome.");
    describe_counter!("gateway_inbound_total", "Messages received from the network, by type.");
    describe_counter!("gateway_webhook_attempts_total", "Attempts at webhook deliveries, by outcome.");
    describe_counter!("gateway_lease_lost_total", "Ownerships of shards that ended without a hand-over.");
    describe_counter!("gateway_trimmed_total", "Stored things that were deleted by age, by kind.");
    describe_histogram!(
        "gateway_send_seconds",
        Unit::Seconds,
        "From the acceptance of a send here to its acceptance by the network."
    );
    describe_histogram!(
        "gateway_failover_seconds",
        Unit::Seconds,
        "From an election won to the channels of the shard being claimed."
    );
    describe_histogram!(
        "gateway_inbound_to_webhook_seconds",
        Unit::Seconds,
        "From an inbound message's commit to its first successful webhook."
    );
}
