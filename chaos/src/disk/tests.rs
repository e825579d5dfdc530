//! The disk as a program sees it, really mounted.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::commands::lacks_root;

use super::{Faults, FaultyDisk, Files, Loss};

/// `None` if this process may not mount.
fn disk() -> Option<(FaultyDisk, TempDir)> {
    if lacks_root() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::mount("test", folder.path()).unwrap();
    Some((disk, folder))
}

fn sync_folder(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// A file whose content and name are on the disk.
fn synced(path: &Path, content: &[u8]) -> File {
    let mut file = File::create(path).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    sync_folder(path.parent().unwrap());
    file
}

#[test]
fn a_power_cut_takes_what_was_not_synced_and_nothing_else() {
    let Some((disk, _folder)) = disk() else { return };
    let at = |name: &str| disk.path().join(name);
    let mut kept = synced(&at("kept"), b"synced");
    kept.write_all(b", and more").unwrap();
    kept.write_at(b"S", 0).unwrap();
    fs::write(at("never synced"), "x").unwrap();
    let no_name = File::create(at("without a synced folder")).unwrap();
    no_name.sync_all().unwrap();
    assert_eq!(fs::read(at("kept")).unwrap(), b"Synced, and more");

    let lost = disk.crash(Loss::Everything).unwrap();
    assert_eq!((lost.names, lost.pages), (2, 1));
    assert_eq!(fs::read(at("kept")).unwrap(), b"synced");
    assert!(!at("never synced").exists() && !at("without a synced folder").exists());
    assert!(kept.write_all(b"after the cut").is_err(), "what was open is open no more");
    assert!(kept.sync_all().is_err());
    fs::write(at("kept"), "new").unwrap();
    assert_eq!(fs::read(at("kept")).unwrap(), b"new");
}

#[test]
fn names_come_back_as_their_folder_was_synced() {
    let Some((disk, _folder)) = disk() else { return };
    let at = |name: &str| disk.path().join(name);
    for name in ["deleted", "replaced", "renamed", "kept"] {
        synced(&at(name), name.as_bytes());
    }
    fs::create_dir(at("below")).unwrap();
    synced(&at("below/moved"), b"moved");
    sync_folder(&at("below"));

    fs::remove_file(at("deleted")).unwrap();
    fs::write(at("new"), "new").unwrap();
    fs::rename(at("new"), at("replaced")).unwrap();
    fs::rename(at("renamed"), at("other")).unwrap();
    fs::hard_link(at("kept"), at("link")).unwrap();
    fs::rename(at("below/moved"), at("moved")).unwrap();
    disk.crash(Loss::Everything).unwrap();
    for name in ["deleted", "replaced", "renamed", "kept", "below/moved"] {
        assert_eq!(fs::read(at(name)).unwrap(), Path::new(name).file_name().unwrap().as_encoded_bytes(), "{name}");
    }
    let mut found: Vec<_> = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["below", "deleted", "kept", "renamed", "replaced"]);

    fs::rename(at("renamed"), at("other")).unwrap();
    fs::remove_file(at("deleted")).unwrap();
    sync_folder(disk.path());
    assert_eq!(disk.crash(Loss::Everything).unwrap().names, 0);
    assert!(at("other").exists() && !at("renamed").exists() && !at("deleted").exists());
}

#[test]
fn what_was_synced_stands_when_only_some_pages_are_lost() {
    let Some((disk, _folder)) = disk() else { return };
    let path = disk.path().join("file");
    let file = synced(&path, &[1; 40_000]);
    file.write_at(&[2; 20_000], 20_000).unwrap();
    file.write_at(&[3; 40_000], 40_000).unwrap();
    drop(file);
    let lost = disk.crash(Loss::SomePages { seed: 7 }).unwrap();
    assert!((1..15).contains(&lost.pages), "{lost:?}");
    let found = fs::read(&path).unwrap();
    assert!(found.len() >= 40_000 && found[..20_000].iter().all(|byte| *byte == 1));
}

#[test]
fn a_failing_sync_loses_its_bytes_though_the_next_one_succeeds() {
    let Some((disk, _folder)) = disk() else { return };
    fs::create_dir(disk.path().join("raft")).unwrap();
    let (here, there) = (disk.path().join("raft/1.log"), disk.path().join("1.log"));
    let (mut one, mut other) = (synced(&here, b"first"), synced(&there, b"first"));
    disk.set(Faults { failing_syncs: Some(Files::below("raft").ending(".log")), ..Faults::default() });
    for file in [&mut one, &mut other] {
        file.write_all(b" second").unwrap();
    }
    assert_eq!(one.sync_all().unwrap_err().raw_os_error(), Some(5));
    other.sync_all().unwrap();
    disk.set(Faults::default());
    one.sync_all().unwrap();
    disk.crash(Loss::Everything).unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"first second");
    assert_ne!(fs::read(&here).unwrap(), b"first second");
}

#[test]
fn a_full_disk_takes_no_more_until_something_is_deleted() {
    let Some((disk, _folder)) = disk() else { return };
    let at = |name: &str| disk.path().join(name);
    synced(&at("old"), &[0; 10_000]);
    disk.set(Faults { free: Some(5_000), ..Faults::default() });
    let mut file = File::create(at("new")).unwrap();
    let refused = file.write_all(&[1; 8_000]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert_eq!(file.metadata().unwrap().len(), 5_000, "as much of it as there was room for");
    // Overwriting needs no space.
    OpenOptions::new().write(true).open(at("old")).unwrap().write_all(&[2; 10_000]).unwrap();
    assert!(nix::sys::statvfs::statvfs(disk.path()).unwrap().blocks_available() == 0);
    fs::remove_file(at("old")).unwrap();
    file.write_all(&[1; 8_000]).unwrap();
}

#[test]
fn delays_are_those_that_were_set() {
    let Some((disk, _folder)) = disk() else { return };
    let mut file = File::create(disk.path().join("file")).unwrap();
    let delay = Duration::from_millis(60);
    disk.set(Faults { write_delay: delay, sync_delay: delay, ..Faults::default() });
    for act in [(|file: &mut File| file.write_all(b"x")) as fn(&mut File) -> _, |file| file.sync_data()] {
        let start = Instant::now();
        act(&mut file).unwrap();
        assert!(start.elapsed() >= delay);
    }
}

#[test]
fn damage_is_seen_by_whoever_opens_the_file() {
    let Some((disk, _folder)) = disk() else { return };
    let path = disk.path().join("file");
    drop(synced(&path, &[0; 100]));
    disk.flip_bit(Path::new("file"), 50).unwrap();
    assert_eq!(fs::read(&path).unwrap()[50], 0x10);
    disk.cut(Path::new("file"), 20).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [0; 20]);
    assert!(disk.cut(Path::new("another"), 20).is_err());
}

#[test]
fn the_folder_is_as_a_program_left_it_when_the_disk_is_gone() {
    let Some((disk, folder)) = disk() else { return };
    fs::create_dir_all(disk.path().join("a/b")).unwrap();
    fs::write(disk.path().join("a/b/file"), "kept").unwrap();
    let mut open = File::create(disk.path().join("open")).unwrap();
    fs::remove_dir_all(disk.path().join("a/b")).unwrap();
    fs::write(disk.path().join("a/file"), "kept").unwrap();
    drop(disk);
    assert_eq!(open.write_all(b"x").unwrap_err().raw_os_error(), Some(5));
    let mut found: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["a", "open"]);
    assert_eq!(fs::read(folder.path().join("a/file")).unwrap(), b"kept");
}
