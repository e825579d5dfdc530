//! `gateway restore`: creates the first node of a new cluster from a backup.
//!
//! The whole backup is read and verified before anything is written. The data folder gets its identity after its
//! stores, and the configuration is written last: `gateway run` and another restore refuse the remains of an
//! interrupted restore.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::Context;
use model::format::{Foreign, Format};
use model::seal::Keyring;
use model::time::Timestamp;
use raft::backup::file::FileError;
use raft::backup::seed::{Seed, SeedError};
use raft::directory::restore::{NewCluster, cluster_record, master_of_customer};
use raft::machine::Position;
use serde_json::json;
use shard::backup::restore::Restorer;
use shard::layout::REPLICAS;
use shard::secrets::Secrets;
use uuid::Uuid;

use super::check::{self, name_of};
use super::depot::{self, Depot};
use super::manifest::{GroupPart, Manifest, blob_name, group_name, media_name, read_group};
use super::progress::Progress;
use crate::cli::backup::RestoreArgs;
use crate::cli::joining::InitArgs;
use crate::config::{Config, files};
use crate::console::say;
use crate::data_folder::DataFolder;
use crate::joining::init::First;
use crate::joining::place::MasterKeys;
use crate::key_files::{is_empty_folder, make_private_folder};
use crate::operator::show;
use crate::refusal::{Refusal, ensure, is_full};

/// Folder of media bytes, in a node's data folder.
const BLOBS: &str = "blobs";

#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Seed(#[from] SeedError),
}

/// Creates the node. Blocks; within a runtime, it must run on a blocking thread.
///
/// # Errors
/// A [`Refusal`] when the arguments are wrong; any other error when something cannot be written.
pub fn run(args: &RestoreArgs) -> anyhow::Result<()> {
    let from = Depot::at(&args.from, |name, prefix| depot::by_flags(name, prefix, &args.bucket))?;
    let manifest = Manifest::read(&from)?;
    let keyring = keyring(args)?;
    // These checks come before reading the backup, which may take long.
    let first = First::prepare(&InitArgs {
        node: args.node.clone(),
        cluster: args.cluster.clone(),
        nodes: REPLICAS,
        shards: Some(manifest.shards),
    })?;
    let keys = MasterKeys::of(&keyring);
    first.place.accepts(&keys)?;
    let folder = &args.node.data_dir;
    if folder.exists() {
        is_empty(folder)?;
    }
    let format = opens(&from, &manifest, &keyring)?.max(manifest.format);
    for part in manifest.groups.iter().filter(|part| part.group != 0) {
        check::group(&from, part)?;
    }
    check::all_media(&from, &manifest, !args.json)?;
    if !args.json {
        show::prose(&check::summary(&manifest));
    }

    let (cluster_id, node) = (first.config.cluster.cluster_id, first.config.node.id);
    first.place.make()?;
    make_private_folder(folder).map_err(|error| unusable(folder, error))?;
    is_empty(folder)?;
    let storage_id = Uuid::new_v4();
    let write = || {
        let restorer = write_states(&from, &manifest, &first.config, storage_id)?;
        write_media(&from, &manifest, &folder.join(BLOBS), !args.json)?;
        anyhow::Ok(restorer)
    };
    let restorer = write().map_err(|error| {
        let room = if is_full(&error) { "there is no space: free some, and " } else { "" };
        error.context(format!("{room}empty {} before you try again", folder.display()))
    })?;
    DataFolder::found(folder, cluster_id, node, storage_id, format).with_context(|| folder.display().to_string())?;
    let place = first.write(&keys)?;

    if args.json {
        show::json(&json!({
            "cluster_id": cluster_id,
            "node": node,
            "dir": args.node.dir,
            "channels_stopped": restorer.stopped,
            "channels_begun_anew": restorer.unpaired,
            "media_gone": manifest.media_gone,
            "operator_token_file": place.operator_token_file(),
            "config_file": place.config_file(),
        }));
        return Ok(());
    }
    say(format!("cluster {cluster_id}, node {node}, in {}", args.node.dir.display()));
    say(format!("  channels that wait for `connect`: {}", restorer.stopped));
    if restorer.unpaired > 0 {
        say(format!("  channels that were being paired and have to start again: {}", restorer.unpaired));
    }
    if manifest.media_gone > 0 {
        say(format!("  media whose bytes were gone when the backup was taken: {}", manifest.media_gone));
    }
    say("  make sure that the old cluster no longer runs before you connect a channel");
    say(format!("  operators need     {} (a new token)", place.operator_token_file().display()));
    say(format!("  start it with      gateway run --config {}", place.config_file().display()));
    say("  then add others    gateway token (here), gateway join (there)");
    Ok(())
}

