//! `gateway backup`: reads the whole state of a running cluster through any of its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::time::Duration;

use anyhow::Context;
use api::operator::backup::BackupView;
use model::id::ShardId;
use raft::backup::file::FileError;
use raft::supervise;
use shard::backup::{in_order, restore};

use super::check::{self, name_of};
use super::depot::Depot;
use super::manifest::{GroupPart, MANIFEST, Manifest, MediaPart, group_name, media_name, read_group};
use super::progress::{Amount, Progress};
use crate::cli::backup::Location;
use crate::cli::operator::OperatorArgs;
use crate::console::say;
use crate::operator::client::{Fetched, Operator};
use crate::operator::{Verdict, show};
use crate::refusal::{Refusal, is_full};

/// Maximum number of attempts for one part: the node that serves it may fail meanwhile.
const TRIES: u32 = 5;

/// Pause between two attempts, long enough for a new leader.
const PAUSE: Duration = Duration::from_secs(1);

const PATH: &str = "/v1/admin/backup";

pub async fn run(to: Depot, shown: &Location, args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let manifest = take(Operator::new(args)?, to, !args.json).await?;
    if args.json {
        show::json(&serde_json::to_value(&manifest)?);
    } else {
        show::prose(&check::summary(&manifest));
        show::prose(&format!(
            "  in {shown}; keep the master key apart from it: without that key nothing encrypted can be read"
        ));
    }
    Ok(Verdict::Well)
}

/// Copies a cluster into an empty location; `tells` reports progress. After a failure, what was written is removed.
///
/// # Errors
/// A [`Refusal`] when the location cannot be used; any other error when the cluster does not answer, or writing fails.
pub async fn take(operator: Operator, to: Depot, tells: bool) -> anyhow::Result<Manifest> {
    let BackupView { cluster_id, version, format, shards } = operator.read(PATH).await?;
    to.begin().await?;
    let mut backup = Backup {
        operator,
        to,
        tells,
        media: BTreeSet::new(),
        manifest: Manifest::new(version, format, cluster_id, shards),
    };
    let Err(error) = backup.take_all(shards).await else { return Ok(backup.manifest) };
    let error = match is_full(&error) {
        true => error.context("there is no space for the backup: free some, or name another place with --to"),
        false => error,
    };
    // The manifest is removed first: without it, the rest is not a backup.
    let groups = in_order(shards).map(group_name);
    let media = backup.media.iter().map(|sha256| media_name(sha256));
    let written = iter::once(MANIFEST.to_owned()).chain(groups).chain(media);
    Err(match backup.to.remove(written).await {
        Ok(()) => error,
        Err(left) => error.context(format!("remove what was written by hand ({left:#})")),
    })
}

/// Whether another attempt would fail in the same way.
fn is_final(error: &anyhow::Error) -> bool {
    error.is::<Refusal>() || is_full(error)
}

/// A backup in progress.
struct Backup {
    operator: Operator,
    to: Depot,
    tells: bool,
    /// Hashes of the media already fetched: several shards may refer to the same media.
    media: BTreeSet<String>,
    manifest: Manifest,
}

impl Backup {
    async fn take_all(&mut self, shards: ShardId) -> anyhow::Result<()> {
        for group in in_order(shards) {
            self.take_group(group, usize::from(shards) + 1).await?;
        }
        // Everything must be durable before the manifest marks the backup as complete.
        let text = self.manifest.sealed().context("writing the manifest")?;
        self.to.conclude(MANIFEST, text).await
    }

