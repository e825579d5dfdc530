//! I13: a group whose leader can reach a quorum commits within 3 s, and every call has its answer in its promised time.
//!
//! A leader whose quorum waits for a snapshot to a voter has to say within these 3 s that it commits nothing, and may then stand for as
//! long as it sends: its successor would begin the snapshot anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::record::UNANSWERED;
use crate::history::{At, Call, Collected, Fault, FaultKind, Outcome, Progress, Record};

/// Within this a leader commits what it has proposed, or steps down.
const COMMITS: Duration = Duration::from_secs(3);

/// To notice that it does not takes a look at itself, and the end of its leadership shows in the next look of the harness.
const NOTICED: Duration = Duration::from_secs(1);

/// A leader may stand for so long after a snapshot to a voter got on, and for so long in all.
const COPYING: Duration = Duration::from_secs(60);
const COPIED: Duration = Duration::from_secs(600);

/// A node that was hurt follows and answers as before so long after.
const RECOVERED: Duration = Duration::from_secs(5);

/// Nodes that may be hurt before groups of three replicas have no quorum.
const SPARE: usize = 1;

pub fn judge(run: &Collected, finding: &mut Finding) {
    groups(run, finding);
    calls(run, finding);
}

/// A time in which a leader had entries to apply, and applied none.
struct Stall<'a> {
    first: &'a Progress,
    last: &'a Progress,
    /// Until then the leader may stand, by what it has sent of snapshots.
    until: At,
    /// It stood beyond that, or did not say that it stands.
    is_unexplained: bool,
}

impl<'a> Stall<'a> {
    fn new(look: &'a Progress) -> Self {
        let begun = Self { first: look, last: look, until: look.at.plus(COMMITS + NOTICED), is_unexplained: false };
        Self { until: begun.may_stand(None, look), ..begun }
    }

    /// Takes the next look at the same leader.
    fn go_on(&mut self, look: &'a Progress) {
        let is_due = look.asked.since(self.first.at) > COMMITS + NOTICED;
        self.is_unexplained |= look.asked > self.until || (is_due && !look.named);
        self.until = self.may_stand(self.last.sent, look);
        self.last = look;
    }

    /// Until when it may stand by a look, where `before` was sent at the look before that.
    fn may_stand(&self, before: Option<u64>, look: &Progress) -> At {
        match (before, look.sent) {
            (before, sent) if before == sent => self.until,
            // The snapshot has arrived, or was given up: now its voter answers, or another node leads.
            (_, None) => self.until.min(look.at.plus(COMMITS + NOTICED)),
            _ => look.at.plus(COPYING).min(self.first.at.plus(COPIED)).plus(NOTICED),
        }
    }

    /// The shortest time that it can have been.
    fn lasted(&self) -> Duration {
        self.last.asked.since(self.first.at)
    }
}

/// No leader has entries for longer than that and commits none. What one had at a look was applied in between where a later
/// look says more.
fn groups(run: &Collected, finding: &mut Finding) {
    let mut last: BTreeMap<u16, Stall<'_>> = BTreeMap::new();
    let mut stalls: Vec<Stall<'_>> = Vec::new();
    let mut looks = 0;
    for record in &run.records {
        let Record::Progress(look) = record else { continue };
        looks += 1;
        match last.get_mut(&look.group) {
            Some(stall) if stands(stall.first, look) => stall.go_on(look),
            known => {
                let begun = Stall::new(look);
                stalls.extend(match known {
                    Some(stall) => Some(std::mem::replace(stall, begun)),
                    None => last.insert(look.group, begun),
                });
            }
        }
    }
    stalls.extend(last.into_values());
    let (mut long, mut excused, mut copying) = (0, 0, 0);
    for stall in stalls.iter().filter(|stall| stall.lasted() > COMMITS + NOTICED) {
        long += 1;
        if lacks_quorum(run, stall) {
            excused += 1;
            continue;
        }
        if !stall.is_unexplained {
            copying += 1;
            continue;
        }
        let Progress { group, leader, term, applied, lag, named, sent, .. } = stall.last;
        finding.violated(
            format!("group {group} was led and committed nothing for {:.1} s", stall.lasted().as_secs_f64()),
            [format!(
                "node {leader}, term {term}: at entry {applied} from {} to {}, with {lag} more to apply; {}; bytes of \
                 snapshots to voters: {sent:?}",
                stall.first.at,
                stall.last.asked,
                if *named { "it said so" } else { "it did not say so" }
            )],
        );
    }
    finding.judged(looks);
    finding.count(format!("{} looks at leaders with something to commit", figure(looks)));
    if long > 0 {
        finding.count(format!("{long} stood still for longer than {COMMITS:?}, {excused} of them without a quorum"));
    }
    if copying > 0 {
        finding.note(format!("{copying} of these waited for a snapshot to a voter, and said so"));
    }
}

