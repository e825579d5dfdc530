//! `manifest.json`: what a backup consists of, and what each part has to be.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use model::format::{Foreign, Format};
use model::id::ShardId;
use model::time::Timestamp;
use raft::backup::file::{FileError, GroupReader};
use raft::machine::GroupId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::refusal::Refusal;

const FILE: &str = "manifest.json";

/// A backup as a whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Of the cluster: what its records may be.
    pub format: Format,
    /// The release that took it.
    pub release: String,
    pub cluster_id: Uuid,
    pub taken_at: Timestamp,
    pub shards: ShardId,
    pub groups: Vec<GroupPart>,
    pub media: Vec<MediaPart>,
    /// Bytes that a shard referred to and that were gone when they were asked for: their retention had passed.
    pub media_gone: u64,
}

/// The state of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPart {
    pub group: GroupId,
    pub bytes: u64,
    /// Of the file.
    pub sha256: String,
    /// What of the group's log the state shows.
    pub term: u64,
    pub index: u64,
    pub pairs: u64,
    /// Of the keys and values, in hex: equal states have equal ones.
    pub state_hash: String,
}

/// Bytes of media, in a file that their hash names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaPart {
    pub sha256: String,
    pub bytes: u64,
}

impl Manifest {
    pub fn new(release: String, format: Format, cluster_id: Uuid, shards: ShardId) -> Self {
        let taken_at = Timestamp::now();
        let (groups, media) = (Vec::new(), Vec::new());
        Self { format, release, cluster_id, taken_at, shards, groups, media, media_gone: 0 }
    }

    /// Reads that of a folder.
    ///
    /// # Errors
    /// A [`Refusal`] when there is none, or it is of another release.
    pub fn read(folder: &Path) -> Result<Self, Refusal> {
        let path = Self::file(folder);
        let subject = path.display().to_string();
        let text = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Refusal::new(
                &subject,
                "is missing: this is no backup, or one that was not finished",
                "name the folder of a backup that `gateway backup` has finished",
            ),
            _ => Refusal::new(&subject, error.to_string(), "make it readable"),
        })?;
        let damaged =
            |error: serde_json::Error| Refusal::new(&subject, format!("is damaged: {error}"), "take another backup");
        let manifest: Self = serde_json::from_slice(&text).map_err(damaged)?;
        if !manifest.format.is_known() {
            let problem = Foreign::Newer(manifest.format.number()).to_string();
            let remedy = format!("use release {}, which took the backup", manifest.release);
            return Err(Refusal::new(&subject, problem, remedy));
        }
        let mut groups: Vec<_> = manifest.groups.iter().map(|part| part.group).collect();
        groups.sort_unstable();
        if !groups.into_iter().eq(0..=manifest.shards) {
            return Err(Refusal::new(&subject, "does not name every group once", "take another backup"));
        }
        Ok(manifest)
    }

    pub fn file(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }
}

/// Where the state of a group lies.
pub fn group_file(folder: &Path, group: GroupId) -> PathBuf {
    folder.join(format!("group-{group:04}.state"))
}

/// Where bytes of media lie: as in a node's own folder of them.
pub fn media_file(folder: &Path, sha256: &str) -> PathBuf {
    folder.join(sha256.get(..2).unwrap_or_default()).join(sha256)
}

/// Reads the state of a group through; each pair goes to `each`. What is said of it holds once this has returned.
///
/// # Errors
/// Of the file, or of `each`.
pub fn read_group<E: From<FileError>>(
    path: &Path,
    mut each: impl FnMut(Vec<u8>, Vec<u8>) -> Result<(), E>,
) -> Result<GroupPart, E> {
    let file = File::open(path).map_err(FileError::Io)?;
    let mut reader = GroupReader::open(Hashing::new(BufReader::with_capacity(1 << 20, file)))?;
    while let Some((key, value)) = reader.next_pair()? {
        each(key, value)?;
    }
    let totals = reader.totals().ok_or(FileError::Incomplete)?;
    let (group, at) = (reader.group, reader.at);
    let (bytes, sha256) = reader.into_inner().finish();
    Ok(GroupPart {
        group,
        bytes,
        sha256,
        term: at.term,
        index: at.index,
        pairs: totals.pairs,
        state_hash: format!("{:016x}", totals.state_hash),
    })
}

/// Hashes what is read through it.
pub struct Hashing<R> {
    input: R,
    hash: Sha256,
    bytes: u64,
}

impl<R> Hashing<R> {
    pub fn new(input: R) -> Self {
        Self { input, hash: Sha256::new(), bytes: 0 }
    }

    /// How much was read, and its hash.
    pub fn finish(self) -> (u64, String) {
        (self.bytes, hex::encode(self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(into)?;
        self.hash.update(&into[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
