//! Makes the data folder of a node that begins as a cluster by itself, with states that came from elsewhere.

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

/// How much higher a group's log begins. Groups refer to positions in each other's logs (what has been gathered of a
/// relay, say) and are not exported at the same moment: none of them may count again what another has seen counted. No
/// group takes as many entries while the others are exported.
const INDEX_LEAP: u64 = 1 << 24;

/// How much higher a group's terms begin. They are the epochs by which the network tells a newer owner from an older
/// one, and the cluster that the state came from may have gone on electing leaders.
const TERM_LEAP: u64 = 1 << 20;

/// Bytes of pairs that are written at once.
const BATCH_BYTES: usize = 4 << 20;

/// Why a folder could not be made.
#[derive(Debug, Error)]
pub enum SeedError {
    #[error(transparent)]
    Folder(#[from] StartError),
    #[error("cannot be written: {0}")]
    Disk(#[from] io::Error),
    #[error("does not hold what was written: {found} of {put} rows, or others")]
    Differs { put: u64, found: u64 },
}

/// Pairs without their order: what was put has to be what is there.
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

/// A data folder that is being made. Blocks on disk.
pub struct Seed {
    node: NodeId,
    logs: Arc<Disk>,
    state: Arc<StateDisk>,
    // Last, so that its lock goes when the stores are closed.
    _folder: StoreFolder,
}

impl Seed {
    /// Makes the stores in a folder that has none.
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

    /// Begins a group whose state showed its log up to there.
    pub fn group(&self, group: GroupId, at: Position) -> SeedGroup<'_> {
        SeedGroup { seed: self, group, at, batch: WriteBatch::default(), put: Tally::default() }
    }

    /// Makes all of it survive a power cut.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn finish(self) -> Result<(), SeedError> {
        Ok(self.state.flush()?)
    }
}

/// A group on its way into the folder.
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

    /// Makes the node the group's one voter, with a log that begins behind the state; and reads the state again.
    ///
    /// # Errors
    /// When the disk fails, or gives back something else than what was put. A key must have been put once.
    pub fn finish(mut self) -> Result<(), SeedError> {
        let Seed { node, logs, state, .. } = self.seed;
        let last = log_id(self.at.term, self.at.index + INDEX_LEAP);
        let voters = vec![BTreeSet::from([*node])];
        let membership = Membership::new(Some(last), openraft::Membership::new_with_defaults(voters, []));
        // Where the state shows the log to be, the log has to be first.
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
