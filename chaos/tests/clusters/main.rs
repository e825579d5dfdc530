//! Tests with faults injected into clusters. Each keeps two cores busy, so they run one after the other.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bad_disks;
mod bugs_are_caught;
mod disk_use;
mod quick_run;

use tokio::sync::{Mutex, MutexGuard};

/// Reserves the machine for one test: two at once would slow each other down, and neither cluster would heal in time.
async fn machine() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// As [`machine`], if this process may create networks and mount disks; otherwise `None`, and a line that says so.
async fn rooted_machine() -> Option<MutexGuard<'static, ()>> {
    if chaos::commands::lacks_root() {
        return None;
    }
    Some(machine().await)
}
