//! `gateway backup verify`: reads a backup through and compares all of it with its manifest.

use std::fs::File;
use std::io;
use std::path::Path;

use model::id::ShardId;
use raft::backup::file::FileError;
use serde_json::json;

use super::manifest::{GroupPart, Hashing, Manifest, group_file, media_file, read_group};
use crate::console::say;
use crate::operator::{Verdict, show};
use crate::refusal::Refusal;

/// The folder of the bytes of media.
pub const MEDIA: &str = "media";

pub fn run(folder: &Path, json: bool) -> anyhow::Result<Verdict> {
    let manifest = Manifest::read(folder)?;
    for part in &manifest.groups {
        group(folder, part)?;
    }
    for part in &manifest.media {
        media(folder, &part.sha256, part.bytes)?;
    }
    if json {
        show::json(&json!({ "whole": true, "manifest": manifest }));
    } else {
        say(summary(&manifest));
    }
    Ok(Verdict::Well)
}

/// One line about a backup that is whole.
pub fn summary(manifest: &Manifest) -> String {
    let states: u64 = manifest.groups.iter().map(|part| part.bytes).sum();
    let bytes: u64 = manifest.media.iter().map(|part| part.bytes).sum();
    format!(
        "whole: cluster {}, of {}, {} groups ({}), {} files of media ({})",
        manifest.cluster_id,
        manifest.taken_at,
        manifest.groups.len(),
        show::bytes(states),
        manifest.media.len(),
        show::bytes(bytes)
    )
}

/// Compares the state of a group with what the manifest says of it.
pub fn group(folder: &Path, part: &GroupPart) -> Result<(), Refusal> {
    let path = group_file(folder, part.group);
    let found = read_group::<FileError>(&path, |_, _| Ok(())).map_err(|error| damaged(&path, error.to_string()))?;
    same(&path, &found, part)
}

/// What was read of a group has to be what the manifest says.
pub fn same(path: &Path, found: &GroupPart, part: &GroupPart) -> Result<(), Refusal> {
    if found != part {
        return Err(damaged(path, "is whole, but not the one that the manifest tells of".to_owned()));
    }
    Ok(())
}

/// Compares bytes of media with their hash.
pub fn media(folder: &Path, sha256: &str, bytes: u64) -> Result<(), Refusal> {
    let path = media_file(&folder.join(MEDIA), sha256);
    let read = || -> io::Result<(u64, String)> {
        let mut input = Hashing::new(File::open(&path)?);
        io::copy(&mut input, &mut io::sink())?;
        Ok(input.finish())
    };
    let found = read().map_err(|error| damaged(&path, format!("cannot be read: {error}")))?;
    if found != (bytes, sha256.to_owned()) {
        return Err(damaged(&path, "is damaged: its hash is another one".to_owned()));
    }
    Ok(())
}

pub fn damaged(path: &Path, problem: String) -> Refusal {
    Refusal::new(path.display().to_string(), problem, "use another copy of this backup, or another backup")
}

/// How a group is called.
pub fn name_of(group: ShardId) -> String {
    match group {
        0 => "the directory".to_owned(),
        shard => format!("shard {shard}"),
    }
}
