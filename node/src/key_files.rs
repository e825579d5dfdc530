//! Files with keys: made at random, written whole or not at all, for their owner alone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use rand::Rng;

/// Random bytes in hex, as a line.
pub fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    rand::rng().fill_bytes(&mut random);
    format!("{}\n", hex::encode(random))
}

/// Writes a file that its owner alone may read.
///
/// # Errors
/// When it cannot be written; the error names it.
pub fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    write_atomically(path, text.as_bytes(), 0o600).with_context(|| path.display().to_string())
}

/// Writes a file, all or nothing.
///
/// # Errors
/// When it cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut file = File::options().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(&temporary, path)
}

/// Makes files that were written here survive a power cut.
///
/// # Errors
/// When the disk fails.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            File::open(path)?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}
