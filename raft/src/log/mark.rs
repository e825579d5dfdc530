//! How far the log was synced, noted beside it.
//!
//! RocksDB ends the replay of a write-ahead file where it is damaged or cut off, without an error: such a log reads like
//! a shorter one, and a node that forgot what it acknowledged could help to elect a leader without it. So the number of
//! the last synced write is noted in a file of its own. The note itself is not synced: it survives the process, and after
//! a power cut it may be behind, never ahead of what the disk had promised.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::codec::invalid_data;

/// Two places that are written in turn, each within a sector of its own: one of them is whole whatever happens.
const PLACES: u64 = 2;
const APART: u64 = 512;

pub(crate) struct Mark {
    file: File,
    writes: u64,
}

impl Mark {
    /// Makes the mark of a log that is made now.
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

    /// Opens the mark of a log that is there, and says what it bears.
    ///
    /// # Errors
    /// Also when it is missing or damaged: the log cannot be trusted then.
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

    /// Notes that all writes up to this number are synced.
    pub(crate) fn note(&mut self, number: u64) -> io::Result<()> {
        let place = self.writes % PLACES;
        self.writes += 1;
        self.file.write_all_at(&format(number).to_be_bytes(), place * APART)
    }
}

/// The number and its complement: half a note is none.
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
