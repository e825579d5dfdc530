//! Faults of a disk, and the files that they affect.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The faults of a disk from now on. The default is a healthy disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// Syncs of these files or folders fail with EIO. As on Linux, the data then counts as written: a later successful
    /// sync does not bring it to the disk.
    pub failing_syncs: Option<Files>,
    /// Writes to these files fail with EIO.
    pub failing_writes: Option<Files>,
    /// Bytes by which all files together may still grow, then ENOSPC. Deleted files free their bytes.
    pub free: Option<u64>,
    /// Extra time of each write.
    pub write_delay: Duration,
    /// Extra time of each sync.
    pub sync_delay: Duration,
}

/// A set of files of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Files {
    /// Files in this folder and below, relative to the root of the disk; all files, if empty.
    pub below: PathBuf,
    /// Files whose names end with this.
    pub ending: String,
}

impl Files {
    /// All files.
    pub fn all() -> Self {
        Self::default()
    }

    /// The files in a folder of the disk, and below.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self { below: folder.into(), ending: String::new() }
    }

    /// Only files whose names end with `ending`.
    pub fn ending(mut self, ending: &str) -> Self {
        ending.clone_into(&mut self.ending);
        self
    }

    /// Whether the set contains the file. A file that was deleted and is still open has no name.
    pub(super) fn has(&self, file: Option<&Path>) -> bool {
        match file {
            Some(file) => file.starts_with(&self.below) && file.as_os_str().to_string_lossy().ends_with(&self.ending),
            None => *self == Self::all(),
        }
    }
}

/// What a power cut does to unsynced data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// All of it is lost.
    Everything,
    /// Each page of 4 KiB is lost or survives, drawn from the seed; names of files are all lost or all survive.
    SomePages { seed: u64 },
}

/// What a power cut has lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Files that disappeared or reappeared.
    pub names: usize,
    /// Pages that have their former content again.
    pub pages: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_folder_and_ending() {
        let tables = Files::below("raft").ending(".sst");
        assert!(tables.has(Some(Path::new("raft/000012.sst"))));
        assert!(!tables.has(Some(Path::new("raft/000012.log"))));
        assert!(!tables.has(Some(Path::new("raft.synced.sst"))));
        assert!(!tables.has(None));
        assert!(Files::all().has(Some(Path::new("raft.synced"))) && Files::all().has(None));
    }
}
