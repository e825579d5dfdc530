//! Age of a node's copy of the directory, and when another node's copy is too old to be used.
//!
//! A node asks the directory's leader for its read index. Once it has applied up to that, its copy is as fresh as the
//! moment at which it *sent* the request. The leader remembers when it last *answered* each node. So an update that a
//! node has not confirmed is complete as soon as that node's copy is too old to be used.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::id::NodeId;
use model::standstill::is_since_resumption;
use parking_lot::Mutex;

/// Age beyond which a copy answers no authenticated request.
pub const MAX_AGE: Duration = Duration::from_secs(2);

/// Added to [`MAX_AGE`] for other nodes' copies: covers clock drift between two nodes, and the time an answer takes.
const MARGIN: Duration = Duration::from_millis(50);

/// Interval at which a node confirms its copy.
pub const CONFIRM_EVERY: Duration = Duration::from_millis(500);

/// Freshness of a node's own copy.
#[derive(Default)]
pub(crate) struct OwnCopy {
    confirmed_at: Mutex<Option<Instant>>,
}

impl OwnCopy {
    /// Records that a request sent at `asked_at` was answered, and that the answer's index is applied here.
    pub fn confirmed(&self, asked_at: Instant) {
        let mut known = self.confirmed_at.lock();
        if known.is_none_or(|at| at < asked_at) {
            *known = Some(asked_at);
        }
    }

    pub fn age(&self) -> Option<Duration> {
        // A confirmation from before the machine was suspended is older than the clock says.
        self.confirmed_at.lock().filter(|at| is_since_resumption(*at)).map(|at| at.elapsed())
    }

    pub fn is_fresh(&self) -> bool {
        self.age().is_some_and(|age| age <= MAX_AGE)
    }
}

/// What the leader knows of the other nodes' copies.
pub(crate) struct OtherCopies {
    /// The term in which this node became the leader, and when: until then, an earlier leader may have answered.
    leading: Mutex<(u64, Instant)>,
    answered: Mutex<HashMap<NodeId, Instant>>,
}

impl OtherCopies {
    pub fn new() -> Self {
        Self { leading: Mutex::new((0, Instant::now())), answered: Mutex::new(HashMap::new()) }
    }

    /// Called with the current term whenever this node acts as the leader.
    pub fn leading_in(&self, term: u64) {
        let mut leading = self.leading.lock();
        if leading.0 != term {
            *leading = (term, Instant::now());
            self.answered.lock().clear();
        }
    }

    /// Records that a node's request is being answered.
    pub fn answered(&self, node: NodeId) {
        self.answered.lock().insert(node, Instant::now());
    }

    /// When a node's copy is too old to be used if it does not hear of an update.
    pub fn refuses_from(&self, node: NodeId) -> Instant {
        let began = self.leading.lock().1;
        let last = self.answered.lock().get(&node).copied().unwrap_or(began).max(began);
        last + MAX_AGE + MARGIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_as_old_as_the_latest_question_and_unconfirmed_at_first() {
        let copy = OwnCopy::default();
        assert!(!copy.is_fresh());
        let now = Instant::now();
        copy.confirmed(now);
        copy.confirmed(now.checked_sub(Duration::from_secs(60)).unwrap_or(now));
        assert!(copy.is_fresh());
    }

    #[test]
    fn a_new_leader_reckons_with_answers_that_an_earlier_one_gave_until_it_began() {
        let others = OtherCopies::new();
        others.leading_in(7);
        let unknown = others.refuses_from(2);
        assert!(unknown > Instant::now() + Duration::from_secs(1));
        others.answered(2);
        assert!(others.refuses_from(2) >= unknown);
    }
}
