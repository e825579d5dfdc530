//! I14: a tenant within its limits costs the others at most a fifth of their speed, and never a node; requests within a
//! size limit are accepted, and requests beyond it refused.

use std::collections::HashMap;
use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::{At, Call, Collected, Ended, Fault, FaultKind, Op, Outcome, Record, Size};

/// The part of a quiet tenant's speed that must remain.
const LEFT: f64 = 0.8;

/// Longest interval before and after a noise in which the quiet tenant is measured without it.
const CALM: Duration = Duration::from_secs(5);

/// Effects of a noise may last for this long after its end.
const FADES: Duration = Duration::from_secs(3);

/// Nothing is measured for this long after another fault.
const RECOVERED: Duration = Duration::from_secs(5);

/// The fewest samples without noise from which a speed is computed.
const TRIED: usize = 20;

/// The quiet tenant's requests other than sends must be answered within the time for which a call waits for an owner,
/// and the event of an answered send must reach its receiver within the same time.
const PROMISED: Duration = Duration::from_secs(5);

/// The event of a send that the network has accepted.
const SENT: &str = "message.sent";

/// The fewest noises whose median is judged: on a busy machine that of fewer is a matter of luck.
const NOISES: usize = 3;

/// A process may end this long after the fault that ends it.
const ENDS: Duration = Duration::from_secs(10);

pub fn judge(run: &Collected, finding: &mut Finding) {
    speed(run, finding);
    sizes(run, finding);
    nodes(run, finding);
}

/// One wait of the quiet tenant.
struct Wait {
    begin: At,
    waited: Duration,
    is_done: bool,
}

/// The waits of one kind.
struct Kind {
    what: &'static str,
    /// Shorter waits count as this long.
    promised: Duration,
    waits: Vec<Wait>,
}

impl Kind {
    /// The number of waits that began in the given intervals, and how many of them succeeded per second of waiting.
    fn speed_in(&self, times: &[(At, At)]) -> (usize, f64) {
        let within = |wait: &&Wait| times.iter().any(|(from, to)| *from <= wait.begin && wait.begin < *to);
        let (mut done, mut all, mut waited) = (0_usize, 0, Duration::ZERO);
        for wait in self.waits.iter().filter(within) {
            all += 1;
            done += usize::from(wait.is_done);
            waited += wait.waited.max(self.promised);
        }
        // Without waiting time there is no speed.
        (all, if waited > Duration::ZERO { done as f64 / waited.as_secs_f64() } else { 0.0 })
    }
}

/// Sends are measured by their speed. Other kinds have a promised time, so that small delays of busy processors are
/// ignored.
fn kinds(run: &Collected, quiet: &str) -> [Kind; 4] {
    let calls = |is_it: fn(&Op) -> bool| run.calls().filter(move |call| call.tenant == quiet && is_it(&call.op));
    let sends = || calls(|op| matches!(op, Op::Send { .. }));
    let wait = |call: &Call| Wait { begin: call.begin, waited: call.end.since(call.begin), is_done: call.is_done() };
    let mut heard: HashMap<&str, At> = HashMap::new();
    for request in run.webhooks().filter(|request| request.event == SENT) {
        if let Some(message) = request.message.as_deref() {
            heard.entry(message).or_insert(request.at);
        }
    }
    let told = sends().filter_map(|call| {
        let at = heard.get(call.taken()?);
        let waited = at.map_or(Duration::ZERO, |at| at.since(call.end));
        Some(Wait { begin: call.end, waited, is_done: at.is_some() })
    });
    let kind = |what, waits| Kind { what, promised: PROMISED, waits };
    [
        Kind { what: "sends", promised: Duration::ZERO, waits: sends().map(wait).collect() },
        kind("uploads", calls(|op| *op == Op::Upload).map(wait).collect()),
        kind("calls over new connections", calls(|op| *op == Op::AskAnew).map(wait).collect()),
        kind("deliveries", told.collect()),
    ]
}

/// The quiet intervals right before a noise and after its effects.
fn calm(noise: &Fault) -> [(At, At); 2] {
    let (lasts, faded) = (CALM.min(noise.to.since(noise.from)), noise.to.plus(FADES));
    [(noise.from.minus(lasts), noise.from), (faded, faded.plus(lasts))]
}

/// Whether another fault affects the measurement of a noise.
fn is_disturbed(run: &Collected, noise: &Fault) -> bool {
    let [(begin, _), (_, end)] = calm(noise);
    let other = |fault: &&Fault| !std::ptr::eq(*fault, noise) && fault.kind != FaultKind::Use;
    let fades = |fault: &Fault| if fault.kind == FaultKind::Noise { FADES } else { RECOVERED };
    run.faults().filter(other).any(|fault| fault.touches(begin, end, fades(fault)))
}

