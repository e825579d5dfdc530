//! Checks of what was collected of a run: one pure function for each invariant (docs/quality/invariants.md).
//!
//! A check permits what the interface permits and nothing else: an unknown outcome proves neither success nor failure,
//! and an active fault excuses its possible effects and no more.

pub mod verdict;

mod bounds;
mod damage;
mod deliveries;
mod directory;
mod frontier;
mod limits;
mod liveness;
mod lost;
mod order;
mod progress;
mod refused;
mod repeats;
mod replicas;
mod sessions;
mod stopped;
mod tenancy;

pub use verdict::{Finding, Invariant, Verdict, Violation};

use std::collections::HashMap;

use crate::history::{Call, Collected, Op};

/// Checks all invariants of a run.
pub fn judge(collected: &Collected) -> Verdict {
    Verdict { findings: Invariant::ALL.into_iter().map(|invariant| judge_one(invariant, collected)).collect() }
}

/// Checks one invariant of a run.
pub fn judge_one(invariant: Invariant, collected: &Collected) -> Finding {
    let mut finding = Finding::new(invariant);
    let judge = match invariant {
        Invariant::I1 => lost::judge,
        Invariant::I2 => repeats::judge,
        Invariant::I3 => sessions::judge,
        Invariant::I4 => order::judge,
        Invariant::I5 => deliveries::judge,
        Invariant::I6 => refused::judge,
        Invariant::I7 => limits::judge,
        Invariant::I8 => directory::judge,
        Invariant::I9 => replicas::judge,
        Invariant::I10 => liveness::judge,
        Invariant::I11 => damage::judge,
        Invariant::I12 => tenancy::judge,
        Invariant::I13 => progress::judge,
        Invariant::I14 => bounds::judge,
    };
    judge(collected, &mut finding);
    finding
}

/// The number in a phone's address.
fn number_of(address: &str) -> &str {
    address.split(['@', ':']).next().unwrap_or(address)
}

/// Sends by their texts, which are unique.
fn sends_by_text(run: &Collected) -> HashMap<&str, &Call> {
    let sends = run.calls().filter_map(|call| match &call.op {
        Op::Send { text, .. } => Some((text.as_str(), call)),
        _ => None,
    });
    sends.collect()
}

#[cfg(test)]
mod tests;
