//! What goes wrong on a disk, and where.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a disk does wrong from now on. The default is a disk that is well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// Syncs of these files, or of these folders, fail with EIO. As on Linux, what was to be synced counts as written
    /// then: a later sync that succeeds does not bring it to the disk.
    pub failing_syncs: Option<Files>,
    /// Writes to these files fail with EIO.
    pub failing_writes: Option<Files>,
    /// Bytes by which files may still grow, all together; then ENOSPC. What is deleted gives its bytes back.
    pub free: Option<u64>,
    /// How long each write takes more.
    pub write_delay: Duration,
    /// How long each sync takes more.
    pub sync_delay: Duration,
}

/// Some of the files of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Files {
    /// Those in this folder and below, from the root of the disk; all, when it is empty.
    pub below: PathBuf,
    /// Those whose names end so.
    pub ending: String,
}

impl Files {
    /// Every file.
    pub fn all() -> Self {
        Self::default()
    }

    /// What lies in a folder of the disk, and below.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self { below: folder.into(), ending: String::new() }
    }

    /// With names of this ending only.
    pub fn ending(mut self, ending: &str) -> Self {
        ending.clone_into(&mut self.ending);
        self
    }

    /// Whether the file is one of them; one that was deleted and is still open has no name.
    pub(super) fn has(&self, file: Option<&Path>) -> bool {
        match file {
            Some(file) => file.starts_with(&self.below) && file.as_os_str().to_string_lossy().ends_with(&self.ending),
            None => *self == Self::all(),
        }
    }
}

/// What a power cut does to what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// All of it is lost.
    Everything,
    /// Each page of 4 KiB was written in time or was not, as the seed has it; files were made, renamed and deleted all in
    /// time or all too late.
    SomePages { seed: u64 },
}

/// What a power cut took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Files that are not, or again, where they were.
    pub names: usize,
    /// Pages that have their former content.
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
