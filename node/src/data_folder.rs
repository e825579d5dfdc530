//! A node's data folder: whose it is, and that only one process has it open.
//!
//! Its identity is written at the first start. A folder of another node or cluster is refused, since its log and votes
//! would be taken for this node's; the storage id lets the cluster notice a folder that was wiped.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use model::format::{Foreign, Format};
use model::id::NodeId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::refusal::Refusal;

const IDENTITY_FILE: &str = "identity.json";
const LOCK_FILE: &str = "lock";

/// Whose folder it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderIdentity {
    /// A release that does not understand it cannot open the folder.
    pub format: Format,
    pub cluster_id: Uuid,
    pub node_id: NodeId,
    /// Made with the folder; a node that comes back with another one has lost what it promised.
    pub storage_id: Uuid,
}

/// The folder, locked for as long as this lives.
#[derive(Debug)]
pub struct DataFolder {
    pub path: PathBuf,
    pub identity: FolderIdentity,
    _lock: File,
}

impl DataFolder {
    /// Makes an empty folder that of a node which the cluster knows by this storage id; one that is it already stays.
    ///
    /// # Errors
    /// As [`DataFolder::open`].
    pub fn claim(
        path: &Path,
        cluster_id: Uuid,
        node_id: NodeId,
        storage_id: Uuid,
        format: Format,
    ) -> Result<(), Refusal> {
        let folder = Self::open_as(path, cluster_id, node_id, storage_id, format)?;
        if folder.identity.storage_id == storage_id {
            return Ok(());
        }
        let subject = format!("node.data_dir ({})", path.display());
        Err(Refusal::new(subject, "holds another node's data", "name an empty folder"))
    }

    /// Makes a folder that of a node whose stores were put there, by a restore: the last of it that is written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn found(path: &Path, cluster_id: Uuid, node_id: NodeId, storage_id: Uuid, format: Format) -> io::Result<()> {
        write_identity(path, &FolderIdentity { format, cluster_id, node_id, storage_id })
    }

    /// Notes that only releases that understand this format may open the folder from now on; never an earlier one again.
    /// Blocks on disk.
    ///
    /// # Errors
    /// When it cannot be written, or is not there any more.
    pub fn seal(path: &Path, format: Format) -> io::Result<()> {
        let file = path.join(IDENTITY_FILE);
        let identity = read_identity(&file)?.ok_or_else(|| io::Error::other(format!("{} is gone", file.display())))?;
        if identity.format >= format {
            return Ok(());
        }
        write_identity(path, &FolderIdentity { format, ..identity })
    }

    /// Opens the folder of this node, or makes it one.
    ///
    /// # Errors
    /// A [`Refusal`] when it cannot be written, another process has it open, or it is another's.
    pub fn open(path: &Path, cluster_id: Uuid, node_id: NodeId) -> Result<Self, Refusal> {
        Self::open_as(path, cluster_id, node_id, Uuid::new_v4(), Format::FIRST)
    }

    /// A folder that is made gets this storage id and format.
    fn open_as(
        path: &Path,
        cluster_id: Uuid,
        node_id: NodeId,
        storage_id: Uuid,
        format: Format,
    ) -> Result<Self, Refusal> {
        let subject = format!("node.data_dir ({})", path.display());
        let unusable =
            |error: io::Error| Refusal::new(&subject, error.to_string(), "name a folder that this process may write");
        fs::create_dir_all(path).map_err(unusable)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE)).map_err(unusable)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                Refusal::new(&subject, "is in use by another process", "stop it, or give each node its own folder")
            }
            TryLockError::Error(error) => unusable(error),
        })?;
        let identity = match read_identity(&path.join(IDENTITY_FILE)).map_err(unusable)? {
            Some(identity) => {
                understood(identity.format)
                    .map_err(|problem| Refusal::new(&subject, problem, identity.format.remedy()))?;
                belongs(&identity, cluster_id, node_id).map_err(|problem| {
                    Refusal::new(&subject, problem, "name this node's own folder, or an empty one")
                })?;
                identity
            }
            None => {
                if path.join("raft").exists() || path.join("data").exists() {
                    let problem = format!("holds a store and no {IDENTITY_FILE}");
                    return Err(Refusal::new(subject, problem, "restore the file, or name an empty folder"));
                }
                let identity = FolderIdentity { format, cluster_id, node_id, storage_id };
                write_identity(path, &identity).map_err(unusable)?;
                identity
            }
        };
        Ok(Self { path: path.to_owned(), identity, _lock: lock })
    }
}

