//! The state while a batch of commands is applied: the written state, overlaid with the batch's changes.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::Mutex;
use rocksdb::WriteBatch;

use super::disk::{StateDisk, state_key, with_state_key};
use super::reader::StateReader;
use super::recent::{self, Recent};
use crate::machine::{Pairs, State, View, scan_in_order};

/// The changes of one batch over the written state. Nothing else may write the group's state while it lives, because it
/// caches rows.
pub(crate) struct Overlay {
    base: StateReader,
    /// Keys have the group as prefix, as they are written; `None` is a deletion.
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Bytes of keys and values in the batch, used to limit its size.
    pub(super) bytes: usize,
    /// Cache of the written state, never of the batch's changes. Locked, never contended, because reads update it.
    recent: Mutex<Recent>,
}

impl Overlay {
    pub(crate) fn new(base: StateReader) -> Self {
        Self::remembering(base, recent::GENERATION)
    }

    /// An overlay whose cache has two generations of `generation` bytes each.
    fn remembering(base: StateReader, generation: usize) -> Self {
        Self { base, changes: BTreeMap::new(), bytes: 0, recent: Mutex::new(Recent::new(generation)) }
    }

    /// Moves the changes into a write batch. The batch must be written before the next read; if that fails, the group
    /// stops and drops this overlay.
    pub(crate) fn drain_into(&mut self, disk: &StateDisk, batch: &mut WriteBatch) {
        let (state, recent) = (disk.state(), self.recent.get_mut());
        for (key, value) in std::mem::take(&mut self.changes) {
            match value {
                Some(value) => {
                    batch.put_cf(state, &key, &value);
                    recent.written(key, value);
                }
                None => {
                    batch.delete_cf(state, &key);
                    recent.remove(&key);
                }
            }
        }
        self.bytes = 0;
    }

    fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.changes.insert(state_key(self.base.group, key), value.map(<[u8]>::to_vec));
    }

    /// The changes in a range, with the machine's keys; empty if `to` is before `from`.
    fn changes_in<'a>(
        &'a self,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a Option<Vec<u8>>)> + use<'a> {
        let (from, to) = (state_key(self.base.group, from), state_key(self.base.group, to.max(from)));
        let range = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
        self.changes.range::<[u8], _>(range).map(|(key, value)| (&key[2..], value))
    }

    /// Overlays changes on written pairs; both are sorted by `before`.
    fn merge<'a>(
        written: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
        changes: impl Iterator<Item = (&'a [u8], &'a Option<Vec<u8>>)>,
        before: impl Fn(&[u8], &[u8]) -> bool,
        limit: usize,
    ) -> Pairs {
        let mut out = Pairs::new();
        let (mut written, mut changes) = (written.peekable(), changes.peekable());
        while out.len() < limit {
            let take_change = match (written.peek(), changes.peek()) {
                (None, None) => break,
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((written, _)), Some((changed, _))) => !before(written, changed),
            };
            if !take_change {
                out.extend(written.next());
                continue;
            }
            if let Some((key, value)) = changes.next() {
                if written.peek().is_some_and(|(written, _)| written.as_slice() == key) {
                    written.next();
                }
                if let Some(value) = value {
                    out.push((key.to_vec(), value.clone()));
                }
            }
        }
        out
    }
}

impl View for Overlay {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        with_state_key(self.base.group, key, |full| {
            if let Some(change) = self.changes.get(full) {
                return change.clone();
            }
            let mut recent = self.recent.lock();
            if let Some(known) = recent.get(full) {
                return known;
            }
            let value = self.base.disk.get(full)?;
            recent.read(full, &value);
            Some(value)
        })
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        // Deletions of the batch may consume the pairs read first; the iterator then reads more.
        let written = scan_in_order(&self.base, (from.to_vec(), to.to_vec()), limit, true);
        Self::merge(written, self.changes_in(from, to), |a, b| a < b, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        let written = scan_in_order(&self.base, (from.to_vec(), to.to_vec()), limit, false);
        Self::merge(written, self.changes_in(from, to).rev(), |a, b| a > b, limit)
    }
}