fn speed(run: &Collected, finding: &mut Finding) {
    let Some(quiet) = &run.evidence.stage.quiet else { return };
    let noises = run.faults().filter(|fault| fault.kind == FaultKind::Noise);
    let (amid, alone): (Vec<&Fault>, Vec<&Fault>) = noises.partition(|noise| is_disturbed(run, noise));
    finding.count(format!("{} noises, {} of them amid faults", amid.len() + alone.len(), amid.len()));
    for kind in kinds(run, quiet) {
        kept(&kind, &alone, finding);
    }
}

/// Compares each noise with the intervals right before and after it, as other load of the machine affects both.
fn kept(kind: &Kind, noises: &[&Fault], finding: &mut Finding) {
    let what = kind.what;
    let mut ratios = Vec::new();
    for noise in noises {
        let (_, loud) = kind.speed_in(&[(noise.from, noise.to)]);
        let (tried, calm) = kind.speed_in(&calm(noise));
        // Only the quiet intervals need enough samples: a noise may reduce their number, which is its cost.
        if tried >= TRIED && calm > 0.0 {
            ratios.push((loud / calm, loud, calm, noise.from));
        }
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let told = |(ratio, loud, calm, at): &(f64, f64, f64, At)| {
        format!("noise at {at}: {loud:.2} {what} for each second of waiting, {calm:.2} without it: {ratio:.2}")
    };
    if ratios.len() < NOISES {
        ratios.iter().for_each(|ratio| finding.note(told(ratio)));
        return;
    }
    let middle = ratios[ratios.len() / 2];
    finding.judged(ratios.len());
    finding.count(format!(
        "the quiet tenant kept {:.2} of the speed of its {what} ({:.2} to {:.2} in {} noises)",
        middle.0,
        ratios[0].0,
        ratios[ratios.len() - 1].0,
        ratios.len()
    ));
    if middle.0 < LEFT {
        finding.violated(
            format!("a tenant within its limits left another {:.2} of the speed of its {what}", middle.0),
            ratios.iter().map(told),
        );
    }
}

/// Checks that requests of the largest permitted size are not refused for it, and larger ones are, without a server
/// error.
fn sizes(run: &Collected, finding: &mut Finding) {
    let (mut within, mut beyond) = (0, 0);
    for call in run.calls() {
        let Op::Sized { what, size } = &call.op else { continue };
        let told = || [format!("through node {} at {}: {:?}", call.node, call.begin, call.outcome)];
        match (size, &call.outcome) {
            // Unknown outcomes, and refusals that do not concern the size.
            (_, Outcome::Unknown { .. } | Outcome::Refused { status: 0 | 401..=412 | 414..=499, .. }) => continue,
            (Size::Within, Outcome::Done(_)) => within += 1,
            (Size::Beyond, Outcome::Refused { .. }) => beyond += 1,
            (Size::Within, Outcome::Refused { .. }) => {
                within += 1;
                finding.violated(format!("{what} was refused, and is within its limit"), told());
            }
            (Size::Beyond, Outcome::Done(_)) => {
                beyond += 1;
                finding.violated(format!("{what} was taken, and is beyond its limit"), told());
            }
        }
    }
    finding.judged(within + beyond);
    if within + beyond > 0 {
        finding.count(format!("{} sizes at their limits, {} beyond", figure(within), figure(beyond)));
    }
}

/// Checks that no node ends by itself, unless a fault ends it.
fn nodes(run: &Collected, finding: &mut Finding) {
    let ended = run.records.iter().filter_map(|record| match record {
        Record::Ended(ended) => Some(ended),
        _ => None,
    });
    let (mut all, mut unexplained) = (0, 0);
    for ended in ended {
        all += 1;
        if !was_ended(run, ended) {
            unexplained += 1;
            finding.violated(
                format!("node {} ended, and nothing was done to it", ended.node),
                [format!("at {}: {}", ended.at, ended.how)],
            );
        }
    }
    if all > 0 {
        finding.count(format!("{all} ends of nodes, {unexplained} of them by nothing that was done"));
    }
}

/// Log message of a node whose peers told it of its removal before its own copy of the directory did.
const REMOVED: &str = "was removed from this cluster";

fn was_ended(run: &Collected, ended: &Ended) -> bool {
    use FaultKind::{Crash, Damage, Disk, Failpoint, Membership};
    let ends = |fault: &&Fault| match fault.kind {
        Crash | Damage | Disk | Failpoint => true,
        Membership => ended.how.contains(REMOVED),
        _ => false,
    };
    let mut faults = run.faults().filter(ends);
    faults.any(|fault| fault.nodes.contains(&ended.node) && fault.touches(ended.at, ended.at, ENDS))
}