    /// Fetches the state of one of `groups` groups, reads it, and fetches the media that it refers to.
    async fn take_group(&mut self, group: ShardId, groups: usize) -> anyhow::Result<()> {
        let mut tries = 0;
        let (part, bytes) = loop {
            tries += 1;
            match self.try_group(group).await {
                Ok(taken) => break taken,
                Err(error) if is_final(&error) || tries >= TRIES => {
                    return Err(error.context(format!("taking {}", name_of(group))));
                }
                Err(error) => {
                    tracing::warn!(group, %error, "the state of a group was not read completely; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        if self.tells {
            let number = self.manifest.groups.len() + 1;
            let (name, size) = (name_of(group), show::bytes(part.bytes));
            say(format!("{number} of {groups}  {name}: {} rows, {size}", part.pairs));
        }
        self.manifest.groups.push(part);
        let whole = Amount { files: bytes.len(), bytes: bytes.values().sum() };
        let mut progress = Progress::begin(format!("media of {}", name_of(group)), whole, self.tells);
        for (sha256, size) in bytes {
            self.take_media(group, &sha256, size).await?;
            progress.step(size);
        }
        Ok(())
    }

    async fn try_group(&self, group: ShardId) -> anyhow::Result<(GroupPart, BTreeMap<String, u64>)> {
        let keep = async |answer| self.to.keep(&group_name(group), answer).await;
        let fetched = self.operator.fetch(&format!("{PATH}/groups/{group}"), keep).await?;
        anyhow::ensure!(fetched == Fetched::Whole, "the cluster does not know {}", name_of(group));
        let to = self.to.clone();
        let reading = supervise::on_thread(move || {
            let mut bytes = BTreeMap::new();
            let part = read_group::<FileError>(&to, group, |key, value| {
                if group != 0
                    && let Some((sha256, size)) = restore::stored_bytes(&key, &value)?
                {
                    bytes.insert(sha256.0, size);
                }
                Ok(())
            })?;
            Ok::<_, FileError>((part, bytes))
        });
        let (part, bytes) = reading.await.context("reading a state")??;
        anyhow::ensure!(part.group == group, "{} was answered with {}", name_of(group), name_of(part.group));
        Ok((part, bytes))
    }

    async fn take_media(&mut self, shard: ShardId, sha256: &str, size: u64) -> anyhow::Result<()> {
        if !self.media.insert(sha256.to_owned()) {
            return Ok(());
        }
        let path = format!("{PATH}/media/{shard}/{sha256}?size_bytes={size}");
        let mut tries = 0;
        loop {
            tries += 1;
            let keep = async |answer| self.to.keep(&media_name(sha256), answer).await;
            match self.operator.fetch(&path, keep).await {
                Ok(Fetched::Gone) => {
                    // This shard no longer has the file. The hash is removed, so that another shard that refers to it
                    // is asked, too.
                    self.media.remove(sha256);
                    self.manifest.media_gone += 1;
                    return Ok(());
                }
                Ok(Fetched::Whole) => match self.judge_media(sha256, size).await? {
                    Ok(()) => break,
                    Err(refusal) if tries >= TRIES => return Err(refusal.into()),
                    Err(_) => {}
                },
                Err(error) if is_final(&error) || tries >= TRIES => {
                    return Err(error.context(format!("taking media {sha256} of shard {shard}")));
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.manifest.media.push(MediaPart { sha256: sha256.to_owned(), bytes: size });
        Ok(())
    }

    async fn judge_media(&self, sha256: &str, size: u64) -> anyhow::Result<Result<(), Refusal>> {
        let (to, sha256) = (self.to.clone(), sha256.to_owned());
        supervise::on_thread(move || check::media(&to, &sha256, size)).await.context("reading media")
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_known_below_what_was_being_done_and_ends_the_backup_at_once() {
        let full = || anyhow::Error::from(io::Error::from(io::ErrorKind::StorageFull)).context("group-0007.state");
        assert!(is_full(&full().context("taking shard 7")) && is_final(&full()));
        let gone = anyhow::Error::from(io::Error::from(io::ErrorKind::ConnectionReset)).context("GET");
        assert!(!is_full(&gone) && !is_final(&gone));
        assert!(is_final(&Refusal::new("a", "b", "c").into()));
    }
}