fn keyring(args: &RestoreArgs) -> Result<Keyring, Refusal> {
    const PREVIOUS: &str = "--previous-master-key-file";
    let current = files::master_key("--master-key-file", &args.master_key_file)?;
    let previous = args.previous_master_key_file.as_deref();
    let previous = previous.map(|path| files::master_key(PREVIOUS, path)).transpose()?;
    let is_another = previous.as_ref().is_none_or(|previous| previous.id() != current.id());
    ensure(is_another, PREVIOUS, "is the same key as the current one", "leave it out")?;
    Ok(Keyring { current, previous })
}

/// Reads the directory and checks that the keys can decrypt the cluster's secrets. Returns the cluster's format, which
/// may have been raised while the backup was taken.
fn opens(from: &Depot, manifest: &Manifest, keyring: &Keyring) -> Result<Format, Refusal> {
    let (mut record, mut masters) = (None, BTreeSet::new());
    let found = read_group::<FileError>(from, 0, |key, value| {
        if let Some(found) = cluster_record(&key, &value)? {
            record = Some(found);
        }
        masters.extend(master_of_customer(&key, &value)?);
        Ok(())
    });
    let found = found.map_err(|error| check::damaged(from, &group_name(0), error))?;
    check::same(from, &found, part_of(manifest, 0)?)?;
    let record = record.ok_or_else(|| check::damaged(from, &group_name(0), "does not tell of a cluster"))?;
    let problem = Foreign::Newer(record.format.number());
    ensure(record.format.is_known(), from.shown(&group_name(0)), problem, record.format.remedy())?;
    let opened = Secrets::new(keyring.clone()).deployment_key(&record.deployment_key);
    let opened = opened.and_then(|_| masters.into_iter().try_for_each(|master| keyring.key(master).map(drop)));
    opened.map_err(|error| {
        let remedy = "give the master key of the cluster that the backup is of, and the one before it with \
                      --previous-master-key-file if the backup was taken while they were exchanged";
        Refusal::new("--master-key-file", format!("does not open what the backup holds: {error}"), remedy)
    })?;
    Ok(record.format)
}

fn part_of(manifest: &Manifest, group: u16) -> Result<&GroupPart, Refusal> {
    let part = manifest.groups.iter().find(|part| part.group == group);
    part.ok_or_else(|| Refusal::new("manifest.json", format!("does not name {}", name_of(group)), "use another backup"))
}

/// Checks that the data folder is empty.
fn is_empty(folder: &Path) -> Result<(), Refusal> {
    let is_empty = is_empty_folder(folder).map_err(|error| unusable(folder, error))?;
    let remedy = "empty it if it is what an earlier restore left, or name another";
    ensure(is_empty, subject(folder), "is not empty", remedy)
}

fn subject(folder: &Path) -> String {
    format!("--data-dir {}", folder.display())
}

fn unusable(folder: &Path, error: io::Error) -> Refusal {
    Refusal::new(subject(folder), error, "name a folder that this process can write to")
}

/// Writes the states of all groups into a data folder, adapted to the new cluster.
fn write_states(from: &Depot, manifest: &Manifest, config: &Config, storage_id: Uuid) -> anyhow::Result<Restorer> {
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
        let mut group = seed.group(part.group, Position { term: part.term, index: part.index });
        let found = read_group::<RestoreError>(from, part.group, |key, value| {
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
        // The backup was verified before; the file may have changed since then.
        check::same(from, &found, part)?;
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

fn write_media(from: &Depot, manifest: &Manifest, blobs: &Path, tells: bool) -> anyhow::Result<()> {
    let mut progress = Progress::begin("media written".to_owned(), check::media_of(manifest), tells);
    for part in &manifest.media {
        let target = blobs.join(blob_name(&part.sha256));
        let copy = || -> io::Result<()> {
            let folder = target.parent().unwrap_or(blobs);
            fs::create_dir_all(folder)?;
            let mut file = File::create(&target)?;
            io::copy(&mut from.open(&media_name(&part.sha256))?, &mut file)?;
            file.sync_all()?;
            File::open(folder)?.sync_all()
        };
        copy().with_context(|| target.display().to_string())?;
        progress.step(part.bytes);
    }
    if blobs.exists() {
        File::open(blobs).and_then(|folder| folder.sync_all()).with_context(|| blobs.display().to_string())?;
    }
    Ok(())
}
