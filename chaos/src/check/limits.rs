//! I7: a bucket admits at most rate × time + burst over the whole cluster, and one burst more for each fail-over of the
//! bucket's home.

use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::record::Limited;
use crate::history::{At, Call, Collected, FaultKind, LeaderSeen, Op, Record};

/// A burst too many shows in any time that holds it, so longer ones are looked at only whole.
const LONGEST: Duration = Duration::from_secs(60);

/// How late the former home of a bucket hears that it is none any more.
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
        // All times that hold one burst too many tell the same story.
        if let Some(over) = times.max_by(|one, other| one.too_many.total_cmp(&other.too_many)) {
            finding.violated(
                format!("{} admitted {} calls where {:.1} were allowed", limited.tenant, over.admitted, over.allowed),
                [format!("{} to {}, {} fail-overs of group {}", over.from, over.to, over.moves, limited.home)],
            );
        }
        // A bucket that is never empty admits whatever comes.
        finding.judged(refused.len());
        finding.count(format!("{} calls admitted and {} refused", figure(admitted.len()), figure(refused.len())));
    }
}

/// A moment at which a bucket held at most so many tokens.
struct Beginning {
    at: At,
    tokens: f64,
    /// How long the times are that are looked at from here on.
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

/// The worst of the times from a beginning on; the calls all began after it.
fn over(run: &Collected, limited: &Limited, home: &Home, beginning: &Beginning, calls: &[&Call]) -> Option<Over> {
    let from = beginning.at;
    let near = calls.iter().take_while(|call| call.begin.since(from) <= beginning.longest);
    let mut ends: Vec<At> = near.map(|call| call.end).collect();
    ends.sort_unstable();
    let times = ends.into_iter().enumerate().filter_map(|(index, to)| {
        let admitted = index + 1;
        let held = beginning.tokens + limited.per_second * to.since(from).as_secs_f64();
        // What needs no fail-over needs no look at the home.
        let moves = if admitted as f64 > held { home.moves(run, from, to) } else { 0 };
        let allowed = held + limited.burst * moves as f64;
        let too_many = admitted as f64 - allowed;
        (too_many > 0.0).then_some(Over { from, to, admitted, allowed, moves, too_many })
    });
    times.max_by(|one, other| one.too_many.total_cmp(&other.too_many))
}

/// Who led the group that counts, as the harness saw it.
struct Home<'a>(Vec<&'a LeaderSeen>);

impl<'a> Home<'a> {
    fn of(run: &'a Collected, group: u16) -> Self {
        // Where nobody leads, a term is that of an election or, while nodes start, none at all.
        let looks = run.records.iter().filter_map(|record| match record {
            Record::Leader(seen) if seen.group == group && seen.leader.is_some() => Some(seen),
            _ => None,
        });
        Self(looks.collect())
    }

    /// At most so often the home has moved in a time: a bucket may start full once in each term that it did not begin in.
    fn moves(&self, run: &Collected, from: At, to: At) -> u64 {
        // A node that is cut off tells of an old term; of several that were asked one is not.
        const LOOKS: usize = 5;
        // A former home answers what it has until it hears of the new term.
        let told = self.0.iter().take_while(|seen| seen.at <= from && from.since(seen.at) >= HEARS_WITHIN);
        let before = told.map(|seen| seen.term).max();
        // What was over before tells nothing of the end.
        let news = self.0.iter().filter(|seen| seen.asked >= to && Some(seen.term) >= before);
        let after = news.take(LOOKS).map(|seen| seen.term).max();
        match (before, after) {
            (Some(before), Some(after)) => after - before,
            // Where nobody looked, each fault may have moved it; and without any, leaderships go where they should be
            // once all nodes are there, at the beginning of a run and when a cluster has healed.
            _ => {
                let first = before.or(self.0.first().map(|seen| seen.term));
                let last = after.or(self.0.iter().map(|seen| seen.term).max());
                let seen = last.zip(first).map_or(0, |(last, first)| last.saturating_sub(first));
                let moving = |kind| {
                    use FaultKind::{KeepRepeats, LoseAcceptances, LoseSends, Noise, Refuse, Slow, Use};
                    !matches!(kind, KeepRepeats | LoseAcceptances | LoseSends | Noise | Refuse | Slow | Use)
                };
                let faults = run.faults().filter(|fault| moving(fault.kind));
                // One when it begins, one when it ends and the leadership comes back.
                let caused = 2 * faults.filter(|fault| fault.touches(from, to, Duration::from_secs(10))).count() as u64;
                caused.max(seen)
            }
        }
    }
}
