//! Number of the last synced write, kept in a file beside the log.
//!
//! RocksDB ends the replay of a WAL file without an error where it is damaged or truncated: the log then merely looks
//! shorter, and a node that has forgotten what it acknowledged could help to elect a leader that lacks it. This file
//! reveals that. It is not synced itself: it survives the process, and after a power failure it may lag, but it is
//! never ahead of what was synced.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::codec::invalid_data;

/// Two slots, written in turn and each within its own sector, so that at least one is always intact.
const PLACES: u64 = 2;
const APART: u64 = 512;

pub(crate) struct Mark {
    file: File,
    writes: u64,
}

impl Mark {
    /// Creates the mark of a new log.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.set_len(PLACES * APART)?;
        let mut mark = Self { file, writes: 0 };
        for _ in 0..PLACES {
            mark.note(0)?;
        }
        mark.file.sync_all()?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(mark)
    }

    /// Opens the mark of an existing log, and returns the number in it.
    ///
    /// # Errors
    /// When it is missing or damaged: the log cannot be trusted then.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, u64)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut noted = None;
        for place in 0..PLACES {
            let mut bytes = [0; 16];
            file.read_exact_at(&mut bytes, place * APART)?;
            noted = noted.max(parse(u128::from_be_bytes(bytes)));
        }
        let noted = noted.ok_or_else(|| invalid_data("is damaged"))?;
        Ok((Self { file, writes: 0 }, noted))
    }

    /// Records that all writes up to `number` are synced.
    pub(crate) fn note(&mut self, number: u64) -> io::Result<()> {
        let place = self.writes % PLACES;
        self.writes += 1;
        self.file.write_all_at(&format(number).to_be_bytes(), place * APART)
    }
}

/// The number and its complement, to detect a partial write.
fn format(number: u64) -> u128 {
    u128::from(number) << 64 | u128::from(!number)
}

fn parse(note: u128) -> Option<u64> {
    let number = (note >> 64) as u64;
    (note == format(number)).then_some(number)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_stands_though_one_place_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        let mut mark = Mark::create(&path).unwrap();
        assert_eq!(Mark::open(&path).unwrap().1, 0);
        for number in [3, 5, 9] {
            mark.note(number).unwrap();
        }
        assert_eq!(Mark::open(&path).unwrap().1, 9);
        mark.file.write_all_at(&[0xff], 0).unwrap();
        assert_eq!(Mark::open(&path).unwrap().1, 5);
        mark.file.write_all_at(&[0xff], APART).unwrap();
        assert!(Mark::open(&path).is_err());
    }
}
