//! Disks of programs that were killed: their mounts remain, and every call in them fails.

use std::path::Path;

use nix::mount::{MntFlags, umount2};

const PREFIX: &str = "gateway-disk";

/// The source of a disk of this process in the table of mounts.
pub(super) fn source(name: &str) -> String {
    format!("{PREFIX}:{}:{name}", std::process::id())
}

/// Unmounts the disks of processes that have ended.
pub(super) fn remove() {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // Of several mounts over a folder the last one is visible, and must be unmounted first.
    for point in table.lines().rev().filter_map(left_over) {
        if let Err(error) = umount2(Path::new(point), MntFlags::MNT_DETACH) {
            tracing::warn!(%error, point, "cannot unmount the disk of a program that is gone");
        }
    }
}

/// The mount point in a line of the table, if it is a disk whose process has ended.
fn left_over(line: &str) -> Option<&str> {
    // 36 35 0:34 / /mount/point rw,nodev shared:1 - fuse source options
    let (place, kind) = line.split_once(" - ")?;
    let owner = kind.split(' ').nth(1)?.strip_prefix(PREFIX)?.split(':').nth(1)?;
    let point = place.split(' ').nth(4)?;
    (!Path::new("/proc").join(owner).exists()).then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disks_of_processes_that_ended_are_left_over() {
        let line = |source: &str| format!("36 35 0:34 / /a/folder rw,nosuid shared:1 - fuse {source} rw,user_id=0");
        assert_eq!(left_over(&line("gateway-disk:4194999:a")), Some("/a/folder"));
        assert_eq!(left_over(&line(&source("a"))), None);
        assert_eq!(left_over(&line("sshfs")), None);
        assert_eq!(left_over("36 35 0:34 / / rw - overlay overlay rw"), None);
    }
}
