//! Opens the stores of a node before it contacts other nodes: the stores say which nodes it may talk to.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use model::id::NodeId;
use uuid::Uuid;

use super::StartError;
use super::witness;
use crate::fatal::{self, Fatal};
use crate::folder::StoreFolder;
use crate::local_copy::LocalCopy;
use crate::log::disk::Disk;
use crate::machine::DIRECTORY_GROUP;
use crate::state::disk::StateDisk;
use crate::state::reader::StateReader;
use crate::state::snapshot;

pub struct StoresConfig {
    pub node: NodeId,
    /// Holds `raft/` (log and votes, synced) and `data/` (state, replayed from the log after a crash).
    pub data_dir: PathBuf,
    /// Id of the data folder.
    pub storage_id: Uuid,
    /// Bytes of rows, and of log, that are buffered in memory before a table is written. Files to be replayed take up
    /// to eight times as many.
    pub buffer: usize,
    /// `None`: log the reason and exit with code 3.
    pub fatal: Option<Fatal>,
}

/// An open data folder.
pub struct Stores {
    pub(super) node: NodeId,
    pub(super) folder: StoreFolder,
    pub(super) logs: Arc<Disk>,
    pub(super) state: Arc<StateDisk>,
    pub(super) copy: LocalCopy,
    pub(super) fatal: Fatal,
}

impl Stores {
    /// Opens a node's data folder and reads which nodes its directory knows.
    ///
    /// # Errors
    /// When the folder belongs to another node, is in use, is damaged or cannot be read.
    pub async fn open(config: StoresConfig) -> Result<Self, StartError> {
        let folder = StoreFolder::open(&config.data_dir, config.node, config.storage_id)?;
        let fatal = config.fatal.unwrap_or_else(fatal::exit);
        let (logs, state, installs, heard) = (folder.logs(), folder.state(), folder.installs(), folder.heard());
        let (buffer, told) = (config.buffer, fatal.clone());
        let opening = tokio::task::spawn_blocking(move || {
            let failed = StartError::of_folder;
            let log_disk = Disk::open(&logs, buffer, told.clone()).map_err(|error| failed(&logs, error.to_string()))?;
            let state_disk = StateDisk::open(&state, installs.clone(), buffer, told)
                .map_err(|error| failed(&state, error.to_string()))?;
            // A partly replaced state does not list the members.
            let recovered = snapshot::clean(&state_disk).and_then(|()| snapshot::recover(&state_disk, DIRECTORY_GROUP));
            recovered.map_err(|error| failed(&installs, error.to_string()))?;
            let taken_part = log_disk.recover(DIRECTORY_GROUP).map(|log| log.last.is_some() || log.vote.is_some());
            let met =
                taken_part.and_then(|taken_part| if taken_part { witness::met(&heard) } else { Ok(HashMap::new()) });
            let met = met.map_err(|error| failed(&heard, error.to_string()))?;
            let copy = LocalCopy::of_members(&StateReader::new(state_disk.clone(), DIRECTORY_GROUP), met);
            Ok((log_disk, state_disk, copy))
        });
        let (logs, state, copy) =
            opening.await.unwrap_or_else(|error| Err(StartError::of_folder(&config.data_dir, error.to_string())))?;
        Ok(Self { node: config.node, folder, logs, state, copy, fatal })
    }

    /// This node's copy of the directory: as it is on disk until the directory's group is opened.
    pub fn local_copy(&self) -> &LocalCopy {
        &self.copy
    }
}
