//! The metrics of this crate, each named and described once.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::machine::GroupId;

/// Defines the names of metrics, and describes them to the installed recorder.
macro_rules! metrics {
    ($($name:ident = $text:literal, $describe:ident!($($unit:ident,)? $about:literal);)*) => {
        $(const $name: &str = $text;)*

        fn describe_each() {
            $($describe!($name, $(Unit::$unit,)? $about);)*
        }
    };
}

metrics! {
    SYNC_SECONDS = "raft_log_sync_seconds",
        describe_histogram!(Seconds, "time to write and sync one batch of log writes");
    SYNC_WRITES = "raft_log_sync_writes",
        describe_histogram!(Count, "log writes (appends, votes, cuts) that shared one sync");
    LOG_ENTRY_BYTES = "raft_log_entry_bytes_total",
        describe_counter!(Bytes, "entries that were written to the log and synced, encoded");
    APPLY_ENTRIES = "raft_apply_entries", describe_histogram!(Count, "entries applied and written in one batch");
    APPLY_SECONDS = "raft_apply_seconds", describe_histogram!(Seconds, "time to apply and write one batch of entries");
    ELECTIONS = "raft_elections_won_total",
        describe_counter!(Count, "times this node became ready as the leader of a group");
    GROUPS_DEAD = "raft_groups_dead", describe_gauge!(Count, "groups of this node that died and do not run again yet");
    GROUPS_STALLED = "raft_groups_stalled",
        describe_gauge!(Count, "groups that this node leads and commits nothing of what it proposed in");
    STEP_DOWNS = "raft_step_downs_total",
        describe_counter!(Count, "times this node stepped down as a leader that committed nothing");
    GROUPS_DIED = "raft_groups_died_total", describe_counter!(Count, "times a group of this node died");
    SNAPSHOT_INSTALLS = "raft_snapshot_installs_total",
        describe_counter!(Count, "snapshots that replaced a group's state here");
    SNAPSHOT_SENDS = "raft_snapshot_sends_total", describe_counter!(Count, "snapshots streamed to a peer");
    ROOM = "gateway_room", describe_gauge!(
        "free space on the disks of the stores, and of media: 0 enough, 1 low (media is refused), 2 full (sends are \
         refused)"
    );
    ENTRIES_REFUSED = "raft_entries_refused_total",
        describe_counter!(Count, "appends of other leaders refused because a disk is all but full");
    PEER_CONNECTS = "raft_peer_connects_total", describe_counter!(Count, "connections made to peers");
    PEER_REFUSALS = "raft_peer_refusals_total", describe_counter!(Count, "peers refused, by us or by them");
    REPLICAS_DIFFER = "raft_replicas_differ",
        describe_gauge!(Count, "replicas of groups led here whose state was another than the leader's at the same index");
    TASK_PANICS = "gateway_task_panics_total",
        describe_counter!(Count, "panics of tasks that a node needs, by task; most begin again");
}

const CONNECTIONS: &str = "gateway_connections";
const CONNECTIONS_REFUSED: &str = "gateway_connections_refused_total";

/// Describes the metrics to the installed recorder.
pub(crate) fn describe() {
    describe_each();
    // Registered at the start, so that the rate of an event that has not happened yet is 0 and not unknown.
    for counted in [LOG_ENTRY_BYTES, SNAPSHOT_INSTALLS, SNAPSHOT_SENDS, ENTRIES_REFUSED, PEER_CONNECTS, PEER_REFUSALS] {
        counter!(counted).increment(0);
    }
    for found in [GROUPS_DEAD, REPLICAS_DIFFER, GROUPS_STALLED] {
        gauge!(found).set(0.0);
    }
}

/// The metrics of a sync are looked up by name at the first sync: a node installs its recorder before it opens a log,
/// and handles created before that would record nothing.
pub(crate) fn log_synced(took: Duration, writes: usize, entry_bytes: usize) {
    static SECONDS: LazyLock<Histogram> = LazyLock::new(|| histogram!(SYNC_SECONDS));
    static WRITES: LazyLock<Histogram> = LazyLock::new(|| histogram!(SYNC_WRITES));
    static ENTRY_BYTES: LazyLock<Counter> = LazyLock::new(|| counter!(LOG_ENTRY_BYTES));
    SECONDS.record(took);
    WRITES.record(writes as f64);
    ENTRY_BYTES.increment(entry_bytes as u64);
}

/// Looked up at the first batch, like the metrics of a sync.
pub(crate) fn applied(took: Duration, entries: usize) {
    static SECONDS: LazyLock<Histogram> = LazyLock::new(|| histogram!(APPLY_SECONDS));
    static ENTRIES: LazyLock<Histogram> = LazyLock::new(|| histogram!(APPLY_ENTRIES));
    SECONDS.record(took);
    ENTRIES.record(entries as f64);
}

/// Functions for metrics that are counted at their source, and for gauges.
macro_rules! told {
    (
        counted { $($event:ident($($of:ident: $kind:ty)?) $counter:ident;)* }
        found { $($state:ident $gauge:ident;)* }
    ) => {
        $(pub(crate) fn $event($($of: $kind)?) {
            counter!($counter $(, stringify!($of) => $of.to_string())?).increment(1);
        })*
        $(pub(crate) fn $state(count: usize) {
            gauge!($gauge).set(count as f64);
        })*
    };
}

told! {
    counted {
        election_won(group: GroupId) ELECTIONS;
        group_died(group: GroupId) GROUPS_DIED;
        stepped_down(group: GroupId) STEP_DOWNS;
        snapshot_installed() SNAPSHOT_INSTALLS;
        snapshot_sent() SNAPSHOT_SENDS;
        entries_refused() ENTRIES_REFUSED;
        connection_refused(port: &'static str) CONNECTIONS_REFUSED;
        peer_connected() PEER_CONNECTS;
        peer_refused() PEER_REFUSALS;
        task_panicked(task: &'static str) TASK_PANICS;
    }
    found {
        groups_dead GROUPS_DEAD;
        groups_stalled GROUPS_STALLED;
        replicas_differ REPLICAS_DIFFER;
    }
}

pub(crate) fn room(of: &'static str, level: u8) {
    gauge!(ROOM, "of" => of).set(f64::from(level));
}

/// Describes the metrics of a port that opens.
pub(crate) fn describe_port(port: &'static str) {
    describe_gauge!(CONNECTIONS, Unit::Count, "connections that are open, by port");
    describe_counter!(CONNECTIONS_REFUSED, Unit::Count, "connections that were refused because a port was full");
    gauge!(CONNECTIONS, "port" => port).set(0.0);
    counter!(CONNECTIONS_REFUSED, "port" => port).increment(0);
}

pub(crate) fn connections(port: &'static str, open: usize) {
    gauge!(CONNECTIONS, "port" => port).set(open as f64);
}

/// Registers the panic counter of a task, so that it exists before the first panic.
pub(crate) fn task_begun(task: &'static str) {
    counter!(TASK_PANICS, "task" => task).increment(0);
}
