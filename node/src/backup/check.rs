//! `gateway backup verify`: reads a whole backup and compares it with its manifest.

use std::fmt::Display;
use std::io;

use model::id::ShardId;
use raft::backup::file::FileError;
use serde_json::json;

use super::depot::Depot;
use super::manifest::{GroupPart, Hashing, Manifest, group_name, media_name, read_group};
use super::progress::{Amount, Progress};
use crate::console::StatusLine;
use crate::operator::{Verdict, show};
use crate::refusal::Refusal;

/// Verifies a backup. Blocks on its storage.
pub fn run(depot: &Depot, json: bool) -> anyhow::Result<Verdict> {
    let manifest = Manifest::read(depot)?;
    for part in &manifest.groups {
        group(depot, part)?;
    }
    // Progress is shown only on a terminal: scripts get a single JSON line.
    all_media(depot, &manifest, !json && StatusLine::begin().on_terminal)?;
    if json {
        show::json(&json!({ "whole": true, "manifest": manifest }));
    } else {
        show::prose(&summary(&manifest));
    }
    Ok(Verdict::Well)
}

/// One line that describes an intact backup.
pub fn summary(manifest: &Manifest) -> String {
    let states: u64 = manifest.groups.iter().map(|part| part.bytes).sum();
    let media = media_of(manifest);
    format!(
        "whole: cluster {}, of {}, {} groups ({}), media files: {} ({})",
        manifest.cluster_id,
        manifest.taken_at,
        manifest.groups.len(),
        show::bytes(states),
        media.files,
        show::bytes(media.bytes)
    )
}

/// Compares the state of a group with its entry in the manifest.
pub fn group(depot: &Depot, part: &GroupPart) -> Result<(), Refusal> {
    let found = read_group::<FileError>(depot, part.group, |_, _| Ok(()));
    same(depot, &found.map_err(|error| damaged(depot, &group_name(part.group), error))?, part)
}

/// Checks that a group that was read matches its entry in the manifest.
pub fn same(depot: &Depot, found: &GroupPart, part: &GroupPart) -> Result<(), Refusal> {
    if found != part {
        let problem = "is complete, but not the one that the manifest names";
        return Err(damaged(depot, &group_name(part.group), problem));
    }
    Ok(())
}

/// Compares all media with their hashes; `tells` reports progress.
pub fn all_media(depot: &Depot, manifest: &Manifest, tells: bool) -> Result<(), Refusal> {
    let mut progress = Progress::begin("media read".to_owned(), media_of(manifest), tells);
    for part in &manifest.media {
        media(depot, &part.sha256, part.bytes)?;
        progress.step(part.bytes);
    }
    Ok(())
}

/// Number and size of a backup's media.
pub fn media_of(manifest: &Manifest) -> Amount {
    Amount { files: manifest.media.len(), bytes: manifest.media.iter().map(|part| part.bytes).sum() }
}

/// Compares one media file with its size and hash.
pub fn media(depot: &Depot, sha256: &str, bytes: u64) -> Result<(), Refusal> {
    let name = media_name(sha256);
    let read = || -> io::Result<(u64, String)> {
        let mut input = Hashing::new(depot.open(&name)?);
        io::copy(&mut input, &mut io::sink())?;
        Ok(input.finish())
    };
    let found = read().map_err(|error| damaged(depot, &name, format!("cannot be read: {error}")))?;
    if found != (bytes, sha256.to_owned()) {
        return Err(damaged(depot, &name, "is damaged: its hash differs"));
    }
    Ok(())
}

pub fn damaged(depot: &Depot, name: &str, problem: impl Display) -> Refusal {
    Refusal::new(depot.shown(name), problem, "use another copy of this backup, or another backup")
}

/// Name of a group in messages.
pub fn name_of(group: ShardId) -> String {
    match group {
        0 => "the directory".to_owned(),
        shard => format!("shard {shard}"),
    }
}
