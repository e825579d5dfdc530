//! `gateway restore`: the first node of a new cluster, out of a backup.
//!
//! All of the backup is read and compared before anything is written. The identity of the data folder comes after its
//! stores, and the configuration last: what was interrupted before is refused by `gateway run`, and by another restore.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::Context;
use model::format::{Foreign, Format};
use model::seal::MasterKey;
use model::time::Timestamp;
use raft::backup::file::FileError;
use raft::backup::seed::{Seed, SeedError};
use raft::directory::restore::{NewCluster, cluster_record};
use raft::machine::Position;
use shard::backup::restore::Restorer;
use shard::secrets::Secrets;
use uuid::Uuid;

use super::check::{self, MEDIA, name_of};
use super::manifest::{GroupPart, Manifest, group_file, media_file, read_group};
use crate::cli::backup::RestoreArgs;
use crate::cli::joining::InitArgs;
use crate::config::{Config, validate};
use crate::console::say;
use crate::data_folder::DataFolder;
use crate::joining::init::First;
use crate::refusal::Refusal;

/// Where a node keeps bytes of media, in its data folder.
const BLOBS: &str = "blobs";

#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Seed(#[from] SeedError),
}

/// Makes the node.
///
/// # Errors
/// A [`Refusal`] for what the caller gave; anything else when something cannot be written.
pub fn run(args: &RestoreArgs) -> anyhow::Result<()> {
    let manifest = Manifest::read(&args.from)?;
    let master = master_key(&args.master_key_file)?;
    let format = opens(&args.from, &manifest, &master)?.max(manifest.format);
    for part in manifest.groups.iter().filter(|part| part.group != 0) {
        check::group(&args.from, part)?;
    }
    for part in &manifest.media {
        check::media(&args.from, &part.sha256, part.bytes)?;
    }
    say(check::summary(&manifest));

    let first =
        First::prepare(&InitArgs { node: args.node.clone(), cluster: args.cluster.clone(), shards: manifest.shards })?;
    let (folder, cluster_id, node) = (&args.node.data_dir, first.config.cluster.cluster_id, first.config.node.id);
    empty_data_folder(folder)?;
    let storage_id = Uuid::new_v4();
    let restorer = write_states(&args.from, &manifest, &first.config, storage_id)?;
    write_media(&args.from, &manifest, &folder.join(BLOBS))?;
    DataFolder::found(folder, cluster_id, node, storage_id, format).with_context(|| folder.display().to_string())?;
    let place = first.write(&format!("{}\n", hex::encode(master.as_bytes())))?;

    say(format!("cluster {cluster_id}, node {node}, in {}", args.node.dir.display()));
    say(format!("  channels that wait for `connect`: {}", restorer.stopped));
    if restorer.unpaired > 0 {
        say(format!("  channels that were being paired and begin anew: {}", restorer.unpaired));
    }
    if manifest.media_gone > 0 {
        say(format!("  media whose bytes were gone when the backup was taken: {}", manifest.media_gone));
    }
    say("  make sure that the old cluster does not run any more before you connect a channel");
    say(format!("  operators need     {} (a new token)", place.operator_token_file().display()));
    say(format!("  start it with      gateway run --config {}", place.config_file().display()));
    say("  then let others in gateway token (here), gateway join (there)");
    Ok(())
}

fn master_key(path: &Path) -> Result<MasterKey, Refusal> {
    let subject = format!("--master-key-file {}", path.display());
    let text = fs::read_to_string(path)
        .map_err(|error| Refusal::new(&subject, error.to_string(), "name the file of the master key"))?;
    validate::master_key(&subject, &text)
}

