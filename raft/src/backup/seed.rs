//! Creates the data folder of a node that starts as a cluster by itself, with imported states.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use model::id::NodeId;
use rocksdb::WriteBatch;
use thiserror::Error;
use uuid::Uuid;

use crate::codec;
use crate::fatal::Fatal;
use crate::folder::{StartError, StoreFolder, USUAL_BUFFER};
use crate::log::disk::{self, Disk};
use crate::machine::{GroupId, Position};
use crate::state::disk::{Fnv, StateDisk, state_end, state_key};
use crate::types::{Membership, Vote, log_id};

/// Offset that is added to a group's log index. Groups refer to positions in each other's logs, such as how much of a
/// relay is collected, and are not exported at the same moment: none may count again what another has seen counted. No
/// group appends this many entries during an export.
const INDEX_LEAP: u64 = 1 << 24;

/// Offset that is added to a group's term. Terms are the epochs by which the network tells a newer owner from an older
/// one, and the cluster that was exported may have elected leaders since.
const TERM_LEAP: u64 = 1 << 20;

/// Bytes of pairs in one write.
const BATCH_BYTES: usize = 4 << 20;

/// Why a folder could not be created.
#[derive(Debug, Error)]
pub enum SeedError {
    #[error(transparent)]
    Folder(#[from] StartError),
    #[error("cannot be written: {0}")]
    Disk(#[from] io::Error),
    #[error("does not hold what was written: {found} of {put} rows, or others")]
    Differs { put: u64, found: u64 },
}

/// Order-independent checksum of pairs: compares what was put with what is stored.
#[derive(Default, PartialEq, Eq)]
struct Tally {
    pairs: u64,
    sum: u64,
}

impl Tally {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.pairs += 1;
        self.sum = self.sum.wrapping_add(Fnv::of_pair(key, value));
    }
}

/// A data folder that is being created. Blocks on disk.
pub struct Seed {
    node: NodeId,
    logs: Arc<Disk>,
    state: Arc<StateDisk>,
    // The last field, so that the lock is released only after the stores are closed.
    _folder: StoreFolder,
}

impl Seed {
    /// Creates the stores in an empty folder.
    ///
    /// # Errors
    /// [`SeedError`].
    pub fn create(path: &Path, node: NodeId, storage_id: Uuid) -> Result<Self, SeedError> {
        let folder = StoreFolder::open(path, node, storage_id)?;
        // Every error is returned as well.
        let fatal: Fatal = Arc::new(|reason| tracing::error!(%reason, "the folder cannot be made"));
        let logs = Disk::open(&folder.logs(), USUAL_BUFFER, fatal.clone())?;
        let state =
            StateDisk::open(&folder.state(), folder.installs(), USUAL_BUFFER, fatal).map_err(io::Error::other)?;
        Ok(Self { node, logs, state, _folder: folder })
    }

    /// Starts a group whose state includes its log up to `at`.
    pub fn group(&self, group: GroupId, at: Position) -> SeedGroup<'_> {
        SeedGroup { seed: self, group, at, batch: WriteBatch::default(), put: Tally::default() }
    }

    /// Makes everything survive a power failure.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn finish(self) -> Result<(), SeedError> {
        Ok(self.state.flush()?)
    }
}

/// A group that is being imported.
pub struct SeedGroup<'a> {
    seed: &'a Seed,
    group: GroupId,
    at: Position,
    batch: WriteBatch,
    put: Tally,
}

impl SeedGroup<'_> {
    /// Adds a pair.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), SeedError> {
        let key = state_key(self.group, key);
        self.put.add(&key, value);
        self.batch.put_cf(self.seed.state.state(), key, value);
        if self.batch.size_in_bytes() >= BATCH_BYTES {
            self.seed.state.write(self.group, std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Makes the node the group's only voter, with a log that begins after the state; then verifies the stored state.
    ///
    /// # Errors
    /// When the disk fails, or the stored pairs differ from those that were put. Each key must have been put only once.
    pub fn finish(mut self) -> Result<(), SeedError> {
        let Seed { node, logs, state, .. } = self.seed;
        let last = log_id(self.at.term, self.at.index + INDEX_LEAP);
        let voters = vec![BTreeSet::from([*node])];
        let membership = Membership::new(Some(last), openraft::Membership::new_with_defaults(voters, []));
        // The log is written first: a state must never be ahead of its log.
        let vote = Vote::new(self.at.term + TERM_LEAP, *node);
        let mut log = WriteBatch::default();
        let mut put = |what, value: &[u8]| log.put_cf(logs.meta(), disk::meta_key(self.group, what), value);
        put(disk::Meta::Vote, &codec::encode(&vote));
        put(disk::Meta::Committed, &codec::encode(&last));
        put(disk::Meta::Purged, &codec::encode(&last));
        logs.write_synced(log)?;
        state.put_membership(&mut self.batch, self.group, &membership);
        state.put_applied(&mut self.batch, self.group, &last, last.index);
        state.write_through(self.group, self.batch)?;
        let mut found = Tally::default();
        let mut pairs = state.iterate(state_key(self.group, &[]), state_end(self.group));
        pairs.seek_to_first();
        while let Some((key, value)) = pairs.item() {
            found.add(key, value);
            pairs.next();
        }
        pairs.status().map_err(io::Error::other)?;
        if found != self.put { Err(SeedError::Differs { put: self.put.pairs, found: found.pairs }) } else { Ok(()) }
    }
}
