//! `gateway backup`: reads everything out of a running cluster, through whichever node answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use model::format::Format;
use model::id::ShardId;
use raft::backup::file::FileError;
use serde::Deserialize;
use shard::backup::{in_order, restore};
use uuid::Uuid;

use super::check::{self, MEDIA, name_of};
use super::manifest::{GroupPart, Manifest, MediaPart, group_file, media_file, read_group};
use crate::cli::operator::OperatorArgs;
use crate::console::say;
use crate::key_files::{sync_folder, write_atomically};
use crate::operator::client::{Fetched, Operator};
use crate::operator::{Verdict, show};
use crate::refusal::Refusal;

/// How often a part is asked for: the node that it comes from may die meanwhile.
const TRIES: u32 = 5;

/// Between two tries, long enough for another leader.
const PAUSE: Duration = Duration::from_secs(1);

const PATH: &str = "/v1/admin/backup";

/// What of `GET /v1/admin/backup` is used.
#[derive(Deserialize)]
struct Described {
    cluster_id: Uuid,
    version: String,
    /// Release 0.1.0 does not say.
    #[serde(default)]
    format: Format,
    shards: ShardId,
}

pub async fn run(to: &Path, args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let operator = Operator::new(args)?;
    let described: Described = operator.read(PATH).await?;
    empty_folder(to)?;
    let mut backup = Backup {
        operator,
        to,
        tells: !args.json,
        manifest: Manifest::new(described.version, described.format, described.cluster_id, described.shards),
    };
    for group in in_order(described.shards) {
        backup.take_group(group).await?;
    }
    backup.finish()?;
    let manifest = backup.manifest;
    if args.json {
        show::json(&serde_json::to_value(&manifest)?);
    } else {
        say(check::summary(&manifest));
        say(format!(
            "  in {}; keep the master key apart from it: without it nothing sealed can be opened",
            to.display()
        ));
    }
    Ok(Verdict::Well)
}

fn empty_folder(folder: &Path) -> Result<(), Refusal> {
    let subject = format!("--to {}", folder.display());
    let unusable =
        |error: std::io::Error| Refusal::new(&subject, error.to_string(), "name a folder that this process may write");
    fs::create_dir_all(folder).map_err(unusable)?;
    if fs::read_dir(folder).map_err(unusable)?.next().is_some() {
        return Err(Refusal::new(&subject, "is not empty", "name an empty folder for each backup"));
    }
    Ok(())
}

/// A backup on its way.
struct Backup<'a> {
    operator: Operator,
    to: &'a Path,
    tells: bool,
    manifest: Manifest,
}

impl Backup<'_> {
    /// Fetches the state of a group, reads it through, and fetches the bytes that it refers to.
    async fn take_group(&mut self, group: ShardId) -> anyhow::Result<()> {
        let file = group_file(self.to, group);
        let mut tries = 0;
        let (part, bytes) = loop {
            tries += 1;
            match self.try_group(group, &file).await {
                Ok(taken) => break taken,
                Err(error) if error.is::<Refusal>() || tries >= TRIES => {
                    return Err(error.context(format!("taking {}", name_of(group))));
                }
                Err(error) => {
                    tracing::warn!(group, %error, "a state was not read to its end; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        if self.tells {
            say(format!("{}: {} rows, {}", name_of(group), part.pairs, show::bytes(part.bytes)));
        }
        self.manifest.groups.push(part);
        for (sha256, size) in bytes {
            self.take_media(group, &sha256, size).await?;
        }
        Ok(())
    }

    async fn try_group(&self, group: ShardId, file: &Path) -> anyhow::Result<(GroupPart, BTreeMap<String, u64>)> {
        let fetched = self.operator.fetch(&format!("{PATH}/groups/{group}"), file).await?;
        anyhow::ensure!(fetched == Fetched::Whole, "the cluster does not know {}", name_of(group));
        let file = file.to_owned();
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = BTreeMap::new();
            let part = read_group::<FileError>(&file, |key, value| {
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
        let file = media_file(&self.to.join(MEDIA), sha256);
        // Shards may refer to the same bytes.
        if file.exists() {
            return Ok(());
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let path = format!("{PATH}/media/{shard}/{sha256}?size_bytes={size}");
        let mut tries = 0;
        loop {
            tries += 1;
            match self.operator.fetch(&path, &file).await {
                Ok(Fetched::Gone) => {
                    self.manifest.media_gone += 1;
                    return Ok(());
                }
                Ok(Fetched::Whole) => match check::media(self.to, sha256, size) {
                    Ok(()) => break,
                    Err(refusal) if tries >= TRIES => return Err(refusal.into()),
                    Err(_) => {}
                },
                Err(error) if error.is::<Refusal>() || tries >= TRIES => {
                    return Err(error.context(format!("taking media {sha256} of shard {shard}")));
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.manifest.media.push(MediaPart { sha256: sha256.to_owned(), bytes: size });
        Ok(())
    }

    /// Makes all of it survive a power cut, and then says that it is whole.
    fn finish(&mut self) -> anyhow::Result<()> {
        let media = self.to.join(MEDIA);
        if media.exists() {
            for folder in fs::read_dir(&media).context("reading the folder of media")? {
                sync_folder(&folder.context("reading the folder of media")?.path()).context("syncing media")?;
            }
            sync_folder(&media).context("syncing media")?;
        }
        sync_folder(self.to).context("syncing the backup")?;
        let file = Manifest::file(self.to);
        let text = serde_json::to_vec_pretty(&self.manifest).context("writing the manifest")?;
        write_atomically(&file, &text, 0o600).with_context(|| file.display().to_string())?;
        sync_folder(self.to).context("syncing the backup")
    }
}
