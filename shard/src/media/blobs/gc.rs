//! Repair and garbage collection on a node: it fetches bytes that its rows refer to and that it lacks, for example
//! because it was down while they were stored, and removes bytes that no row refers to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use model::id::{NodeId, ShardId};
use model::media::{MediaState, Sha256Hex};
use raft::group::{Group, StateReader};
use raft::machine::View;
use raft::record::decode;
use raft::room::Level;

use super::{BlobError, Blobs, blocking, bucket};
use crate::keys;
use crate::media::record::MediaRow;

/// References read at a time.
const CHUNK: usize = 256;

/// How often the gc runs while little disk space is left.
const LOW_GC_EVERY: Duration = Duration::from_secs(60);

/// Whether a quorum of the voters may have stored bytes that this many of them lack.
fn may_be_stored(voters: usize, lacking: usize) -> bool {
    voters - lacking > voters / 2
}

/// Bytes that a row here refers to.
struct Wanted {
    sha256: Sha256Hex,
    size: u64,
}

impl Blobs {
    pub(super) async fn run_gc(self: Arc<Self>) {
        let began = Instant::now();
        loop {
            if self.bucket.is_none() {
                for (shard, _) in self.shards_here() {
                    self.fetch_lacking_of(shard).await;
                }
            }
            // Right after a start, the rows that refer to the bytes stored last may not be applied yet.
            if began.elapsed() >= self.config.orphan_grace
                && let Err(error) = self.remove_orphans().await
            {
                tracing::warn!(%error, "media that nobody refers to could not be removed");
            }
            // Media that was deleted to free disk space should free it soon.
            let is_low = self.host.room().large() > Level::Enough;
            let pause = if is_low { LOW_GC_EVERY.min(self.config.gc_every) } else { self.config.gc_every };
            tokio::time::sleep(pause).await;
        }
    }

    /// The shards that have a replica here, including one that is about to leave.
    fn shards_here(&self) -> Vec<(ShardId, Group)> {
        let placed: Vec<ShardId> = self.directory.read(|state| state.placement.keys().copied().collect());
        placed.into_iter().filter_map(|shard| Some((shard, self.host.group(shard)?))).collect()
    }

    /// Fetches bytes that a shard's replica here refers to and lacks. Returns whether it has everything now that any
    /// replica has, including those that the shard is still moving away from.
    pub async fn fetch_lacking_of(&self, shard: ShardId) -> bool {
        let Some(group) = self.host.group(shard).filter(|_| self.bucket.is_none()) else { return true };
        let others = self.others(shard);
        let mut after = None;
        let mut is_whole = true;
        loop {
            let (reader, local, from) = (group.reader(), self.local.clone(), after.take());
            let found = blocking(move || {
                let (wanted, next) = referred_to(&reader, from.as_ref());
                Ok((wanted.into_iter().filter(|wanted| !local.has(&wanted.sha256)).collect::<Vec<_>>(), next))
            });
            let Ok((lacking, next)) = found.await else { return false };
            for wanted in lacking {
                let pulled = match self.pull(others.clone(), &wanted.sha256, wanted.size).await {
                    Err(BlobError::Missing) => self.pull_from_parting(shard, &group.members().voters, &wanted).await,
                    pulled => pulled,
                };
                match pulled {
                    Ok(()) => metrics::counter!("gateway_media_repaired_total").increment(1),
                    Err(BlobError::NoSpace) => {
                        tracing::error!("no space is left for media of other replicas");
                        return false;
                    }
                    Err(error) => {
                        tracing::warn!(shard, sha256 = wanted.sha256.0, %error, "media is missing on this node");
                        // Bytes that no replica has stay lost, and must not hold up a move forever.
                        is_whole &= matches!(error, BlobError::Missing);
                    }
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return is_whole,
            }
        }
    }

    /// Fetches bytes that no remaining replica has from those that leave: several at once may have been the quorum.
    ///
    /// # Errors
    /// [`BlobError::Missing`] once so many lack the bytes that no quorum of the voters can have stored them.
    async fn pull_from_parting(
        &self,
        shard: ShardId,
        voters: &BTreeSet<NodeId>,
        wanted: &Wanted,
    ) -> Result<(), BlobError> {
        let parting = self.parting(shard, voters);
        let mut lacking = voters.len() - parting.len();
        let mut unknown = None;
        for node in parting {
            match self.pull(vec![node], &wanted.sha256, wanted.size).await {
                Err(BlobError::Missing) => lacking += 1,
                Err(error @ BlobError::Unavailable(_)) => unknown = Some(error),
                pulled => return pulled,
            }
        }
        match unknown {
            Some(error) if may_be_stored(voters.len(), lacking) => Err(error),
            _ => Err(BlobError::Missing),
        }
    }

    async fn remove_orphans(&self) -> Result<(), BlobError> {
        let grace = self.config.orphan_grace;
        if let Some(bucket) = &self.bucket {
            // A replica may lag behind; the leader does not.
            let led = self.shards_here().into_iter().filter(|(_, group)| group.leader() == Some(self.node));
            for (shard, group) in led {
                let mut old = bucket::old(bucket, shard, grace);
                while let Some(sha256) = old.try_next().await? {
                    if group.leader() != Some(self.node) {
                        break;
                    }
                    if !is_referred_to(&group.reader(), &sha256)
                        && bucket::remove_old(bucket, shard, &sha256, grace).await?
                    {
                        metrics::counter!("gateway_media_removed_total").increment(1);
                    }
                }
            }
            return Ok(());
        }
        let readers: Vec<StateReader> = self.shards_here().iter().map(|(_, group)| group.reader()).collect();
        let local = self.local.clone();
        blocking(move || {
            let removed = local.each_old(grace, |sha256| {
                if !readers.iter().any(|reader| is_referred_to(reader, &sha256)) && local.remove_old(&sha256, grace)? {
                    metrics::counter!("gateway_media_removed_total").increment(1);
                }
                Ok(())
            });
            removed.map_err(BlobError::Disk)
        })
        .await
    }
}

fn is_referred_to(view: &dyn View, sha256: &Sha256Hex) -> bool {
    !view.scan_range(keys::blob_refs_to(sha256), 1).is_empty()
}

/// Some of the bytes that rows refer to, and where to continue.
fn referred_to(view: &dyn View, after: Option<&Sha256Hex>) -> (Vec<Wanted>, Option<Sha256Hex>) {
    let found = view.scan_range(keys::blob_refs_after(after), CHUNK);
    let mut wanted: Vec<Wanted> = Vec::new();
    for (key, _) in &found {
        let Some((sha256, channel, id)) = keys::parse_blob_ref(key) else { continue };
        if wanted.last().is_some_and(|last| last.sha256 == sha256) {
            continue;
        }
        let row: Option<MediaRow> = view.get(&keys::media(channel, id)).map(|row| decode(&row));
        let size = row.filter(|row| row.state == MediaState::Ready).and_then(|row| row.size);
        wanted.extend(size.map(|size| Wanted { sha256, size }));
    }
    let last = found.last().filter(|_| found.len() == CHUNK).and_then(|(key, _)| keys::parse_blob_ref(key));
    (wanted, last.map(|(sha256, ..)| sha256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_too_many_lack_for_a_quorum_to_have_them_are_lost() {
        assert!(may_be_stored(3, 1) && !may_be_stored(3, 2));
        assert!(may_be_stored(2, 0) && !may_be_stored(2, 1));
        assert!(may_be_stored(5, 2) && !may_be_stored(5, 3));
    }
}
