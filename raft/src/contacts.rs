//! When a leader last heard from its followers, measured from the time at which it sent its request.
//!
//! openraft tracks such times too, but counts an answer to one append also for later appends that end at the same entry
//! (`InflightAppendQueue::drain_acked` in 0.10.0-alpha.37). After a late answer a follower's contact then looks more
//! recent than it is, and the leader believes for too long that no other can have been elected.

use std::collections::{BTreeMap, BTreeSet};

use model::id::NodeId;
use openraft::raft::AppendEntriesResponse;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::types::GatewayTypes;

/// Answers of a group's followers to this node, in the latest term in which it sent them requests.
#[derive(Debug)]
pub(crate) struct Contacts<I> {
    inner: Mutex<Inner<I>>,
    heard: Notify,
}

#[derive(Debug)]
struct Inner<I> {
    term: u64,
    /// For each follower: when the latest request that it has answered was sent.
    asked: BTreeMap<NodeId, I>,
    /// For each follower: when the entries that it last refused for lack of space were sent.
    refused: BTreeMap<NodeId, I>,
}

impl<I> Inner<I> {
    fn new(term: u64) -> Self {
        Self { term, asked: BTreeMap::new(), refused: BTreeMap::new() }
    }

    /// Starts over if this term is newer; `None` if it is older.
    fn of_term(&mut self, term: u64) -> Option<&mut Self> {
        if self.term < term {
            *self = Self::new(term);
        }
        (self.term == term).then_some(self)
    }
}

impl<I> Default for Contacts<I> {
    fn default() -> Self {
        Self { inner: Mutex::new(Inner::new(0)), heard: Notify::new() }
    }
}

/// Whether the answer shows that the follower accepts the sender as its leader, and so elects no other for a while.
pub(crate) fn is_loyal<C: GatewayTypes>(answer: &AppendEntriesResponse<C>) -> bool {
    match answer {
        // A log mismatch does not change that.
        AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_) | AppendEntriesResponse::Conflict => {
            true
        }
        AppendEntriesResponse::HigherVote(_) => false,
    }
}

impl<I: Copy + Ord> Contacts<I> {
    /// Records that a follower has accepted a request that was sent at `sent` by the leader of `term`.
    pub(crate) fn answered(&self, term: u64, follower: NodeId, sent: I) {
        if let Some(inner) = self.inner.lock().of_term(term) {
            let asked = inner.asked.entry(follower).or_insert(sent);
            *asked = sent.max(*asked);
        }
        self.heard.notify_waiters();
    }

    /// Records that a follower has no space for entries that were sent at `sent` by the leader of `term`.
    pub(crate) fn refused(&self, term: u64, follower: NodeId, sent: I) {
        if let Some(inner) = self.inner.lock().of_term(term) {
            inner.refused.insert(follower, sent);
        }
    }

    /// Followers that recently refused entries of this term for lack of space.
    pub(crate) fn without_room(&self, term: u64, is_recent: impl Fn(I) -> bool) -> BTreeSet<NodeId> {
        let inner = self.inner.lock();
        let refused = inner.refused.iter().filter(|(_, sent)| inner.term == term && is_recent(**sent));
        refused.map(|(follower, _)| *follower).collect()
    }

    /// Followers that have accepted a recent request of this term.
    pub(crate) fn heard_lately(&self, term: u64, is_recent: impl Fn(I) -> bool) -> BTreeSet<NodeId> {
        let inner = self.inner.lock();
        let heard = inner.asked.iter().filter(|(_, sent)| inner.term == term && is_recent(**sent));
        heard.map(|(follower, _)| *follower).collect()
    }

    /// Waits until the condition holds; it is checked whenever a follower has answered.
    pub(crate) async fn until(&self, holds: impl Fn() -> bool) {
        loop {
            let mut heard = std::pin::pin!(self.heard.notified());
            // Enabled before the check, so that no answer in between is missed.
            heard.as_mut().enable();
            if holds() {
                return;
            }
            heard.await;
        }
    }

