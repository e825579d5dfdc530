//! Detects a leader that has proposed entries and commits none: it is reported, and later steps down.

use std::collections::BTreeSet;
use std::time::Duration;

use model::id::NodeId;
use openraft::{RaftMetrics, ServerState};

use super::has_quorum;
use crate::types::GatewayTypes;

/// Interval of the progress checks. Timeouts are counted in checks and not in elapsed time, because a process that was
/// suspended could not make progress meanwhile.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A leader that makes no progress for this long is stalled.
const PATIENCE: Duration = Duration::from_secs(3);

/// A quorum may wait for a voter that is receiving a snapshot, which a new leader would only restart. A stalled leader
/// that sends one steps down only after `COPYING` without new bytes, or after `COPIED` in any case.
const COPYING: Duration = Duration::from_secs(60);
const COPIED: Duration = Duration::from_secs(600);

/// Time that the others have to take over from a leader that steps down.
const TAKE_OVER: Duration = Duration::from_secs(2);

/// A leader that steps down again within this time waits twice as long: if all disks are slow, elections do not help.
const REMEMBERED: Duration = Duration::from_secs(120);
const MOST_DOUBLINGS: u32 = 4;

/// Progress of a leader at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) term: u64,
    /// Last index of its log.
    pub(crate) last: u64,
    /// Last index that a majority of the voters is known to hold.
    pub(crate) held: u64,
    pub(crate) applied: u64,
    /// Bytes that voters have received of the snapshots being sent to them; `None` if no snapshot is being sent.
    pub(crate) copied: Option<u64>,
}

impl Standing {
    /// Returns `None` if `node` is not the leader. `copied_to` returns the bytes that a node has received of the
    /// snapshot being sent to it.
    pub(crate) fn of<C: GatewayTypes>(
        metrics: &RaftMetrics<C>,
        node: NodeId,
        copied_to: impl Fn(NodeId) -> Option<u64>,
    ) -> Option<Self> {
        if metrics.state != ServerState::Leader || metrics.current_leader != Some(node) {
            return None;
        }
        let last = metrics.last_log_index.unwrap_or(0);
        let index = |voter: &NodeId| if *voter == node { last } else { matched(metrics, *voter) };
        let held = metrics.membership_config.membership().get_joint_config().iter().map(|voters| {
            let mut indexes: Vec<u64> = voters.iter().map(index).collect();
            indexes.sort_unstable_by(|a, b| b.cmp(a));
            indexes.get(voters.len() / 2).copied().unwrap_or(0)
        });
        Some(Self {
            term: metrics.current_term,
            last,
            held: held.min().unwrap_or(0),
            applied: metrics.last_applied.as_ref().map_or(0, |id| id.index),
            copied: metrics.membership_config.voter_ids().filter_map(copied_to).reduce(|sum, bytes| sum + bytes),
        })
    }
}

fn matched<C: GatewayTypes>(metrics: &RaftMetrics<C>, node: NodeId) -> u64 {
    metrics.replication.as_ref().and_then(|all| all.get(&node)?.as_ref().map(|id| id.index)).unwrap_or(0)
}

/// The other voter that holds most of the leader's log.
pub(crate) fn successor<C: GatewayTypes>(metrics: &RaftMetrics<C>, node: NodeId) -> Option<NodeId> {
    let voters = metrics.membership_config.voter_ids();
    voters.filter(|voter| *voter != node).max_by_key(|voter| matched(metrics, *voter))
}

/// Whether a majority of each voter set has room for entries; without one, no leader could commit.
pub(crate) fn can_commit<C: GatewayTypes>(metrics: &RaftMetrics<C>, without_room: &BTreeSet<NodeId>) -> bool {
    let sets = metrics.membership_config.membership().get_joint_config();
    sets.iter().all(|voters| has_quorum(voters, &voters.difference(without_room).copied().collect()))
}

/// What to do about a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The leader makes progress, or has nothing to do.
    GetsOn,
    /// The leader is stalled.
    Stalled,
    /// The leader is stalled, and must not act as an owner from now on.
    Retire,
    /// The owner's lease has run out, so another node may be elected.
    StepDown,
    /// The leader has stepped down, and is still the leader.
    Stuck,
}

