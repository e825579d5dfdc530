//! The state while a batch of commands is applied: what is written, and over it what the batch has changed so far.

use std::collections::BTreeMap;
use std::ops::Bound;

use rocksdb::WriteBatch;

use super::disk::{StateDisk, state_key};
use super::reader::StateReader;
use crate::machine::{GroupId, Pairs, State, View};

/// The changes of one batch over the written state.
pub(crate) struct Overlay {
    base: StateReader,
    /// `None` is a deletion.
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
}

impl Overlay {
    pub(crate) fn new(base: StateReader) -> Self {
        Self { base, changes: BTreeMap::new(), bytes: 0 }
    }

    /// Bytes of keys and values that the batch holds, as a bound for its size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves the changes into a write batch and is empty again.
    pub(crate) fn drain_into(&mut self, disk: &StateDisk, group: GroupId, batch: &mut WriteBatch) {
        for (key, value) in std::mem::take(&mut self.changes) {
            let key = state_key(group, &key);
            match value {
                Some(value) => batch.put_cf(disk.state(), key, value),
                None => batch.delete_cf(disk.state(), key),
            }
        }
        self.bytes = 0;
    }

    fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.changes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
    }

    /// Lays changes over the written pairs, both in the order in which `before` says that keys come.
    fn merge<'a>(
        mut base: impl FnMut(Option<&[u8]>) -> Pairs,
        changes: impl Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)>,
        before: impl Fn(&[u8], &[u8]) -> bool,
        limit: usize,
    ) -> Pairs {
        let mut out = Pairs::new();
        let mut changes = changes.peekable();
        let first = base(None);
        let mut more = first.len() == limit;
        let mut last_written = first.last().map(|(key, _)| key.clone());
        let mut written = first.into_iter().peekable();
        while out.len() < limit {
            if written.peek().is_none()
                && more
                && let Some(last) = &last_written
            {
                // Deletions of the batch have used up what was read: go on behind it.
                let next = base(Some(last));
                more = next.len() == limit;
                last_written = next.last().map(|(key, _)| key.clone());
                written = next.into_iter().peekable();
            }
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
                if written.peek().is_some_and(|(written, _)| written == key) {
                    written.next();
                }
                if let Some(value) = value {
                    out.push((key.clone(), value.clone()));
                }
            }
        }
        out
    }
}

impl View for Overlay {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.changes.get(key) {
            Some(change) => change.clone(),
            None => self.base.get(key),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        if from >= to {
            return Pairs::new();
        }
        let changes = self.changes.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        let base = |after: Option<&[u8]>| match after {
            None => self.base.scan(from, to, limit),
            Some(after) => {
                let mut next = after.to_vec();
                next.push(0);
                self.base.scan(&next, to, limit)
            }
        };
        Self::merge(base, changes, |a, b| a < b, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        if from >= to {
            return Pairs::new();
        }
        let changes = self.changes.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))).rev();
        let base = |before: Option<&[u8]>| self.base.scan_back(from, before.unwrap_or(to), limit);
        Self::merge(base, changes, |a, b| a > b, limit)
    }
}

impl State for Overlay {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.change(key, Some(value));
    }

    fn delete(&mut self, key: &[u8]) {
        self.change(key, None);
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

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u8),
        Delete(u8),
        Write,
        Scan(u8, u8, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..20u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
            (0..20u8).prop_map(Step::Delete),
            Just(Step::Write),
            (0..20u8, 0..20u8, 0..6usize).prop_map(|(from, to, limit)| Step::Scan(from, to, limit)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn an_overlay_reads_as_if_its_changes_were_written(steps in proptest::collection::vec(step(), 1..60)) {
            let folder = tempfile::tempdir().unwrap();
            let disk = StateDisk::open(folder.path(), folder.path().join("i"), USUAL_BUFFER, Arc::new(|r| panic!("{r}"))).unwrap();
            // A neighbour whose keys must never show.
            for group in [6, 8] {
                let mut batch = WriteBatch::default();
                batch.put_cf(disk.state(), state_key(group, &[3]), [9]);
                disk.write(group, batch).unwrap();
            }
            let mut overlay = Overlay::new(StateReader::new(disk.clone(), 7));
            let mut model = MemoryState::new();
            for step in steps {
                match step {
                    Step::Put(key, value) => {
                        overlay.put(&[key], &[value]);
                        model.put(&[key], &[value]);
                    }
                    Step::Delete(key) => {
                        overlay.delete(&[key]);
                        model.delete(&[key]);
                    }
                    Step::Write => {
                        let mut batch = WriteBatch::default();
                        overlay.drain_into(&disk, 7, &mut batch);
                        disk.write(7, batch).unwrap();
                    }
                    Step::Scan(from, to, limit) => {
                        prop_assert_eq!(overlay.scan(&[from], &[to], limit), model.scan(&[from], &[to], limit));
                        prop_assert_eq!(overlay.scan_back(&[from], &[to], limit), model.scan_back(&[from], &[to], limit));
                        prop_assert_eq!(overlay.get(&[from]), model.get(&[from]));
                    }
                }
            }
        }
    }
}
