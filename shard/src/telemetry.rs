//! Descriptions of this crate's metrics. Counters and histograms are registered at start, so that the rate of an event
//! that has not happened yet is 0 and not unknown.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram};
use model::webhook::Outcome;
use parking_lot::RwLock;

/// Gives every metric its help text.
pub fn describe() {
    macro_rules! all {
        ($($describe:ident: $($name:literal $(in $unit:ident)? = $help:literal;)*)*) => {
            $($($describe!($name, $(Unit::$unit,)? $help);)*)*
        };
    }
    all! {
        describe_gauge:
        "gateway_channels" = "Channels of the shards that this node owns, by status.";
        "gateway_auth_bytes" in Bytes = "Protocol state of the channels whose sessions wrote any here.";
        "gateway_shards_owned" = "Shards that this node owns.";
        "gateway_shards_leaderless" = "Shards placed on this node that have no leader that it knows.";
        "gateway_ready" = "Whether this node accepts requests (1), as /readyz says.";
        "gateway_draining" = "Whether this node is drained (1).";
        "gateway_webhook_endpoints" =
            "Endpoints of all customers: enabled, disabled by their owner, or switched off by the gateway (gone, failing).";
        "gateway_certificate_seconds_left" in Seconds =
            "Until a certificate that this node shows or trusts expires, by the key of the configuration that names it.";
        "gateway_backup_age_seconds" in Seconds =
            "Since the last part of a backup was handed out; without any backup, since the cluster was formed.";
        "gateway_directory_age_seconds" in Seconds =
            "How old this node's copy of the directory may be; beyond 2 s it refuses requests.";
        "gateway_disk_bytes" in Bytes =
            "The disk under the data folder: free, total, and taken by the log and by the state.";
        "process_resident_memory_bytes" in Bytes = "Memory that this process has in use.";
        "process_open_fds" = "Files and sockets that this process has open.";
        "gateway_worker_slots" = "Session slots of this node, used and free.";
        "gateway_webhook_backlog" =
            "Webhook deliveries that this node knows to wait (pending) or attempts (in_flight).";
        "gateway_webhook_pace" = "Attempts per second that this node makes at most at deliveries that have waited.";
        describe_counter:
        "gateway_channel_transitions_total" = "Changes of channels' statuses, by origin, target and reason.";
        "gateway_deliveries_left_out_total" =
            "Deliveries of events that were left out because the URLs of the account's endpoints are too long together.";
        "gateway_commands_refused_total" = "Commands that were refused because no log entry can hold them.";
        "gateway_sends_total" = "Sends that ended, by message type and outcome.";
        "gateway_inbound_total" = "Messages received from the network, by type.";
        "gateway_inbound_beyond_bounds_total" =
            "Items of the network that were acknowledged and left out, as they named or held more than is ever kept.";
        "gateway_webhook_attempts_total" = "Attempts at webhook deliveries, by outcome.";
        "gateway_refused_for_room_total" =
            "What was refused or delayed because there is no space on the disks: media, bodies, sends, inbound items, \
             keys and other records of customers.";
        "gateway_lease_lost_total" = "Leaderships of shards that were lost without a transfer.";
        "gateway_media_repaired_total" = "Media that this node lacked or had damaged, and fetched from another.";
        "gateway_media_removed_total" = "Media removed because nothing refers to them any more.";
        "gateway_media_damaged_total" = "Media found to differ from what was stored.";
        "gateway_spans_dropped_total" = "Spans of traces that no collector accepted.";
        "gateway_trimmed_total" = "Stored things that were deleted by age, by kind.";
        describe_histogram:
        "gateway_send_seconds" in Seconds = "From the acceptance of a send here to its acceptance by the network.";
        "gateway_failover_seconds" in Seconds = "From an election won to the channels of the shard being recovered.";
        "gateway_inbound_to_webhook_seconds" in Seconds =
            "From an inbound message's commit to its first successful webhook.";
    }
    for outcome in Outcome::ALL {
        counter!("gateway_webhook_attempts_total", "outcome" => outcome.as_str()).increment(0);
    }
    for what in ["media", "body", "send", "inbound", "directory"] {
        counter!("gateway_refused_for_room_total", "what" => what).increment(0);
    }
    counter!("gateway_deliveries_left_out_total").increment(0);
    counter!("gateway_lease_lost_total").increment(0);
    counter!("gateway_spans_dropped_total").increment(0);
    counter!("gateway_media_repaired_total").increment(0);
    counter!("gateway_media_removed_total").increment(0);
    counter!("gateway_media_damaged_total").increment(0);
    drop(histogram!("gateway_send_seconds"));
    drop(histogram!("gateway_failover_seconds"));
    drop(histogram!("gateway_inbound_to_webhook_seconds"));
}

/// The metrics of sends that the network accepted. Their handles are created at first use: a node installs its recorder
/// before it serves requests, and handles created before that would record nothing.
struct Sends {
    seconds: Histogram,
    /// By message type; there are few types.
    sent: RwLock<Vec<(&'static str, Counter)>>,
}

/// The network accepted a send of this message type, `took` after it was accepted here.
pub(crate) fn sent(message_type: &'static str, took: Duration) {
    static SENDS: LazyLock<Sends> =
        LazyLock::new(|| Sends { seconds: histogram!("gateway_send_seconds"), sent: RwLock::default() });
    SENDS.seconds.record(took);
    let known = SENDS.sent.read().iter().find(|(known, _)| *known == message_type).map(|(_, sent)| sent.clone());
    let counter = known.unwrap_or_else(|| {
        let counter = counter!("gateway_sends_total", "type" => message_type, "outcome" => "sent");
        SENDS.sent.write().push((message_type, counter.clone()));
        counter
    });
    counter.increment(1);
}
