//! Folders and files for keys: random keys, atomic writes, readable by their owner alone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use rand::Rng;

/// Random bytes in hex, with a newline.
pub fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    rand::rng().fill_bytes(&mut random);
    format!("{}\n", hex::encode(random))
}

/// A random secret for signing webhooks.
pub fn signing_secret() -> String {
    format!("whsec_{}", random_hex(24).trim_end())
}

/// Creates a folder that only its owner may enter; an existing folder is left as it is.
///
/// # Errors
/// The folder cannot be created.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether a folder is empty. `lost+found`, which file systems create in the root of a new disk, does not count.
///
/// # Errors
/// The folder cannot be read.
pub fn is_empty_folder(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        if entry?.file_name() != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// The file cannot be written; the error names it.
pub fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    write_atomically(path, text.as_bytes(), 0o600).with_context(|| path.display().to_string())
}

/// Writes a file atomically.
///
/// # Errors
/// The file cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = File::options().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        drop(file);
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        // A partial file is useless. The first error is the one that is reported.
        let _ = fs::remove_file(&temporary);
    })
}

/// Like [`write_private`], and the file survives a power cut. Blocks on disk.
///
/// # Errors
/// The file cannot be written; the error names it.
pub fn write_private_durably(path: &Path, text: &str) -> anyhow::Result<()> {
    write_private(path, text)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let sync = || File::open(path)?.sync_all().and_then(|()| File::open(folder)?.sync_all());
    sync().with_context(|| path.display().to_string())
}

/// Syncs the files of a folder and the folder itself, so that they survive a power cut.
///
/// # Errors
/// The disk fails.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            File::open(path)?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}