impl State for Overlay {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.change(key, Some(value));
    }

    fn delete(&mut self, key: &[u8]) {
        self.change(key, None);
    }

    fn note_absent(&mut self, key: &[u8]) {
        self.recent.get_mut().absent(state_key(self.base.group, key));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::folder::USUAL_BUFFER;
    use crate::machine::MemoryState;
    use crate::state::recent::{LARGEST_READ, LARGEST_WRITTEN};

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u8, usize),
        Delete(u8),
        Write,
        Get(u8),
        Scan(u8, u8, usize),
        /// Another state replaces the written one and the batch's changes.
        Replace(u8, u8),
    }

    /// Includes a tenth of the test's generation, and lengths beyond which values are not cached.
    fn length() -> impl Strategy<Value = usize> {
        prop_oneof![Just(1_usize), Just(100), Just(LARGEST_WRITTEN), Just(LARGEST_READ), Just(LARGEST_READ + 1)]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..20u8, any::<u8>(), length()).prop_map(|(key, value, length)| Step::Put(key, value, length)),
            3 => (0..20u8).prop_map(Step::Delete),
            4 => Just(Step::Write),
            8 => (0..20u8).prop_map(Step::Get),
            3 => (0..20u8, 0..20u8, 0..6usize).prop_map(|(from, to, limit)| Step::Scan(from, to, limit)),
            1 => (0..20u8, any::<u8>()).prop_map(|(key, value)| Step::Replace(key, value)),
        ]
    }

    /// Some keys are too long for the prefix buffer on the stack.
    fn key(number: u8) -> Vec<u8> {
        let mut key = vec![number];
        key.resize(if number.is_multiple_of(5) { 200 } else { 1 }, 0);
        key
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn an_overlay_reads_as_if_its_changes_were_written(steps in proptest::collection::vec(step(), 1..200)) {
            let folder = tempfile::tempdir().unwrap();
            let disk = StateDisk::open(folder.path(), folder.path().join("i"), USUAL_BUFFER, Arc::new(|r| panic!("{r}"))).unwrap();
            // Neighbouring groups, whose keys must never show.
            for group in [6, 8] {
                let mut batch = WriteBatch::default();
                batch.put_cf(disk.state(), state_key(group, &[3]), [9]);
                disk.write(group, batch).unwrap();
            }
            let new = || Overlay::remembering(StateReader::new(disk.clone(), 7), 1 << 10);
            let mut overlay = new();
            let mut model = MemoryState::new();
            let mut written = model.clone();
            for step in steps {
                match step {
                    Step::Put(number, value, length) => {
                        overlay.put(&key(number), &vec![value; length]);
                        model.put(&key(number), &vec![value; length]);
                    }
                    Step::Delete(number) => {
                        overlay.delete(&key(number));
                        model.delete(&key(number));
                    }
                    Step::Write => {
                        let mut batch = WriteBatch::default();
                        overlay.drain_into(&disk, &mut batch);
                        disk.write(7, batch).unwrap();
                        written = model.clone();
                    }
                    Step::Get(number) => {
                        prop_assert_eq!(overlay.get(&key(number)), model.get(&key(number)));
                        if written.get(&key(number)).is_none() {
                            overlay.note_absent(&key(number));
                        }
                    }
                    Step::Scan(from, to, limit) => {
                        let (from, to) = (key(from), key(to));
                        prop_assert_eq!(overlay.scan(&from, &to, limit), model.scan(&from, &to, limit));
                        prop_assert_eq!(overlay.scan_back(&from, &to, limit), model.scan_back(&from, &to, limit));
                    }
                    Step::Replace(number, value) => {
                        let mut batch = WriteBatch::default();
                        batch.put_cf(disk.state(), state_key(7, &key(number)), [value]);
                        disk.write(7, batch).unwrap();
                        written.put(&key(number), &[value]);
                        (overlay, model) = (new(), written.clone());
                    }
                }
            }
            for number in 0..20 {
                prop_assert_eq!(overlay.get(&key(number)), model.get(&key(number)));
            }
        }
    }
}
