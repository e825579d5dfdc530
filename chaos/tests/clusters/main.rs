//! Clusters that are broken on purpose, and judged. Each test keeps two cores busy, so they come one after the other.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bad_disks;
mod bugs_are_caught;
mod disk_use;
mod quick_run;

use tokio::sync::{Mutex, MutexGuard};

/// The machine, for one test: two at once would wait for each other, and neither cluster would heal in time.
async fn machine() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// The machine as [`machine`], where this process may make networks and mount disks; `None`, and a line that says so, elsewhere.
async fn rooted_machine() -> Option<MutexGuard<'static, ()>> {
    if chaos::commands::lacks_root() {
        return None;
    }
    Some(machine().await)
}
