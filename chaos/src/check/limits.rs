//! I7: a bucket admits at most rate × time + burst over the whole cluster, and one burst more for each fail-over of the
//! bucket's home.

use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::record::Limited;
use crate::history::{At, Call, Collected, FaultKind, Lead, Op, Record};

/// A burst too many shows in any time that holds it, so longer ones are looked at only whole.
const LONGEST: Duration = Duration::from_secs(60);

pub fn judge(run: &Collected, finding: &mut Finding) {
    for limited in &run.evidence.stage.limited {
        let draws = || run.calls().filter(|call| call.op == Op::Draw && call.tenant == limited.tenant);
        let mut admitted: Vec<&Call> = draws().filter(|call| call.is_done()).collect();
        admitted.sort_by_key(|call| call.begin);
        let refused = draws().filter(|call| call.refusal() == Some("rate_limited")).count();
        let home = Home::of(run, limited.home);
        let times = (0..admitted.len()).filter_map(|first| {
            let longest = if first == 0 { Duration::MAX } else { LONGEST };
            over(run, limited, &home, &admitted[first..], longest)
        });
        // All times that hold one burst too many tell the same story.
        if let Some(over) = times.max_by(|one, other| one.too_many.total_cmp(&other.too_many)) {
            finding.violated(
                format!("{} admitted {} calls where {:.1} were allowed", limited.tenant, over.admitted, over.allowed),
                [format!("{} to {}, {} fail-overs of group {}", over.from, over.to, over.moves, limited.home)],
            );
        }
        finding.count(format!("{} calls admitted and {} refused", figure(admitted.len()), figure(refused)));
        if refused == 0 {
            finding.note(format!("the bucket of {} was never empty", limited.tenant));
        }
    }
}

struct Over {
    from: At,
    to: At,
    admitted: usize,
    allowed: f64,
    moves: u64,
    too_many: f64,
}

/// The worst of the times that begin with the first of these calls.
fn over(run: &Collected, limited: &Limited, home: &Home, calls: &[&Call], longest: Duration) -> Option<Over> {
    let from = calls.first()?.begin;
    let near = calls.iter().take_while(|call| call.begin.since(from) <= longest);
    let mut ends: Vec<At> = near.map(|call| call.end).collect();
    ends.sort_unstable();
    let times = ends.into_iter().enumerate().filter_map(|(index, to)| {
        let (admitted, refill) = (index + 1, limited.per_second * to.since(from).as_secs_f64());
        // What one burst allows needs no look at the home.
        let moves = if admitted as f64 > limited.burst + refill { home.moves(run, from, to) } else { 0 };
        let allowed = limited.burst * (1 + moves) as f64 + refill;
        let too_many = admitted as f64 - allowed;
        (too_many > 0.0).then_some(Over { from, to, admitted, allowed, moves, too_many })
    });
    times.max_by(|one, other| one.too_many.total_cmp(&other.too_many))
}

/// Who led the group that counts, as the harness saw it.
struct Home<'a>(Vec<&'a Lead>);

impl<'a> Home<'a> {
    fn of(run: &'a Collected, group: u16) -> Self {
        let leads = run.records.iter().filter_map(|record| match record {
            Record::Lead(lead) if lead.group == group => Some(lead),
            _ => None,
        });
        Self(leads.collect())
    }

    /// At most so often the home has moved in a time: a bucket may start full once in each term that it did not begin in.
    fn moves(&self, run: &Collected, from: At, to: At) -> u64 {
        let before = self.0.iter().rev().find(|lead| lead.at <= from);
        let after = self.0.iter().find(|lead| lead.asked >= to);
        match (before, after) {
            (Some(before), Some(after)) => after.term.saturating_sub(before.term),
            // Where nobody looked, each fault may have moved it.
            _ => {
                let moving = |kind| {
                    use FaultKind::{KeepRepeats, LoseAcceptances, LoseSends, Refuse, Slow};
                    !matches!(kind, KeepRepeats | LoseAcceptances | LoseSends | Refuse | Slow)
                };
                let faults = run.faults().filter(|fault| moving(fault.kind));
                // One when it begins, one when it ends and the lead comes back.
                2 * faults.filter(|fault| fault.touches(from, to, Duration::from_secs(10))).count() as u64
            }
        }
    }
}
