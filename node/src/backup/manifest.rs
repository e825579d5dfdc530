//! `manifest.json`: the list of a backup's parts, with their sizes and hashes.

use std::io::{self, Read};

use model::format::{Foreign, Format};
use model::id::ShardId;
use model::time::Timestamp;
use raft::backup::file::{FileError, GroupReader};
use raft::machine::GroupId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::depot::Depot;
use crate::refusal::{Refusal, ensure};

/// The part that describes all others; written last.
pub const MANIFEST: &str = "manifest.json";

/// The last field of a manifest: the hash of all other fields.
const SEAL: &str = "manifest_sha256";

/// The description of a whole backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The cluster's format, which determines the format of the records.
    pub format: Format,
    /// The release that took the backup.
    pub release: String,
    pub cluster_id: Uuid,
    pub taken_at: Timestamp,
    pub shards: ShardId,
    pub groups: Vec<GroupPart>,
    pub media: Vec<MediaPart>,
    /// Number of media files that a shard referred to, but whose retention had passed before they were fetched.
    pub media_gone: u64,
}

/// The exported state of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPart {
    pub group: GroupId,
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Term and index of the last log entry included in the state.
    pub term: u64,
    pub index: u64,
    pub pairs: u64,
    /// Hash of the keys and values, in hex: equal states have equal hashes.
    pub state_hash: String,
}

/// A media file, named by its hash.
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

    /// Reads the manifest of a backup.
    ///
    /// # Errors
    /// A [`Refusal`] when it is missing or damaged, or has a newer format.
    pub fn read(depot: &Depot) -> Result<Self, Refusal> {
        let subject = depot.shown(MANIFEST);
        let read = || -> io::Result<Vec<u8>> {
            let mut text = Vec::new();
            depot.open(MANIFEST)?.read_to_end(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Refusal::new(
                &subject,
                "is missing: this is not a backup, or it was not finished",
                "name the place of a backup that `gateway backup` has finished",
            ),
            _ => Refusal::new(&subject, error, "make it readable"),
        })?;
        let damaged =
            |error: serde_json::Error| Refusal::new(&subject, format!("is damaged: {error}"), "take another backup");
        let manifest = unsealed(serde_json::from_slice(&text).map_err(damaged)?)
            .map_err(|problem| Refusal::new(&subject, problem, "use another copy of this backup, or another backup"))?;
        let manifest: Self = serde_json::from_value(manifest).map_err(damaged)?;
        let problem = Foreign::Newer(manifest.format.number());
        let remedy = format!("use release {}, which took the backup", manifest.release);
        ensure(manifest.format.is_known(), &subject, problem, remedy)?;
        let mut groups: Vec<_> = manifest.groups.iter().map(|part| part.group).collect();
        groups.sort_unstable();
        let is_whole = groups.into_iter().eq(0..=manifest.shards);
        ensure(is_whole, &subject, "does not name every group once", "take another backup")?;
        Ok(manifest)
    }

    /// The file's content: the manifest with the hash of its fields.
    ///
    /// # Errors
    /// None in practice: a manifest is plain fields.
    pub fn sealed(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut said = serde_json::to_value(self)?;
        let seal = hash(&said);
        said[SEAL] = Value::String(seal);
        serde_json::to_vec_pretty(&said)
    }
}

/// Checks and removes the hash of a manifest. Manifests of early releases have no hash.
fn unsealed(mut said: Value) -> Result<Value, &'static str> {
    let seal = said.as_object_mut().and_then(|fields| fields.remove(SEAL));
    match seal {
        Some(seal) if seal != hash(&said) => Err("is damaged: it does not have the hash that it names"),
        _ => Ok(said),
    }
}

/// Hash of the manifest's fields, independent of formatting.
fn hash(said: &Value) -> String {
    hex::encode(Sha256::digest(said.to_string()))
}

/// Name of the part with the state of a group.
pub fn group_name(group: GroupId) -> String {
    format!("group-{group:04}.state")
}

/// Name of the part with a media file.
pub fn media_name(sha256: &str) -> String {
    format!("media/{}", blob_name(sha256))
}

/// Path of a media file in a node's own media folder.
pub fn blob_name(sha256: &str) -> String {
    format!("{}/{sha256}", sha256.get(..2).unwrap_or_default())
}

/// Reads the state of a group and passes each pair to `each`. The pairs are verified only once this has returned.
///
/// # Errors
/// An error of the file, or of `each`.
pub fn read_group<E: From<FileError>>(
    depot: &Depot,
    group: GroupId,
    mut each: impl FnMut(Vec<u8>, Vec<u8>) -> Result<(), E>,
) -> Result<GroupPart, E> {
    let part = depot.open(&group_name(group)).map_err(FileError::Io)?;
    let mut reader = GroupReader::open(Hashing::new(part))?;
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

/// A reader that hashes what it reads.
pub struct Hashing<R> {
    input: R,
    hash: Sha256,
    bytes: u64,
}

impl<R> Hashing<R> {
    pub fn new(input: R) -> Self {
        Self { input, hash: Sha256::new(), bytes: 0 }
    }

    /// Number of bytes read, and their hash in hex.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_was_changed_is_refused_and_one_without_a_hash_is_read() {
        let manifest = Manifest::new("0.2.0".to_owned(), Format::LATEST, Uuid::from_u128(7), 2);
        let text = String::from_utf8(manifest.sealed().unwrap()).unwrap();
        let read = |text: &str| unsealed(serde_json::from_str(text).unwrap());
        let known = serde_json::to_value(&manifest).unwrap();
        assert_eq!(read(&text).unwrap(), known);
        assert_eq!(read(&known.to_string()).unwrap(), known, "as release 0.1.0 wrote it");
        let other = Uuid::from_u128(8).to_string();
        for (from, to) in [
            (manifest.cluster_id.to_string(), other.as_str()),
            (format!("\"taken_at\": {}", known["taken_at"]), "\"taken_at\": 0"),
            ("\"media_gone\": 0".to_owned(), "\"media_gone\": 1"),
        ] {
            assert!(text.contains(&from), "{text} without {from}");
            assert!(read(&text.replacen(&from, to, 1)).is_err(), "{from}");
        }
    }
}