fn stands(first: &Progress, look: &Progress) -> bool {
    (first.leader, first.term, first.applied) == (look.leader, look.term, look.applied)
}

/// Whether faults may have kept a leader from a majority of its group.
fn lacks_quorum(run: &Collected, stall: &Stall<'_>) -> bool {
    let (from, to) = (stall.first.at, stall.last.asked);
    let faults: Vec<&Fault> = run.faults().filter(|fault| hurts(fault) && fault.touches(from, to, RECOVERED)).collect();
    let struck: BTreeSet<u64> = faults.iter().flat_map(|fault| fault.nodes.iter().copied()).collect();
    faults.iter().any(|fault| fault.nodes.is_empty()) || struck.contains(&stall.first.leader) || struck.len() > SPARE
}

/// Whether a fault strikes nodes, or the wires between them. An operator's changes hurt no quorum, but for restarts.
fn hurts(fault: &Fault) -> bool {
    use FaultKind::{Clock, Crash, Damage, Disk, Failpoint, Membership, NetworkCut, Pause, PeerCut};
    match fault.kind {
        Clock | Crash | Damage | Disk | Failpoint | NetworkCut | Pause | PeerCut => true,
        Membership => fault.nodes.is_empty(),
        _ => false,
    }
}

/// No call is left without an answer, but by a node that cannot give one.
fn calls(run: &Collected, finding: &mut Finding) {
    let (mut answered, mut late, mut excused) = (0, 0, 0);
    // 0 is the network.
    for call in run.calls().filter(|call| call.node != 0) {
        if !is_late(call) {
            answered += 1;
            continue;
        }
        late += 1;
        if cannot_answer(run, call) {
            excused += 1;
            continue;
        }
        let waited = call.end.since(call.begin).as_secs_f64();
        finding.violated(
            format!("a call had no answer after {waited:.1} s"),
            [format!("{:?} of {} through node {} at {}", call.op, call.tenant, call.node, call.begin)],
        );
    }
    finding.judged(answered + late - excused);
    finding.count(format!("{} calls answered, {late} not in time", figure(answered)));
    if excused > 0 {
        finding.note(format!("{excused} of these through nodes that stood still or were not there"));
    }
}

fn is_late(call: &Call) -> bool {
    matches!(&call.outcome, Outcome::Unknown { why } if why == UNANSWERED)
}

/// Whether the node that was asked was itself hurt: one that merely does not reach its peers has to say so.
fn cannot_answer(run: &Collected, call: &Call) -> bool {
    let silences = |fault: &&Fault| hurts(fault) && fault.kind != FaultKind::PeerCut;
    run.faults().filter(silences).any(|fault| {
        let strikes = fault.nodes.is_empty() || fault.nodes.contains(&call.node);
        strikes && fault.touches(call.begin, call.end, RECOVERED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_as_long_as_it_can_have_been_at_least() {
        let look = |asked: u64, at: u64| Progress {
            asked: At::seconds(asked),
            at: At::seconds(at),
            group: 1,
            leader: 1,
            term: 1,
            applied: 5,
            lag: 1,
            named: false,
            sent: None,
        };
        let (first, last) = (look(10, 12), look(15, 16));
        let mut stall = Stall::new(&first);
        stall.go_on(&last);
        assert_eq!((stall.lasted(), stall.is_unexplained), (Duration::from_secs(3), false));
    }
}
