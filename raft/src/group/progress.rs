//! Whether a leader gets on: one that has proposed and commits nothing names itself, and then makes room for another.

use std::collections::BTreeSet;
use std::time::Duration;

use model::id::NodeId;
use openraft::{RaftMetrics, ServerState};

use super::has_quorum;
use crate::types::GatewayTypes;

/// How often a leader's progress is looked at. Looks are counted and not the time: a process that stood still meanwhile had no
/// chance to get on.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Without any progress for so long a leader is stalled.
const PATIENCE: Duration = Duration::from_secs(3);

/// A voter that a snapshot is on its way to may be what a quorum waits for: the next leader would only begin it anew. Such a
/// leader is named when it stalls, and steps down when nothing of a snapshot was taken for so long, and after so long in any case.
const COPYING: Duration = Duration::from_secs(60);
const COPIED: Duration = Duration::from_secs(600);

/// How long others have to take over from a leader that steps down.
const TAKE_OVER: Duration = Duration::from_secs(2);

/// A leader that steps down again within this waits twice as long: when all disks are slow, elections make nothing faster.
const REMEMBERED: Duration = Duration::from_secs(120);
const MOST_DOUBLINGS: u32 = 4;

/// Where a leader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) term: u64,
    /// The last index of its log.
    pub(crate) last: u64,
    /// The last index that a majority of the voters is known to hold.
    pub(crate) held: u64,
    pub(crate) applied: u64,
    /// How many bytes voters have taken of the snapshots that are on their way to them; none when there are no such snapshots.
    pub(crate) copied: Option<u64>,
}

impl Standing {
    /// `None` when the node does not lead. `copied_to` tells what a node has taken of the snapshot that is
    /// on its way there.
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

/// Whether any leader could commit: of each set of voters, a majority has room for entries.
pub(crate) fn can_commit<C: GatewayTypes>(metrics: &RaftMetrics<C>, without_room: &BTreeSet<NodeId>) -> bool {
    let sets = metrics.membership_config.membership().get_joint_config();
    sets.iter().all(|voters| has_quorum(voters, &voters.difference(without_room).copied().collect()))
}

/// What is to be done about a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The leader gets on, or has nothing to do.
    GetsOn,
    /// The leader is stalled.
    Stalled,
    /// The leader is stalled, and is to act as the owner of nothing from now on.
    Retire,
    /// Nobody relies on the leader any more: another may be elected.
    StepDown,
    /// The leader stepped down, and leads all the same.
    Stuck,
}

/// What was seen of a leader so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    seen: Option<Standing>,
    /// Looks in a row at which something waited and nothing had moved.
    waited: u32,
    /// Looks since more was taken of a snapshot, or since nothing has moved.
    uncopied: u32,
    /// Looks since it retired.
    retired: Option<u32>,
    /// How often it retired lately, and the looks since then.
    retirements: u32,
    calm: u32,
}

impl Progress {
    /// Takes how a node stands now; `None` when it does not lead. `reaches_quorum` tells whether a majority answers it, and has room:
    /// nobody else could be elected otherwise, or could do any better. A leader may have acted as an owner for `right` after it retired.
    pub(crate) fn look(&mut self, now: Option<Standing>, reaches_quorum: bool, right: Duration) -> Verdict {
        let moved = |was: Standing, is: Standing| (was.term, was.held, was.applied) != (is.term, is.held, is.applied);
        let stands_still = match (self.seen, now) {
            (Some(was), Some(is)) => was.applied < was.last && is.applied < is.last && !moved(was, is),
            _ => false,
        };
        // Between the end of a snapshot and the first answer of the one that took it, nothing is on its way.
        let waits_for_copy = [self.seen, now].into_iter().flatten().any(|at| at.copied.is_some() && at.held < at.last);
        // One that begins again and again, and of which nothing comes through, is no progress.
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

    /// Whether the leader has retired, and has not got on since.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.is_some()
    }
}

/// How many looks take at least so long.
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
        // The first look has nothing to compare with.
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
