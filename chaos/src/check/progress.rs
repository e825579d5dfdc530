//! I13: a group whose leader can reach a quorum commits within 3 s, and every call is answered in its promised time.
//!
//! A leader whose quorum waits for a snapshot to a voter must report within these 3 s that it commits nothing. It may
//! then stand still for as long as it sends, since its successor would begin the snapshot again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::record::UNANSWERED;
use crate::history::{At, Call, Collected, Fault, FaultKind, Outcome, Progress, Record};

/// Time within which a leader commits what it has proposed, or steps down.
const COMMITS: Duration = Duration::from_secs(3);

/// Addition to [`COMMITS`]: a leader checks itself at intervals, and its end shows only in the harness's next look.
const NOTICED: Duration = Duration::from_secs(1);

/// A leader may stand still for this long after a snapshot to a voter last made progress, and for this long in total.
const COPYING: Duration = Duration::from_secs(60);
const COPIED: Duration = Duration::from_secs(600);

/// A node that was hurt follows and answers as before after this time.
const RECOVERED: Duration = Duration::from_secs(5);

/// Nodes that may be hurt before groups of three replicas have no quorum.
const SPARE: usize = 1;

pub fn judge(run: &Collected, finding: &mut Finding) {
    groups(run, finding);
    calls(run, finding);
}

/// A period in which a leader had entries to apply, and applied none.
struct Stall<'a> {
    first: &'a Progress,
    last: &'a Progress,
    /// How long the leader may stand still, given the progress of its snapshots.
    until: At,
    /// Whether it stood still for longer, or did not report it.
    is_unexplained: bool,
}

impl<'a> Stall<'a> {
    fn new(look: &'a Progress) -> Self {
        let begun = Self { first: look, last: look, until: look.at.plus(COMMITS + NOTICED), is_unexplained: false };
        Self { until: begun.may_stand(None, look), ..begun }
    }

    /// Adds the next look at the same leader.
    fn go_on(&mut self, look: &'a Progress) {
        let is_due = look.asked.since(self.first.at) > COMMITS + NOTICED;
        self.is_unexplained |= look.asked > self.until || (is_due && !look.named);
        self.until = self.may_stand(self.last.sent, look);
        self.last = look;
    }

    /// How long the leader may stand still according to a look; `before` is what the previous look showed as sent.
    fn may_stand(&self, before: Option<u64>, look: &Progress) -> At {
        match (before, look.sent) {
            (before, sent) if before == sent => self.until,
            // The snapshot has arrived or was given up: its voter answers now, or another node becomes the leader.
            (_, None) => self.until.min(look.at.plus(COMMITS + NOTICED)),
            _ => look.at.plus(COPYING).min(self.first.at.plus(COPIED)).plus(NOTICED),
        }
    }

    /// The shortest duration that is consistent with the looks.
    fn lasted(&self) -> Duration {
        self.last.asked.since(self.first.at)
    }
}

/// Checks that no leader has entries to apply for longer than that without committing. Entries of one look were applied
/// in between if a later look shows progress.
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

/// Whether a fault affects nodes or the network between them. Of the operator's changes only restarts affect a quorum.
fn hurts(fault: &Fault) -> bool {
    use FaultKind::{Clock, Crash, Damage, Disk, Failpoint, Membership, NetworkCut, Pause, PeerCut};
    match fault.kind {
        Clock | Crash | Damage | Disk | Failpoint | NetworkCut | Pause | PeerCut => true,
        Membership => fault.nodes.is_empty(),
        _ => false,
    }
}

/// Checks that every call is answered, except by a node that cannot answer.
fn calls(run: &Collected, finding: &mut Finding) {
    let (mut answered, mut late, mut excused) = (0, 0, 0);
    // Node 0 is the messaging network.
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

/// Whether the node itself was hurt. A node that merely cannot reach its peers must answer that.
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
