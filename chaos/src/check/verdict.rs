//! The results of the checks: for each invariant what was counted, what violated it, and what deserves a look.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The invariants, which docs/quality/invariants.md states in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Invariant {
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I9,
    I10,
    I11,
    I12,
    I13,
    I14,
}

impl Invariant {
    pub const ALL: [Self; 14] = [
        Self::I1,
        Self::I2,
        Self::I3,
        Self::I4,
        Self::I5,
        Self::I6,
        Self::I7,
        Self::I8,
        Self::I9,
        Self::I10,
        Self::I11,
        Self::I12,
        Self::I13,
        Self::I14,
    ];

    pub fn says(self) -> &'static str {
        match self {
            Self::I1 => "a send answered 202 is never lost",
            Self::I2 => "the network's effect is exactly one per message id",
            Self::I3 => "at most one live session per channel",
            Self::I4 => "order per channel holds",
            Self::I5 => "one delivery per endpoint and event, and no event is lost",
            Self::I6 => "after a revoke, disable or delete is answered no node acts against it",
            Self::I7 => "buckets admit at most rate × time + burst over the whole cluster",
            Self::I8 => "the directory is linearizable",
            Self::I9 => "replicas at the same applied index have the same state",
            Self::I10 => "after faults end the cluster heals by itself",
            Self::I11 => "damaged data on disk is refused, never served",
            Self::I12 => "no tenant sees or touches another's anything",
            Self::I13 => "a group that can reach a quorum commits within 3 s, and every call ends in its time",
            Self::I14 => "within its limits a tenant costs the others a fifth of their speed at most, and no node",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The results of all checks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// One for each invariant, in their order.
    pub findings: Vec<Finding>,
}

impl Verdict {
    pub fn holds(&self) -> bool {
        self.findings.iter().all(Finding::holds)
    }

    pub fn of(&self, invariant: Invariant) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.invariant == invariant)
    }

    /// The invariants that nothing in the run could have violated.
    pub fn unjudged(&self) -> impl Iterator<Item = Invariant> {
        self.findings.iter().filter(|finding| finding.judged == 0).map(|finding| finding.invariant)
    }

    /// The invariants that do not hold.
    pub fn violated(&self) -> impl Iterator<Item = Invariant> {
        self.findings.iter().filter(|finding| !finding.holds()).map(|finding| finding.invariant)
    }
}

/// For people: a line for each invariant, followed by its violations.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(
                f,
                "{:<3} {:<10} {}: {}",
                finding.invariant,
                finding.state(),
                finding.invariant.says(),
                finding.counts.join("; ")
            )?;
            for note in &finding.notes {
                writeln!(f, "      note: {note}")?;
            }
            for violation in finding.violations.iter().take(SHOWN) {
                writeln!(f, "      {violation}")?;
            }
            if finding.violations.len() > SHOWN {
                writeln!(f, "      and {} more", finding.violations.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

/// Violations of one invariant that are printed; the report's file has all of them.
const SHOWN: usize = 5;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub invariant: Invariant,
    /// What was checked: `1,204 sends answered 202, 1,204 accounted for`.
    pub counts: Vec<String>,
    /// How many things could have violated the invariant. With none, the run shows nothing about it.
    #[serde(default)]
    pub judged: usize,
    /// Observations that violate nothing but deserve a look.
    pub notes: Vec<String>,
    pub violations: Vec<Violation>,
}

impl Finding {
    pub(super) fn new(invariant: Invariant) -> Self {
        Self { invariant, counts: Vec::new(), judged: 0, notes: Vec::new(), violations: Vec::new() }
    }

    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }

    /// The result in a word.
    pub fn state(&self) -> &'static str {
        match (self.holds(), self.judged) {
            (false, _) => "BROKEN",
            (true, 0) => "not judged",
            (true, _) => "holds",
        }
    }

    /// Counts things that could have violated the invariant, whether they did or not.
    pub(super) fn judged(&mut self, things: usize) {
        self.judged += things;
    }

    pub(super) fn count(&mut self, count: impl Into<String>) {
        self.counts.push(count.into());
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(super) fn violated(&mut self, what: impl Into<String>, evidence: impl IntoIterator<Item = String>) {
        self.violations.push(Violation { what: what.into(), evidence: evidence.into_iter().collect() });
    }
}

/// A violation of an invariant, with its evidence: ids, times, rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    pub what: String,
    pub evidence: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for evidence in &self.evidence {
            write!(f, "\n        {evidence}")?;
        }
        Ok(())
    }
}

/// A count for people: `1,204`.
pub(super) fn figure(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