fn understood(format: Format) -> Result<(), String> {
    match format.is_known() {
        true => Ok(()),
        false => Err(Foreign::Newer(format.number()).to_string()),
    }
}

fn belongs(identity: &FolderIdentity, cluster_id: Uuid, node_id: NodeId) -> Result<(), String> {
    if identity.cluster_id != cluster_id {
        return Err(format!("belongs to cluster {}, and this is cluster {cluster_id}", identity.cluster_id));
    }
    if identity.node_id != node_id {
        return Err(format!("belongs to node {}, and this is node {node_id}", identity.node_id));
    }
    Ok(())
}

fn read_identity(path: &Path) -> io::Result<Option<FolderIdentity>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| io::Error::other(format!("{IDENTITY_FILE} cannot be read: {error}"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Durable before anything else is written: a store without an identity is refused.
fn write_identity(folder: &Path, identity: &FolderIdentity) -> io::Result<()> {
    let temporary = folder.join(format!("{IDENTITY_FILE}.tmp"));
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(identity)?)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(IDENTITY_FILE))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stays_with_its_node_and_keeps_its_storage_id() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, other) = (Uuid::new_v4(), Uuid::new_v4());
        let first = DataFolder::open(folder.path(), cluster, 1).unwrap().identity;
        assert_eq!(DataFolder::open(folder.path(), cluster, 1).unwrap().identity, first);
        let line = DataFolder::open(folder.path(), cluster, 2).unwrap_err().to_string();
        assert!(line.contains("node.data_dir") && line.contains("belongs to node 1"), "{line}");
        let line = DataFolder::open(folder.path(), other, 1).unwrap_err().to_string();
        assert!(line.contains("belongs to cluster"), "{line}");
    }

    #[test]
    fn a_folder_serves_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Uuid::new_v4();
        let open = DataFolder::open(folder.path(), cluster, 1).unwrap();
        let line = DataFolder::open(folder.path(), cluster, 1).unwrap_err().to_string();
        assert!(line.contains("in use by another process"), "{line}");
        drop(open);
        DataFolder::open(folder.path(), cluster, 1).unwrap();
    }

    #[test]
    fn a_store_that_lost_its_identity_and_one_of_a_later_format_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Uuid::new_v4();
        DataFolder::open(folder.path(), cluster, 1).unwrap();
        DataFolder::seal(folder.path(), Format::LATEST).unwrap();
        DataFolder::seal(folder.path(), Format::FIRST).unwrap();
        assert_eq!(DataFolder::open(folder.path(), cluster, 1).unwrap().identity.format, Format::LATEST);
        let file = folder.path().join(IDENTITY_FILE);
        let newer = Format::LATEST.number() + 1;
        let text = fs::read_to_string(&file).unwrap();
        let text = text.replace(&format!("\"format\": {}", Format::LATEST), &format!("\"format\": {newer}"));
        fs::write(&file, text).unwrap();
        let line = DataFolder::open(folder.path(), cluster, 1).unwrap_err().to_string();
        assert!(line.contains(&format!("format {newer}")) && line.contains("release"), "{line}");
        fs::create_dir(folder.path().join("raft")).unwrap();
        fs::remove_file(folder.path().join(IDENTITY_FILE)).unwrap();
        assert!(DataFolder::open(folder.path(), cluster, 1).unwrap_err().to_string().contains("identity.json"));
        fs::write(folder.path().join(IDENTITY_FILE), "{").unwrap();
        assert!(DataFolder::open(folder.path(), cluster, 1).unwrap_err().to_string().contains("cannot be read"));
    }
}
