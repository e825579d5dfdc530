//! The part of one file that is not on the disk yet.
//!
//! The file itself always has its newest content, so that reading costs nothing. Kept here is what a power cut would
//! restore: the length at the last sync, and the bytes that each page changed since had then.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;

/// Changes of one file since its last sync.
#[derive(Default)]
pub(super) struct Unsynced {
    /// The length on the disk.
    length: u64,
    /// The bytes that the disk has of the changed pages, up to its length.
    pages: BTreeMap<u64, Vec<u8>>,
    /// The same for pages whose sync has failed: they count as written, and no later sync writes them.
    given_up: BTreeMap<u64, Vec<u8>>,
}

impl Unsynced {
    /// For a file that is on the disk with this length.
    pub(super) fn on_disk(length: u64) -> Self {
        Self { length, ..Self::default() }
    }

    /// Keeps the disk's version of these bytes, before they change.
    pub(super) fn keep(&mut self, file: &File, from: u64, to: u64) -> io::Result<()> {
        if from >= to {
            return Ok(());
        }
        for page in from / PAGE..=(to - 1) / PAGE {
            if self.pages.contains_key(&page) {
                continue;
            }
            let on_disk = match self.given_up.remove(&page) {
                Some(on_disk) => on_disk,
                None => {
                    let mut bytes = vec![0; self.length.saturating_sub(page * PAGE).min(PAGE) as usize];
                    file.read_exact_at(&mut bytes, page * PAGE)?;
                    bytes
                }
            };
            self.pages.insert(page, on_disk);
        }
        Ok(())
    }

    /// Keeps the disk's version of the bytes that a truncation to `length` would remove.
    pub(super) fn keep_behind(&mut self, file: &File, length: u64) -> io::Result<()> {
        self.keep(file, length, self.length)
    }

    /// Marks the file, which has this length now, as synced.
    pub(super) fn synced(&mut self, length: u64) {
        self.pages.clear();
        self.length = length;
    }

    /// Records a failed sync.
    pub(super) fn sync_failed(&mut self) {
        self.given_up.append(&mut self.pages);
    }

    /// Restores a file of this length to what is on the disk, except the pages for which `survives` returns true.
    /// Returns the new length and the number of lost pages.
    pub(super) fn revert(
        &mut self,
        file: &File,
        length: u64,
        mut survives: impl FnMut() -> bool,
    ) -> io::Result<(u64, usize)> {
        let mut lost = std::mem::take(&mut self.given_up);
        let mut end = self.length;
        for (page, on_disk) in std::mem::take(&mut self.pages) {
            if survives() {
                end = end.max(length.min((page + 1) * PAGE));
            } else {
                lost.insert(page, on_disk);
            }
        }
        file.set_len(end)?;
        for (page, mut bytes) in lost.iter().map(|(page, on_disk)| (page * PAGE, on_disk.clone())) {
            bytes.resize(end.saturating_sub(page).min(PAGE) as usize, 0);
            file.write_all_at(&bytes, page)?;
        }
        self.length = end;
        Ok((end, lost.len()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    /// An operation on a file.
    #[derive(Clone, Debug)]
    enum Step {
        Write { at: u64, bytes: Vec<u8> },
        Cut { length: u64 },
        Sync,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let write = (0..20_000_u64, prop::collection::vec(any::<u8>(), 1..9_000))
            .prop_map(|(at, bytes)| Step::Write { at, bytes });
        let cut = (0..20_000_u64).prop_map(|length| Step::Cut { length });
        prop::collection::vec(prop_oneof![4 => write, 1 => cut, 1 => Just(Step::Sync)], 0..20)
    }

    /// Executes steps. Returns the file's length and its content at the last sync.
    fn take(steps: &[Step], file: &File, unsynced: &mut Unsynced) -> (u64, Vec<u8>) {
        let read = |length: u64| {
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        let (mut length, mut on_disk) = (0, Vec::new());
        for step in steps {
            match step {
                Step::Write { at, bytes } => {
                    let end = at + bytes.len() as u64;
                    unsynced.keep(file, *at, end).unwrap();
                    file.write_all_at(bytes, *at).unwrap();
                    length = length.max(end);
                }
                Step::Cut { length: to } => {
                    unsynced.keep_behind(file, *to).unwrap();
                    file.set_len(*to).unwrap();
                    length = *to;
                }
                Step::Sync => {
                    unsynced.synced(length);
                    on_disk = read(length);
                }
            }
        }
        (length, on_disk)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn all_that_was_not_synced_is_lost(steps in steps()) {
            let place = tempfile::NamedTempFile::new().unwrap();
            let mut unsynced = Unsynced::default();
            let (length, on_disk) = take(&steps, place.as_file(), &mut unsynced);
            let (end, _) = unsynced.revert(place.as_file(), length, || false).unwrap();
            prop_assert_eq!(end, on_disk.len() as u64);
            prop_assert!(fs::read(place.path()).unwrap() == on_disk);
        }

        #[test]
        fn a_page_survives_whole_or_is_as_it_was(steps in steps(), seed in any::<u64>()) {
            let place = tempfile::NamedTempFile::new().unwrap();
            let mut unsynced = Unsynced::default();
            let (length, on_disk) = take(&steps, place.as_file(), &mut unsynced);
            let newest = fs::read(place.path()).unwrap();
            let mut bits = seed;
            let (end, _) = unsynced.revert(place.as_file(), length, || { bits = bits.rotate_left(1); bits & 1 == 1 }).unwrap();
            let found = fs::read(place.path()).unwrap();
            prop_assert_eq!(end, found.len() as u64);
            let page = |of: &[u8], n: usize| -> Vec<u8> {
                (n * PAGE as usize..(n + 1) * PAGE as usize).map(|at| of.get(at).copied().unwrap_or(0)).collect()
            };
            for n in 0..found.len().div_ceil(PAGE as usize) {
                let is = page(&found, n);
                let within = |of: &[u8]| page(&of[..of.len().min(found.len())], n);
                prop_assert!(is == within(&newest) || is == within(&on_disk), "page {}", n);
            }
        }
    }

    #[test]
    fn a_sync_after_a_failed_one_does_not_bring_back_what_was_lost() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let file = place.as_file();
        let mut unsynced = Unsynced::default();
        let write = |at: u64, byte: u8, unsynced: &mut Unsynced| {
            unsynced.keep(file, at, at + PAGE).unwrap();
            file.write_all_at(&[byte; PAGE as usize], at).unwrap();
        };
        write(0, 1, &mut unsynced);
        unsynced.synced(PAGE);
        write(0, 2, &mut unsynced);
        unsynced.sync_failed();
        write(PAGE, 3, &mut unsynced);
        unsynced.synced(2 * PAGE);
        assert_eq!(unsynced.revert(file, 2 * PAGE, || false).unwrap(), (2 * PAGE, 1));
        let found = fs::read(place.path()).unwrap();
        assert!(found[..PAGE as usize].iter().all(|byte| *byte == 1));
        assert!(found[PAGE as usize..].iter().all(|byte| *byte == 3));
    }
}
