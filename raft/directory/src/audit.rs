//! Reads the audit log, which is on disk: newest entries first, with a bounded effort for each page.

use model::id::{AuditId, CustomerId};
use model::time::Timestamp;

use super::keys;
use super::records::AuditEntry;
use machine::View;
use machine::record::decode;

/// Entries read from disk at a time.
const CHUNK: usize = 256;

/// The log and the period to read.
#[derive(Clone, Copy, Debug)]
pub struct AuditQuery {
    pub customer: Option<CustomerId>,
    pub since: Timestamp,
    pub until: Timestamp,
}

/// Position of an entry in its log.
pub type AuditPlace = (Timestamp, AuditId);

/// Entries, newest first.
#[derive(Debug, Default, PartialEq)]
pub struct AuditPage {
    pub entries: Vec<AuditEntry>,
    /// The last entry that was examined, if reading stopped there: older entries were not examined.
    pub stopped_at: Option<AuditPlace>,
}

impl AuditPage {
    /// Reads at most `limit` wanted entries from before a place, and stops after it has examined about `looked_at`.
    pub fn read(
        view: &dyn View,
        query: &AuditQuery,
        before: Option<AuditPlace>,
        limit: usize,
        looked_at: usize,
        mut wanted: impl FnMut(&AuditEntry) -> bool,
    ) -> Self {
        let (from, mut to) = keys::audit_range(query.customer, query.since, query.until);
        if let Some((at, id)) = before {
            to = to.min(keys::audit(query.customer, at, id));
        }
        let mut page = Self::default();
        let mut seen = 0;
        while page.entries.len() < limit {
            let rows = view.scan_back(&from, &to, CHUNK);
            let Some((last, _)) = rows.last() else { return page };
            to.clone_from(last);
            seen += rows.len();
            let mut place = None;
            for (_, row) in &rows {
                let entry: AuditEntry = decode(row);
                place = Some((entry.created_at, entry.id));
                if wanted(&entry) {
                    page.entries.push(entry);
                }
                if page.entries.len() == limit {
                    return page;
                }
            }
            if seen >= looked_at {
                page.stopped_at = place;
                return page;
            }
        }
        page
    }

    /// Merges pages of several logs, up to `limit` entries. Entries older than a place where one of the pages stopped
    /// would be out of order, and are left for later.
    pub fn merge(pages: impl IntoIterator<Item = Self>, limit: usize) -> Self {
        let mut merged = Self::default();
        for page in pages {
            merged.entries.extend(page.entries);
            merged.stopped_at = merged.stopped_at.max(page.stopped_at);
        }
        let place = |entry: &AuditEntry| (entry.created_at, entry.id);
        merged.entries.retain(|entry| merged.stopped_at.is_none_or(|stopped_at| place(entry) >= stopped_at));
        merged.entries.sort_by_key(|entry| std::cmp::Reverse(place(entry)));
        if merged.entries.len() > limit {
            merged.entries.truncate(limit);
            merged.stopped_at = merged.entries.last().map(place);
        }
        merged
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::collections::BTreeMap;

    use machine::record::encode;
    use machine::{MemoryState, State};

    use super::*;
    use crate::records::AuditActor;

    fn put(state: &mut MemoryState, customer: CustomerId, at: i64, action: &str) {
        let entry = AuditEntry {
            id: AuditId::random(),
            customer_id: Some(customer),
            action: action.to_owned(),
            actor: AuditActor { kind: "system".into(), id: None, prefix: None, email: None },
            target: None,
            ip: None,
            user_agent: None,
            request_id: None,
            success: true,
            created_at: Timestamp(at),
            details: BTreeMap::new(),
        };
        state.put(&keys::audit(entry.customer_id, entry.created_at, entry.id), &encode(&entry));
    }

    fn times(page: &AuditPage) -> Vec<i64> {
        page.entries.iter().map(|entry| entry.created_at.0).collect()
    }

    #[test]
    fn a_page_that_looked_at_enough_says_where_and_the_pages_together_have_every_entry_once_in_order() {
        let mut state = MemoryState::new();
        let customers = [CustomerId::random(), CustomerId::random()];
        // One log is long and few of its entries are wanted; the other is short and old.
        let most = 10 * CHUNK as i64;
        for at in 1..=most {
            put(&mut state, customers[0], 100 + at, if at % 1000 == 0 { "wanted" } else { "other" });
        }
        (0..3).for_each(|at| put(&mut state, customers[1], at, "wanted"));
        let (mut before, mut found, mut pages) = (None, Vec::new(), 0);
        loop {
            let read = customers.map(|customer| {
                let query = AuditQuery { customer: Some(customer), since: Timestamp(0), until: Timestamp(i64::MAX) };
                let mut looked_at = 0;
                let page = AuditPage::read(&state, &query, before, 9, 3 * CHUNK, |entry| {
                    looked_at += 1;
                    entry.action == "wanted"
                });
                assert!(looked_at <= 3 * CHUNK, "{looked_at}");
                page
            });
            let page = AuditPage::merge(read, 9);
            found.extend(times(&page));
            pages += 1;
            before = page.stopped_at;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, [2100, 1100, 2, 1, 0]);
        assert!(pages > 3, "{pages}");
    }

    #[test]
    fn a_page_ends_at_its_limit_and_goes_on_behind_its_last_entry() {
        let mut state = MemoryState::new();
        let customer = CustomerId::random();
        (0..5).for_each(|at| put(&mut state, customer, at, "wanted"));
        let query = AuditQuery { customer: Some(customer), since: Timestamp(0), until: Timestamp(i64::MAX) };
        let read = |before| AuditPage::read(&state, &query, before, 3, usize::MAX, |_| true);
        let first = AuditPage::merge([read(None)], 2);
        assert_eq!((times(&first), first.stopped_at.is_some()), (vec![4, 3], true));
        let last = AuditPage::merge([read(first.stopped_at)], 9);
        assert_eq!((times(&last), last.stopped_at), (vec![2, 1, 0], None));
    }
}