/// Tracks a leader's progress over successive checks.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    seen: Option<Standing>,
    /// Consecutive checks with pending entries and without progress.
    waited: u32,
    /// Checks since snapshot bytes last grew, or since the leader last made progress.
    uncopied: u32,
    /// Checks since the leader retired.
    retired: Option<u32>,
    /// Number of recent retirements, and the checks since the last one.
    retirements: u32,
    calm: u32,
}

impl Progress {
    /// Takes a leader's standing; `None` if not the leader. `reaches_quorum`: a majority answers and has room; without
    /// it, no other could be elected or do better. `right`: how long a retired leader may act as owner.
    pub(crate) fn look(&mut self, now: Option<Standing>, reaches_quorum: bool, right: Duration) -> Verdict {
        let moved = |was: Standing, is: Standing| (was.term, was.held, was.applied) != (is.term, is.held, is.applied);
        let stands_still = match (self.seen, now) {
            (Some(was), Some(is)) => was.applied < was.last && is.applied < is.last && !moved(was, is),
            _ => false,
        };
        // No snapshot is being sent between its end and the receiver's next answer, so the previous check counts too.
        let waits_for_copy = [self.seen, now].into_iter().flatten().any(|at| at.copied.is_some() && at.held < at.last);
        // Only more bytes count: a snapshot that restarts over and over and never completes is no progress.
        let bytes = |at: Option<Standing>| at.and_then(|at| at.copied).unwrap_or(0);
        self.uncopied = if bytes(now) > bytes(self.seen) { 0 } else { self.uncopied.saturating_add(1) };
        self.seen = now;
        self.calm = self.calm.saturating_add(1);
        if self.calm >= looks(REMEMBERED) {
            self.retirements = 0;
        }
        if !stands_still {
            (self.waited, self.uncopied, self.retired) = (0, 0, None);
            return Verdict::GetsOn;
        }
        self.waited = self.waited.saturating_add(1);
        if self.waited < looks(PATIENCE) {
            return Verdict::GetsOn;
        }
        let mut patience = looks(PATIENCE) << self.retirements;
        if waits_for_copy && self.uncopied < looks(COPYING) {
            patience = patience.max(looks(COPIED));
        }
        match &mut self.retired {
            None if reaches_quorum && self.waited >= patience => {
                (self.retired, self.calm) = (Some(0), 0);
                self.retirements = (self.retirements + 1).min(MOST_DOUBLINGS);
                Verdict::Retire
            }
            None => Verdict::Stalled,
            Some(since) => {
                *since += 1;
                let gone = looks(right);
                match *since {
                    since if since == gone => Verdict::StepDown,
                    since if since >= gone + looks(TAKE_OVER) => Verdict::Stuck,
                    _ => Verdict::Stalled,
                }
            }
        }
    }

    /// Whether the leader has retired, and has made no progress since.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.is_some()
    }
}

