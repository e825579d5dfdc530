//! Bounds the entries of the audit log for logins and their ends.
//!
//! Members may log in every few seconds, and a login is never refused for its entry in the log, which is kept for 400
//! days. So beyond a bounded number per account, hour and node, all entries of one action share one. It has the time at
//! which the hour begins, and an id derived from these, so that all nodes write the same entry.

use std::collections::{BTreeMap, HashMap};

use model::id::{AuditId, CustomerId};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::records::{AuditActor, AuditEntry};
use uuid::Uuid;

use super::HOUR_MILLIS;

/// The most separate entries for logins and their ends, per account, hour and node.
const MOST_TOLD_APART: usize = 1_024;

/// Counts the entries of this hour per account, on this node.
#[derive(Default)]
pub struct LoginLog(Mutex<Hour>);

#[derive(Default)]
struct Hour {
    begin: Timestamp,
    entries: HashMap<CustomerId, usize>,
}

impl LoginLog {
    /// The entry to write for a login or its end: its own, or the one that it shares with others.
    pub fn told(&self, entry: AuditEntry) -> AuditEntry {
        let Some(customer) = entry.customer_id else { return entry };
        let begin = entry.created_at.begin_of(HOUR_MILLIS);
        let mut hour = self.0.lock();
        // A late entry of an earlier hour counts for the current one.
        if begin > hour.begin {
            *hour = Hour { begin, entries: HashMap::new() };
        }
        let entries = hour.entries.entry(customer).or_default();
        if *entries < MOST_TOLD_APART {
            *entries += 1;
            return entry;
        }
        shared(entry, customer, begin)
    }
}

fn shared(entry: AuditEntry, customer: CustomerId, begin: Timestamp) -> AuditEntry {
    let name = format!("{}|{customer}|{}", entry.action, begin.0);
    AuditEntry {
        id: AuditId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())),
        actor: AuditActor { kind: entry.actor.kind, id: None, prefix: None, email: None },
        target: None,
        ip: None,
        user_agent: None,
        request_id: None,
        created_at: begin,
        details: BTreeMap::from([("folded".to_owned(), "hour".to_owned())]),
        ..entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(customer: u128, action: &str, at: i64) -> AuditEntry {
        AuditEntry {
            id: AuditId::new(),
            customer_id: Some(CustomerId(Uuid::from_u128(customer))),
            action: action.to_owned(),
            actor: AuditActor { kind: "session".to_owned(), id: Some("m".to_owned()), prefix: None, email: None },
            target: None,
            ip: Some("198.51.100.1".to_owned()),
            user_agent: None,
            request_id: None,
            success: true,
            created_at: Timestamp(at),
            details: BTreeMap::new(),
        }
    }

    #[test]
    fn so_many_logins_of_an_account_have_entries_of_their_own_and_the_rest_of_the_hour_shares_one_for_each_action() {
        let (log, another_nodes) = (LoginLog::default(), LoginLog::default());
        let at = 5 * HOUR_MILLIS + 7;
        for log in [&log, &another_nodes] {
            for _ in 0..MOST_TOLD_APART {
                let entry = login(1, "auth.login", at);
                assert_eq!(log.told(entry.clone()), entry);
            }
        }
        let folded = log.told(login(1, "auth.login", at));
        assert_eq!((folded.created_at, folded.ip.as_deref()), (Timestamp(5 * HOUR_MILLIS), None));
        assert_eq!(folded.actor.id, None, "it is nobody's in particular");
        assert_eq!(log.told(login(1, "auth.login", at + 1)), folded);
        assert_eq!(another_nodes.told(login(1, "auth.login", at + 2)), folded, "all nodes write the same one");
        assert_ne!(log.told(login(1, "auth.logout", at)).id, folded.id);

        let is_told_apart = |entry: AuditEntry| log.told(entry.clone()) == entry;
        assert!(is_told_apart(login(2, "auth.login", at)), "another account's");
        assert!(is_told_apart(login(1, "auth.login", at + HOUR_MILLIS)), "in the next hour");
        assert!(is_told_apart(login(1, "auth.login", at)), "late, but nothing of it is counted for the hour that is");
        assert_eq!(log.0.lock().entries.len(), 1, "accounts of hours that are over are forgotten");
    }
}