    /// When the leader of this term sent the latest requests that a quorum of each of these voter sets has answered.
    /// The leader's own contact is `now`.
    pub(crate) fn quorum<'v>(
        &self,
        leader: NodeId,
        term: u64,
        voters: impl IntoIterator<Item = &'v BTreeSet<NodeId>>,
        now: I,
    ) -> Option<I> {
        let inner = self.inner.lock();
        let heard = |node: &NodeId| match *node == leader {
            true => Some(now),
            false => inner.asked.get(node).copied().filter(|_| inner.term == term),
        };
        let of = |set: &'v BTreeSet<NodeId>| {
            let mut times: Vec<I> = set.iter().filter_map(heard).collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            times.get(set.len() / 2).copied()
        };
        // The oldest: a membership change may still end with either set, and the next leader then needs only that one.
        voters.into_iter().map(of).reduce(Option::min).flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEADER: NodeId = 1;

    fn contacts(term: u64, answers: &[(NodeId, u64)]) -> Contacts<u64> {
        let contacts = Contacts::default();
        for (node, sent) in answers {
            contacts.answered(term, *node, *sent);
        }
        contacts
    }

    #[test]
    fn a_leader_counts_from_what_its_majority_has_answered() {
        let (three, five) = (BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 2, 3, 4, 5]));
        let heard = contacts(4, &[(2, 10), (3, 30), (9, 99), (2, 5)]);
        assert_eq!(heard.quorum(LEADER, 4, [&three], 100), Some(30));
        assert_eq!(heard.quorum(LEADER, 4, [&five], 100), Some(10));
        assert_eq!(heard.quorum(LEADER, 4, [&three, &five], 100), Some(10));
        assert_eq!(heard.quorum(LEADER, 4, [&BTreeSet::from([LEADER])], 100), Some(100));
        // A leader that is not a voter does not count towards the quorum.
        assert_eq!(heard.quorum(LEADER, 4, [&BTreeSet::from([2, 3])], 100), Some(10));
        assert_eq!(heard.quorum(LEADER, 4, [&BTreeSet::from([4, 5, 6])], 100), None);
        assert_eq!(heard.quorum(LEADER, 4, [], 100), None);
    }

    #[test]
    fn a_follower_is_heard_while_it_answers_what_was_sent_lately() {
        let heard = contacts(4, &[(2, 10), (3, 30), (5, 29)]);
        assert_eq!(heard.heard_lately(4, |sent| sent >= 29), BTreeSet::from([3, 5]));
        assert!(heard.heard_lately(4, |sent| sent > 30).is_empty());
        assert!(heard.heard_lately(5, |_| true).is_empty(), "what was answered in an earlier term");
    }

    #[test]
    fn a_follower_lacks_room_while_it_refuses_what_was_sent_lately() {
        let heard = contacts(4, &[(2, 10)]);
        heard.refused(4, 2, 20);
        heard.refused(4, 3, 30);
        heard.refused(3, 5, 40);
        assert_eq!(heard.without_room(4, |sent| sent >= 20), BTreeSet::from([2, 3]));
        assert_eq!(heard.without_room(4, |sent| sent > 20), BTreeSet::from([3]));
        heard.answered(5, 2, 50);
        assert!(heard.without_room(5, |_| true).is_empty() && heard.without_room(4, |_| true).is_empty());
    }

    #[test]
    fn what_was_answered_in_one_term_says_nothing_in_another() {
        let three = BTreeSet::from([1, 2, 3]);
        let heard = contacts(4, &[(2, 10)]);
        assert_eq!(heard.quorum(LEADER, 5, [&three], 100), None);
        heard.answered(5, 3, 20);
        assert_eq!(heard.quorum(LEADER, 5, [&three], 100), Some(20));
        // An answer that was in flight all the time.
        heard.answered(4, 2, 15);
        assert_eq!(heard.quorum(LEADER, 5, [&three], 100), Some(20));
        assert_eq!(heard.quorum(LEADER, 4, [&three], 100), None);
    }

    proptest! {
        /// A later leader needs a majority, which includes a voter that answered a request of the contact or later.
        #[test]
        fn every_majority_holds_one_that_was_asked_no_earlier(
            answers in proptest::collection::vec((1_u64..=5, 0_u64..50), 0..20),
            size in 1_u64..=5,
        ) {
            let voters: BTreeSet<NodeId> = (1..=size).collect();
            let heard = contacts(1, &answers);
            let latest = |node: NodeId| match node {
                LEADER => Some(100),
                _ => answers.iter().filter(|(of, _)| *of == node).map(|(_, sent)| *sent).max(),
            };
            let contact = heard.quorum(LEADER, 1, [&voters], 100);
            let loyal = voters.iter().filter(|node| latest(**node) >= contact && contact.is_some()).count();
            prop_assert_eq!(contact.is_some(), loyal > voters.len() / 2);
            let later = voters.iter().filter(|node| latest(**node) > contact).count();
            prop_assert!(later <= voters.len() / 2, "a later one was to be had");
        }
    }
}
