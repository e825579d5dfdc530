//! I7: a bucket admits at most rate × time + burst in the whole cluster, and one more burst for each failover of its
//! coordinator.

use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::record::Limited;
use crate::history::{At, Call, Collected, FaultKind, LeaderSeen, Op, Record};

/// Longest interval checked besides the whole run: a burst too many shows in every interval that contains it.
const LONGEST: Duration = Duration::from_secs(60);

/// How long it takes a former coordinator to learn that it is none any more.
const HEARS_WITHIN: Duration = Duration::from_millis(300);

pub fn judge(run: &Collected, finding: &mut Finding) {
    for limited in &run.evidence.stage.limited {
        let draws = || run.calls().filter(|call| call.op == Op::Draw && call.tenant == limited.tenant);
        let mut admitted: Vec<&Call> = draws().filter(|call| call.is_done()).collect();
        admitted.sort_by_key(|call| call.begin);
        let refused: Vec<&Call> = draws().filter(|call| call.refusal() == Some("rate_limited")).collect();
        let home = Home::of(run, limited.home);
        let whole =
            admitted.first().map(|call| Beginning { at: call.begin, tokens: limited.burst, longest: Duration::MAX });
        let full = admitted.iter().map(|call| Beginning { at: call.begin, tokens: limited.burst, longest: LONGEST });
        // A bucket that refused held less than a token at some moment of that call.
        let empty = refused.iter().map(|call| (call.end, Beginning { at: call.begin, tokens: 1.0, longest: LONGEST }));
        let beginnings = whole.into_iter().chain(full).map(|beginning| (beginning.at, beginning)).chain(empty);
        let times = beginnings.filter_map(|(first, beginning)| {
            let calls = &admitted[admitted.partition_point(|call| call.begin < first)..];
            over(run, limited, &home, &beginning, calls)
        });
        // All intervals that contain the same excess burst report it; the worst is enough.
        if let Some(over) = times.max_by(|one, other| one.too_many.total_cmp(&other.too_many)) {
            finding.violated(
                format!("{} admitted {} calls where {:.1} were allowed", limited.tenant, over.admitted, over.allowed),
                [format!("{} to {}, {} fail-overs of group {}", over.from, over.to, over.moves, limited.home)],
            );
        }
        // Only refusals show that the bucket was empty: otherwise it admits everything.
        finding.judged(refused.len());
        finding.count(format!("{} calls admitted and {} refused", figure(admitted.len()), figure(refused.len())));
    }
}

/// A moment at which a bucket held at most `tokens` tokens.
struct Beginning {
    at: At,
    tokens: f64,
    /// Longest interval that is checked from this moment on.
    longest: Duration,
}

struct Over {
    from: At,
    to: At,
    admitted: usize,
    allowed: f64,
    moves: u64,
    too_many: f64,
}

/// The worst excess of the intervals that begin here. All calls began after the beginning.
fn over(run: &Collected, limited: &Limited, home: &Home, beginning: &Beginning, calls: &[&Call]) -> Option<Over> {
    let from = beginning.at;
    let near = calls.iter().take_while(|call| call.begin.since(from) <= beginning.longest);
    let mut ends: Vec<At> = near.map(|call| call.end).collect();
    ends.sort_unstable();
    let times = ends.into_iter().enumerate().filter_map(|(index, to)| {
        let admitted = index + 1;
        let held = beginning.tokens + limited.per_second * to.since(from).as_secs_f64();
        // The failovers matter only if the calls exceed what the bucket held.
        let moves = if admitted as f64 > held { home.moves(run, from, to) } else { 0 };
        let allowed = held + limited.burst * moves as f64;
        let too_many = admitted as f64 - allowed;
        (too_many > 0.0).then_some(Over { from, to, admitted, allowed, moves, too_many })
    });
    times.max_by(|one, other| one.too_many.total_cmp(&other.too_many))
}

/// The leaders of the coordinator's group that the harness has seen.
struct Home<'a>(Vec<&'a LeaderSeen>);

impl<'a> Home<'a> {
    fn of(run: &'a Collected, group: u16) -> Self {
        // Without a leader, a reported term is that of an election or, while nodes start, none at all.
        let looks = run.records.iter().filter_map(|record| match record {
            Record::Leader(seen) if seen.group == group && seen.leader.is_some() => Some(seen),
            _ => None,
        });
        Self(looks.collect())
    }

    /// Upper bound of the failovers in an interval. In each term after the first a bucket may start full once.
    fn moves(&self, run: &Collected, from: At, to: At) -> u64 {
        // A node that is cut off reports an old term, but not all of several looks go to such a node.
        const LOOKS: usize = 5;
        // A former coordinator goes on answering until it learns of the new term.
        let told = self.0.iter().take_while(|seen| seen.at <= from && from.since(seen.at) >= HEARS_WITHIN);
        let before = told.map(|seen| seen.term).max();
        // A look at an older term than the one before the interval says nothing about its end.
        let news = self.0.iter().filter(|seen| seen.asked >= to && Some(seen.term) >= before);
        let after = news.take(LOOKS).map(|seen| seen.term).max();
        match (before, after) {
            (Some(before), Some(after)) => after - before,
            // Without looks, each fault may have moved the leadership. Even without faults, leaderships move to their
            // placement once all nodes are up, at the beginning of a run and after a cluster has healed.
            _ => {
                let first = before.or(self.0.first().map(|seen| seen.term));
                let last = after.or(self.0.iter().map(|seen| seen.term).max());
                let seen = last.zip(first).map_or(0, |(last, first)| last.saturating_sub(first));
                let moving = |kind| {
                    use FaultKind::{KeepRepeats, LoseAcceptances, LoseSends, Noise, Refuse, Slow, Use};
                    !matches!(kind, KeepRepeats | LoseAcceptances | LoseSends | Noise | Refuse | Slow | Use)
                };
                let faults = run.faults().filter(|fault| moving(fault.kind));
                // Two moves per fault: one when it begins, and one when it ends and the leadership comes back.
                let caused = 2 * faults.filter(|fault| fault.touches(from, to, Duration::from_secs(10))).count() as u64;
                caused.max(seen)
            }
        }
    }
}