/// Number of checks that cover this time.
fn looks(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(LOOK_EVERY.as_millis())).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: Duration = Duration::from_millis(300);

    fn at(last: u64, held: u64, applied: u64) -> Option<Standing> {
        Some(Standing { term: 1, last, held, applied, copied: None })
    }

    fn verdicts(progress: &mut Progress, now: Option<Standing>, reaches_quorum: bool, looks: usize) -> Vec<Verdict> {
        (0..looks).map(|_| progress.look(now, reaches_quorum, RIGHT)).collect()
    }

    #[test]
    fn a_leader_that_commits_nothing_for_three_seconds_retires_steps_down_and_is_stuck_at_last() {
        let mut progress = Progress::default();
        // The first check has nothing to compare with.
        assert_eq!(verdicts(&mut progress, at(9, 8, 8), true, 6), [Verdict::GetsOn; 6]);
        assert_eq!(progress.look(at(9, 8, 8), true, RIGHT), Verdict::Retire);
        assert!(progress.is_retired());
        assert_eq!(progress.look(at(9, 8, 8), true, RIGHT), Verdict::StepDown);
        assert_eq!(verdicts(&mut progress, at(9, 8, 8), true, 3), [Verdict::Stalled; 3]);
        assert_eq!(progress.look(at(9, 8, 8), true, RIGHT), Verdict::Stuck);
        assert_eq!(progress.look(None, false, RIGHT), Verdict::GetsOn);
        assert!(!progress.is_retired());
    }

    #[test]
    fn whatever_moves_is_progress_but_for_new_proposals() {
        let mut progress = Progress::default();
        for step in 0..20 {
            assert_eq!(progress.look(at(100, 10 + step, 5), true, RIGHT), Verdict::GetsOn, "a follower catches up");
        }
        for step in 0..20 {
            assert_eq!(
                progress.look(at(100, 40, 5 + step), true, RIGHT),
                Verdict::GetsOn,
                "what is committed is applied"
            );
        }
        assert_eq!(verdicts(&mut progress, at(100, 100, 100), true, 20), [Verdict::GetsOn; 20], "nothing waits");
        let proposing = (0..7).map(|step| progress.look(at(101 + step, 100, 100), true, RIGHT)).last();
        assert_eq!(proposing, Some(Verdict::Retire));
    }

    #[test]
    fn one_that_copies_to_a_voter_is_named_and_stays_until_the_copy_had_its_time() {
        let copying = |held, copied| at(9, held, 8).map(|standing| Standing { copied: Some(copied), ..standing });
        let mut progress = Progress::default();
        assert_eq!(verdicts(&mut progress, copying(8, 1), true, 6), [Verdict::GetsOn; 6]);
        assert_eq!(verdicts(&mut progress, copying(8, 1), true, 114), [Verdict::Stalled; 114], "it is put in place");
        assert_eq!(progress.look(copying(8, 1), true, RIGHT), Verdict::Retire, "nothing comes of it");

        let mut progress = Progress::default();
        let slow: Vec<Verdict> = (0..1201).map(|bytes| progress.look(copying(8, bytes), true, RIGHT)).collect();
        assert!(slow[6..1200].iter().all(|verdict| *verdict == Verdict::Stalled));
        assert_eq!(slow[1200], Verdict::Retire, "not even one that goes on takes for ever");

        let mut progress = Progress::default();
        let anew =
            (0..121).map(|look| progress.look(if look % 2 == 0 { copying(8, 0) } else { at(9, 8, 8) }, true, RIGHT));
        assert_eq!(anew.last(), Some(Verdict::Retire), "it begins again and again, and nothing comes through");

        let mut progress = Progress::default();
        verdicts(&mut progress, copying(8, 1), true, 20);
        assert_eq!(progress.look(at(9, 8, 8), true, RIGHT), Verdict::Stalled, "it may answer yet");
        assert_eq!(progress.look(at(9, 8, 8), true, RIGHT), Verdict::Retire);

        let mut progress = Progress::default();
        verdicts(&mut progress, copying(9, 1), true, 6);
        assert_eq!(
            progress.look(copying(9, 1), true, RIGHT),
            Verdict::Retire,
            "a quorum holds it: the copy is not at fault"
        );
    }

    #[test]
    fn one_without_a_majority_is_named_and_goes_on() {
        let mut progress = Progress::default();
        assert_eq!(verdicts(&mut progress, at(9, 8, 8), false, 6), [Verdict::GetsOn; 6]);
        assert_eq!(verdicts(&mut progress, at(9, 8, 8), false, 50), [Verdict::Stalled; 50]);
        assert!(!progress.is_retired());
    }

    #[test]
    fn whoever_retires_again_soon_has_twice_the_patience() {
        let mut progress = Progress::default();
        let mut patience = Vec::new();
        for _ in 0..6 {
            progress.look(None, true, RIGHT);
            let looks = (1..).find(|_| progress.look(at(9, 8, 8), true, RIGHT) == Verdict::Retire);
            patience.push(looks.unwrap_or(0) - 1);
        }
        assert_eq!(patience, [6, 12, 24, 48, 96, 96]);
        verdicts(&mut progress, None, true, 240);
        let looks = (1..).find(|_| progress.look(at(9, 8, 8), true, RIGHT) == Verdict::Retire);
        assert_eq!(looks, Some(7));
    }
}
