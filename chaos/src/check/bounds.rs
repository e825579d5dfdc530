//! I14: whatever a tenant does within its limits costs the others at most a fifth of their speed, and never a node; what is
//! within a limit is taken, and what is beyond it is refused.

use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::{At, Call, Collected, Ended, Fault, FaultKind, Op, Outcome, Record, Size};

/// What must be left of a quiet tenant's speed.
const LEFT: f64 = 0.8;

/// How long beside a noise the quiet tenant is measured without it, on both sides, at most.
const CALM: Duration = Duration::from_secs(5);

/// What a noise has begun may go on for so long after it.
const FADES: Duration = Duration::from_secs(3);

/// For so long after another fault nothing is measured.
const RECOVERED: Duration = Duration::from_secs(5);

/// Of fewer sends without noise no speed is told.
const SENDS: usize = 20;

/// The middle one of fewer noises is a matter of luck on a machine that does something else, too.
const NOISES: usize = 3;

/// A process may end so long after what it ends of.
const ENDS: Duration = Duration::from_secs(10);

pub fn judge(run: &Collected, finding: &mut Finding) {
    speed(run, finding);
    sizes(run, finding);
    nodes(run, finding);
}

/// The quiet tenant's sends in a time: how many there were, and how many were done for each second that it waited.
fn speed_in(sends: &[&Call], times: &[(At, At)]) -> (usize, f64) {
    let within = sends.iter().filter(|call| times.iter().any(|(from, to)| *from <= call.begin && call.begin < *to));
    let (mut done, mut all, mut waited) = (0_usize, 0, Duration::ZERO);
    for call in within {
        all += 1;
        done += usize::from(call.is_done());
        waited += call.end.since(call.begin);
    }
    // Who waits for one that began before has no speed at all.
    (all, if waited > Duration::ZERO { done as f64 / waited.as_secs_f64() } else { 0.0 })
}

/// Each noise is compared with what was right before and after it: whatever else the machine does is in both.
fn speed(run: &Collected, finding: &mut Finding) {
    let Some(quiet) = &run.evidence.stage.quiet else { return };
    let sends: Vec<&Call> =
        run.calls().filter(|call| call.tenant == *quiet && matches!(call.op, Op::Send { .. })).collect();
    let noises: Vec<&Fault> = run.faults().filter(|fault| fault.kind == FaultKind::Noise).collect();
    let mut ratios = Vec::new();
    let mut disturbed = 0;
    for noise in &noises {
        let calm = CALM.min(noise.to.since(noise.from));
        let faded = noise.to.plus(FADES);
        let (begin, end) = (noise.from.minus(calm), faded.plus(calm));
        let other = |fault: &Fault| !std::ptr::eq(fault, *noise) && fault.kind != FaultKind::Use;
        let fades = |fault: &Fault| if fault.kind == FaultKind::Noise { FADES } else { RECOVERED };
        if run.faults().any(|fault| other(fault) && fault.touches(begin, end, fades(fault))) {
            disturbed += 1;
            continue;
        }
        let (_, loud) = speed_in(&sends, &[(noise.from, noise.to)]);
        let (sent, calm) = speed_in(&sends, &[(begin, noise.from), (faded, end)]);
        // With noise there may be few, as that is what it costs.
        if sent >= SENDS && calm > 0.0 {
            ratios.push((loud / calm, loud, calm, noise.from));
        }
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let told = |(ratio, loud, calm, at): &(f64, f64, f64, At)| {
        format!("noise at {at}: {loud:.0} sends for each second of waiting, {calm:.0} without it: {ratio:.2}")
    };
    finding.count(format!("{} noises, {} of them measured, {disturbed} amid faults", noises.len(), ratios.len()));
    if ratios.len() < NOISES {
        ratios.iter().for_each(|ratio| finding.note(told(ratio)));
        return;
    }
    let middle = ratios[ratios.len() / 2];
    finding.judged(ratios.len());
    finding.count(format!(
        "the quiet tenant kept {:.2} of its speed ({:.2} to {:.2})",
        middle.0,
        ratios[0].0,
        ratios[ratios.len() - 1].0
    ));
    if middle.0 < LEFT {
        finding.violated(
            format!("a tenant within its limits left another {:.2} of its speed", middle.0),
            ratios.iter().map(told),
        );
    }
}

/// What is as large as it may be is not refused for its size, and what is larger is, and not as a failure of the gateway.
fn sizes(run: &Collected, finding: &mut Finding) {
    let (mut within, mut beyond) = (0, 0);
    for call in run.calls() {
        let Op::Sized { what, size } = &call.op else { continue };
        let told = || [format!("through node {} at {}: {:?}", call.node, call.begin, call.outcome)];
        match (size, &call.outcome) {
            // Of these nobody knows, or they say nothing of sizes.
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

/// No node ends by itself but by what was done to it.
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

/// What a node says that ends because its peers told it that it was removed, before its own copy of the directory did.
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
