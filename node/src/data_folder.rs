//! A node's data folder: its identity, and a lock that admits one process.
//!
//! The identity is written at the first start. A folder of another node or cluster is refused, since its log and votes
//! would be taken for this node's. The storage id lets the cluster detect a folder that was wiped.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use model::format::{Foreign, Format};
use model::id::NodeId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::key_files::make_private_folder;
use crate::refusal::{Refusal, ensure};

const IDENTITY_FILE: &str = "identity.json";
const LOCK_FILE: &str = "lock";

/// The node and cluster that a folder belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderIdentity {
    /// A release that does not know this format cannot open the folder.
    pub format: Format,
    pub cluster_id: Uuid,
    pub node_id: NodeId,
    /// Created with the folder; a node that returns with another one has lost the votes and entries that it promised to
    /// keep.
    pub storage_id: Uuid,
}

/// The folder, locked while this value lives.
#[derive(Debug)]
pub struct DataFolder {
    pub path: PathBuf,
    pub identity: FolderIdentity,
    _lock: File,
}

/// A locked folder that belongs to no other node, while the node that will own it is being created.
#[derive(Debug)]
pub struct ReservedFolder {
    path: PathBuf,
    storage_id: Uuid,
    lock: File,
}

impl ReservedFolder {
    /// Creates the folder if it is missing, and locks it.
    fn locked(path: &Path) -> Result<Self, Refusal> {
        Ok(Self { path: path.to_owned(), storage_id: Uuid::new_v4(), lock: lock(path)? })
    }

    /// Locks a folder that is empty, or that an earlier attempt with the same storage id has claimed.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder cannot be written, another process has it open, or it belongs to another node.
    pub fn reserve(path: &Path, storage_id: Uuid) -> Result<Self, Refusal> {
        let locked = Self::locked(path)?;
        if let Some(identity) = identity_of(path)?.filter(|identity| identity.storage_id != storage_id) {
            let problem = format!("belongs to node {} of cluster {}", identity.node_id, identity.cluster_id);
            let remedy = "name an empty folder; a node that is gone for good comes back under a new id and without it";
            return Err(Refusal::new(subject(path), problem, remedy));
        }
        Ok(Self { storage_id, ..locked })
    }

    /// Locks the folder of a cluster's first node: it is empty, or its node never ran.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder cannot be written, another process has it open, or it holds the stores of a node.
    pub fn unused(path: &Path) -> Result<Self, Refusal> {
        let locked = Self::locked(path)?;
        if let Some(identity) = identity_of(path)? {
            let problem = format!("belongs to node {} of cluster {}", identity.node_id, identity.cluster_id);
            ensure(!holds_stores(path), subject(path), problem, "name an empty folder")?;
            fs::remove_file(path.join(IDENTITY_FILE)).map_err(|error| unusable(path, &error))?;
        }
        Ok(locked)
    }

    /// Assigns the folder to this node, with this format if it has no identity yet.
    ///
    /// # Errors
    /// As [`DataFolder::open`].
    pub fn claim(self, cluster_id: Uuid, node_id: NodeId, format: Format) -> Result<DataFolder, Refusal> {
        let Self { path, storage_id, lock } = self;
        let identity = match identity_of(&path)? {
            Some(identity) => {
                belongs(&identity, cluster_id, node_id).map_err(|problem| {
                    Refusal::new(subject(&path), problem, "name this node's own folder, or an empty one")
                })?;
                identity
            }
            None => {
                let identity = FolderIdentity { format, cluster_id, node_id, storage_id };
                write_identity(&path, &identity).map_err(|error| unusable(&path, &error))?;
                identity
            }
        };
        Ok(DataFolder { path, identity, _lock: lock })
    }
}

