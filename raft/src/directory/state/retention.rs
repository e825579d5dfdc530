//! What the directory forgets by age: audit entries and sessions (supplement 21.6). Bounded steps, so that no entry of
//! the log holds up the others.

use model::time::Timestamp;

use super::DirectoryState;
use crate::directory::command::Reply;
use crate::directory::keys;
use crate::machine::{State, View};

impl DirectoryState {
    /// Forgets at most `most` audit entries from before `audit`, and as many sessions that ended before `sessions`.
    pub(super) fn trim(&mut self, audit: Timestamp, sessions: Timestamp, most: usize, store: &mut dyn State) -> Reply {
        let old = keys_before(store, audit, most + 1);
        old.iter().take(most).for_each(|key| store.delete(key));
        let more_sessions = self.users.forget_sessions(sessions, most, store);
        Reply::Trimmed { more: old.len() > most || more_sessions }
    }
}

/// The keys of audit entries from before a time, at most `most`. The log sorts by customer first, so it is walked
/// customer by customer, each by its oldest entries alone.
pub fn keys_before(view: &(impl View + ?Sized), before: Timestamp, most: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let (mut from, to) = keys::audit_table();
    while found.len() < most {
        let Some((first, _)) = view.scan(&from, &to, 1).into_iter().next() else { break };
        let Some((old, next)) = keys::audit_before(&first, before) else { break };
        let rows = view.scan(&first, &old, most - found.len());
        found.extend(rows.into_iter().map(|(key, _)| key.to_vec()));
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    found
}
