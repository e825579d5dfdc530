//! The metrics of this crate, each named and described once.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::machine::GroupId;

const SYNC_SECONDS: &str = "raft_log_sync_seconds";
const SYNC_WRITES: &str = "raft_log_sync_writes";
const LOG_ENTRY_BYTES: &str = "raft_log_entry_bytes_total";
const APPLY_ENTRIES: &str = "raft_apply_entries";
const APPLY_SECONDS: &str = "raft_apply_seconds";
const ELECTIONS: &str = "raft_elections_won_total";
const GROUPS_DEAD: &str = "raft_groups_dead";
const GROUPS_STALLED: &str = "raft_groups_stalled";
const STEP_DOWNS: &str = "raft_step_downs_total";
const GROUPS_DIED: &str = "raft_groups_died_total";
const SNAPSHOT_INSTALLS: &str = "raft_snapshot_installs_total";
const SNAPSHOT_SENDS: &str = "raft_snapshot_sends_total";
const ROOM: &str = "gateway_room";
const ENTRIES_REFUSED: &str = "raft_entries_refused_total";
const CONNECTIONS: &str = "gateway_connections";
const CONNECTIONS_REFUSED: &str = "gateway_connections_refused_total";
const PEER_CONNECTS: &str = "raft_peer_connects_total";
const PEER_REFUSALS: &str = "raft_peer_refusals_total";
const REPLICAS_DIFFER: &str = "raft_replicas_differ";
const TASK_PANICS: &str = "gateway_task_panics_total";

/// Describes the metrics to the recorder that is installed.
pub(crate) fn describe() {
    describe_histogram!(SYNC_SECONDS, Unit::Seconds, "time to write and sync one batch of log writes");
    describe_histogram!(SYNC_WRITES, Unit::Count, "log writes (appends, votes, cuts) that shared one sync");
    describe_counter!(LOG_ENTRY_BYTES, Unit::Bytes, "entries that were written to the log and synced, encoded");
    describe_histogram!(APPLY_ENTRIES, Unit::Count, "entries applied and written in one batch");
    describe_histogram!(APPLY_SECONDS, Unit::Seconds, "time to apply and write one batch of entries");
    describe_counter!(ELECTIONS, Unit::Count, "times this node became ready as the leader of a group");
    describe_gauge!(GROUPS_DEAD, Unit::Count, "groups of this node that died and do not run again yet");
    describe_gauge!(
        GROUPS_STALLED,
        Unit::Count,
        "groups that this node leads and commits nothing of what it proposed in"
    );
    describe_counter!(STEP_DOWNS, Unit::Count, "times this node stepped down as a leader that committed nothing");
    describe_counter!(GROUPS_DIED, Unit::Count, "times a group of this node died");
    describe_counter!(SNAPSHOT_INSTALLS, Unit::Count, "snapshots that replaced a group's state here");
    describe_counter!(SNAPSHOT_SENDS, Unit::Count, "snapshots streamed to a peer");
    describe_gauge!(
        ROOM,
        "room on the disks of the stores, and of media: 0 enough, 1 low (no media are taken), 2 full (no sends are taken)"
    );
    describe_counter!(ENTRIES_REFUSED, Unit::Count, "appends of other leaders refused because a disk is all but full");
    describe_counter!(PEER_CONNECTS, Unit::Count, "connections made to peers");
    describe_counter!(PEER_REFUSALS, Unit::Count, "peers refused, by us or by them");
    describe_gauge!(
        REPLICAS_DIFFER,
        Unit::Count,
        "replicas of groups led here whose state was another than the leader's at the same index"
    );
    describe_counter!(TASK_PANICS, Unit::Count, "panics of tasks that a node needs, by task; most begin again");
    // There from the start: a rate of what has not happened yet is 0 and not unknown.
    for counted in [LOG_ENTRY_BYTES, SNAPSHOT_INSTALLS, SNAPSHOT_SENDS, ENTRIES_REFUSED, PEER_CONNECTS, PEER_REFUSALS] {
        counter!(counted).increment(0);
    }
    gauge!(GROUPS_DEAD).set(0.0);
    gauge!(REPLICAS_DIFFER).set(0.0);
    gauge!(GROUPS_STALLED).set(0.0);
}

/// The metrics of a sync. They are looked up by name at the first one: a node installs its recorder before it opens a log, and
/// a handle that was made before that would count for nobody.
struct Syncs {
    seconds: Histogram,
    writes: Histogram,
    entry_bytes: Counter,
}

pub(crate) fn log_synced(took: Duration, writes: usize, entry_bytes: usize) {
    static SYNCS: LazyLock<Syncs> = LazyLock::new(|| Syncs {
        seconds: histogram!(SYNC_SECONDS),
        writes: histogram!(SYNC_WRITES),
        entry_bytes: counter!(LOG_ENTRY_BYTES),
    });
    SYNCS.seconds.record(took);
    SYNCS.writes.record(writes as f64);
    SYNCS.entry_bytes.increment(entry_bytes as u64);
}

/// The metrics of a batch that is applied; looked up as those of a sync are.
struct Applies {
    seconds: Histogram,
    entries: Histogram,
}

pub(crate) fn applied(took: Duration, entries: usize) {
    static APPLIES: LazyLock<Applies> =
        LazyLock::new(|| Applies { seconds: histogram!(APPLY_SECONDS), entries: histogram!(APPLY_ENTRIES) });
    APPLIES.seconds.record(took);
    APPLIES.entries.record(entries as f64);
}

/// What is counted where it happens, and what is as it is found.
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

/// Of a port that opens.
pub(crate) fn describe_port(port: &'static str) {
    describe_gauge!(CONNECTIONS, Unit::Count, "connections that are open, by port");
    describe_counter!(
        CONNECTIONS_REFUSED,
        Unit::Count,
        "connections that were closed at once because a port had no room"
    );
    gauge!(CONNECTIONS, "port" => port).set(0.0);
    counter!(CONNECTIONS_REFUSED, "port" => port).increment(0);
}

pub(crate) fn connections(port: &'static str, open: usize) {
    gauge!(CONNECTIONS, "port" => port).set(open as f64);
}

/// A task that a node needs runs; so that its counter is there before it panics.
pub(crate) fn task_begun(task: &'static str) {
    counter!(TASK_PANICS, "task" => task).increment(0);
}