impl DataFolder {
    /// Assigns a folder to a node after a restore has put its stores there: the identity is written last.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn found(path: &Path, cluster_id: Uuid, node_id: NodeId, storage_id: Uuid, format: Format) -> io::Result<()> {
        write_identity(path, &FolderIdentity { format, cluster_id, node_id, storage_id })
    }

    /// Records that only releases that understand this format may open the folder; the format never goes back. Blocks
    /// on disk.
    ///
    /// # Errors
    /// The file cannot be written, or is missing.
    pub fn seal(path: &Path, format: Format) -> io::Result<()> {
        let file = path.join(IDENTITY_FILE);
        let identity = read_identity(&file)?.ok_or_else(|| io::Error::other(format!("{} is gone", file.display())))?;
        if identity.format >= format {
            return Ok(());
        }
        write_identity(path, &FolderIdentity { format, ..identity })
    }

    /// Opens this node's folder, or creates it.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder cannot be written, another process has it open, or it belongs to another node.
    pub fn open(path: &Path, cluster_id: Uuid, node_id: NodeId) -> Result<Self, Refusal> {
        ReservedFolder::locked(path)?.claim(cluster_id, node_id, Format::FIRST)
    }

    /// Opens the folder that was given to this node when it was created. For a node that is alone in `cluster.nodes`:
    /// with an empty folder it would form a second cluster, unknown to the other nodes of its real one and without the
    /// customers' data.
    ///
    /// # Errors
    /// As [`DataFolder::open`], or the folder has no identity.
    pub fn open_given(path: &Path, cluster_id: Uuid, node_id: NodeId) -> Result<Self, Refusal> {
        let locked = ReservedFolder::locked(path)?;
        let problem = "is empty, and this node, alone in cluster.nodes, would make a second cluster in it";
        let remedy = "give it the folder that it had; where that is lost, remove the node from its cluster and let it join \
                      under a new id, or restore a backup; a new cluster is made by gateway init";
        ensure(identity_of(path)?.is_some(), subject(path), problem, remedy)?;
        locked.claim(cluster_id, node_id, Format::FIRST)
    }
}

fn subject(path: &Path) -> String {
    format!("node.data_dir ({})", path.display())
}

fn unusable(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(subject(path), error, "name a folder that this process can write to")
}

fn lock(path: &Path) -> Result<File, Refusal> {
    let open = || {
        make_private_folder(path)?;
        File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE))
    };
    let lock = open().map_err(|error| unusable(path, &error))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            Refusal::new(subject(path), "is in use by another process", "stop it, or give each node its own folder")
        }
        TryLockError::Error(error) => unusable(path, &error),
    })?;
    Ok(lock)
}

/// The identity of the folder, if it has one, in a format that this release understands.
fn identity_of(path: &Path) -> Result<Option<FolderIdentity>, Refusal> {
    let identity = read_identity(&path.join(IDENTITY_FILE)).map_err(|error| unusable(path, &error))?;
    match &identity {
        Some(FolderIdentity { format, .. }) if !format.is_known() => {
            Err(Refusal::new(subject(path), Foreign::Newer(format.number()), format.remedy()))
        }
        None if holds_stores(path) => {
            let problem = format!("holds a store and no {IDENTITY_FILE}");
            Err(Refusal::new(subject(path), problem, "restore the file, or name an empty folder"))
        }
        _ => Ok(identity),
    }
}

fn holds_stores(path: &Path) -> bool {
    path.join("raft").exists() || path.join("data").exists()
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

/// The identity is durable before anything else is written: a store without an identity is refused.
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
    fn a_folder_is_reserved_for_one_node_before_that_node_has_a_number() {
        use std::os::unix::fs::PermissionsExt;

        let root = tempfile::tempdir().unwrap();
        let (path, cluster, storage) = (root.path().join("new"), Uuid::new_v4(), Uuid::new_v4());
        let reserved = ReservedFolder::reserve(&path, storage).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let line = ReservedFolder::reserve(&path, storage).unwrap_err().to_string();
        assert!(line.contains("in use by another process"), "{line}");
        let identity = reserved.claim(cluster, 5, Format::FIRST).unwrap().identity;
        assert_eq!((identity.node_id, identity.storage_id), (5, storage));
        // The node that reserved the folder may reserve it again; another node may not.
        ReservedFolder::reserve(&path, storage).unwrap().claim(cluster, 5, Format::FIRST).unwrap();
        let line = ReservedFolder::reserve(&path, Uuid::new_v4()).unwrap_err().to_string();
        assert!(line.contains("belongs to node 5") && line.contains("empty folder"), "{line}");
    }

    #[test]
    fn a_node_that_would_be_a_cluster_of_its_own_takes_only_the_folder_that_it_was_given() {
        let root = tempfile::tempdir().unwrap();
        let (path, cluster) = (root.path().join("given"), Uuid::new_v4());
        let line = DataFolder::open_given(&path, cluster, 1).unwrap_err().to_string();
        assert!(line.contains("is empty") && line.contains("join") && line.contains("gateway init"), "{line}");
        // A folder that was assigned but never used may be assigned again.
        ReservedFolder::unused(&path).unwrap().claim(Uuid::new_v4(), 1, Format::FIRST).unwrap();
        let given = ReservedFolder::unused(&path).unwrap().claim(cluster, 1, Format::FIRST).unwrap().identity;
        assert_eq!(DataFolder::open_given(&path, cluster, 1).unwrap().identity, given);
        fs::create_dir(path.join("raft")).unwrap();
        let line = ReservedFolder::unused(&path).unwrap_err().to_string();
        assert!(line.contains("belongs to node 1"), "{line}");
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