/// Reads the directory through, and makes sure that the key opens what its cluster has sealed; the cluster's format, which
/// may have been raised while the backup was taken.
fn opens(from: &Path, manifest: &Manifest, master: &MasterKey) -> Result<Format, Refusal> {
    let path = group_file(from, 0);
    let mut record = None;
    let found = read_group::<FileError>(&path, |key, value| {
        if let Some(found) = cluster_record(&key, &value)? {
            record = Some(found);
        }
        Ok(())
    });
    let found = found.map_err(|error| check::damaged(&path, error.to_string()))?;
    check::same(&path, &found, part_of(manifest, 0)?)?;
    let record = record.ok_or_else(|| check::damaged(&path, "does not tell of a cluster".to_owned()))?;
    if !record.format.is_known() {
        let problem = Foreign::Newer(record.format.number()).to_string();
        return Err(Refusal::new(path.display().to_string(), problem, record.format.remedy()));
    }
    Secrets::new(master.clone()).deployment_key(&record.deployment_key).map_err(|error| {
        let remedy = "give the master key of the cluster that the backup is of";
        Refusal::new("--master-key-file", format!("does not open what the backup holds: {error}"), remedy)
    })?;
    Ok(record.format)
}

fn part_of(manifest: &Manifest, group: u16) -> Result<&GroupPart, Refusal> {
    let part = manifest.groups.iter().find(|part| part.group == group);
    part.ok_or_else(|| Refusal::new("manifest.json", format!("does not name {}", name_of(group)), "use another backup"))
}

fn empty_data_folder(folder: &Path) -> Result<(), Refusal> {
    let subject = format!("--data-dir {}", folder.display());
    let unusable =
        |error: io::Error| Refusal::new(&subject, error.to_string(), "name a folder that this process may write");
    fs::create_dir_all(folder).map_err(unusable)?;
    if fs::read_dir(folder).map_err(unusable)?.next().is_some() {
        return Err(Refusal::new(
            &subject,
            "is not empty",
            "empty it if it is what an earlier restore left, or name another",
        ));
    }
    Ok(())
}

/// Puts the states of all groups into a data folder, as they are to be in the new cluster.
fn write_states(from: &Path, manifest: &Manifest, config: &Config, storage_id: Uuid) -> anyhow::Result<Restorer> {
    let node = config.node.id;
    let cluster = NewCluster {
        cluster_id: config.cluster.cluster_id,
        node: config.own_record(storage_id),
        at: Timestamp::now(),
        taken_at: manifest.taken_at,
        taken_of: manifest.cluster_id,
    };
    let mut restorer = Restorer::new(node, cluster.at);
    let seed = Seed::create(&config.node.data_dir, node, storage_id).context("making the data folder")?;
    for part in &manifest.groups {
        let path = group_file(from, part.group);
        let mut group = seed.group(part.group, Position { term: part.term, index: part.index });
        let found = read_group::<RestoreError>(&path, |key, value| {
            if part.group == 0 {
                if let Some(value) = cluster.adapted(&key, value).map_err(FileError::Record)? {
                    group.put(&key, &value)?;
                }
                return Ok(());
            }
            for (key, value) in restorer.adapted(key, value).map_err(FileError::Record)? {
                group.put(&key, &value)?;
            }
            Ok(())
        });
        let found = found.with_context(|| format!("restoring {}", name_of(part.group)))?;
        // It was whole a moment ago.
        check::same(&path, &found, part)?;
        if part.group == 0 {
            for (key, value) in cluster.additions() {
                group.put(&key, &value).context("restoring the directory")?;
            }
        }
        group.finish().with_context(|| format!("restoring {}", name_of(part.group)))?;
    }
    seed.finish().context("syncing the data folder")?;
    Ok(restorer)
}

fn write_media(from: &Path, manifest: &Manifest, blobs: &Path) -> anyhow::Result<()> {
    for part in &manifest.media {
        let (source, target) = (media_file(&from.join(MEDIA), &part.sha256), media_file(blobs, &part.sha256));
        let copy = || -> io::Result<()> {
            let folder = target.parent().unwrap_or(blobs);
            fs::create_dir_all(folder)?;
            fs::copy(&source, &target)?;
            File::open(&target)?.sync_all()?;
            File::open(folder)?.sync_all()
        };
        copy().with_context(|| target.display().to_string())?;
    }
    if blobs.exists() {
        File::open(blobs).and_then(|folder| folder.sync_all()).with_context(|| blobs.display().to_string())?;
    }
    Ok(())
}
