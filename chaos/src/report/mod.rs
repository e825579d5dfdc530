//! The reports of a run, for people and programs: `report.json`, `report.md` and `timeline.svg` in its folder.
//!
//! - [`timeline`]: throughput and latency over the run, with its faults. [`words`]: the page for people.

pub mod timeline;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::check::{Invariant, Verdict};
use crate::history::{Call, Collected, Outcome};
use crate::schedule::Schedule;
use crate::schedule::done::Done;
use crate::setup::Setup;

const JSON: &str = "report.json";

/// Invariants that every run can violate; the others need faults or refusals that not every run has.
const ALWAYS_JUDGED: [Invariant; 7] =
    [Invariant::I1, Invariant::I2, Invariant::I3, Invariant::I5, Invariant::I8, Invariant::I10, Invariant::I13];

/// The report of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub profile: String,
    /// The command that repeats the run.
    #[serde(default)]
    pub again: String,
    /// Bugs of the product that were put back.
    #[serde(default)]
    pub bugs: Vec<String>,
    pub began_at: DateTime<Utc>,
    /// Duration, including the setup of the world.
    pub took: Duration,
    pub schedule: Schedule,
    pub faults: Vec<Done>,
    /// The operations of clients, by name.
    pub operations: BTreeMap<String, Operations>,
    pub verdict: Verdict,
}

/// The number of operations by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    pub done: u64,
    pub refused: u64,
    /// Timed out or disconnected: they may have taken effect.
    pub unknown: u64,
}

impl Report {
    /// A report before the checks.
    pub fn new(setup: &Setup, faults: Vec<Done>, began_at: DateTime<Utc>, took: Duration) -> Self {
        Self {
            profile: setup.profile.name.clone(),
            again: setup.again(),
            bugs: setup.bugs.iter().map(|bug| bug.as_str().to_owned()).collect(),
            began_at,
            took,
            schedule: setup.schedule.clone(),
            faults,
            operations: BTreeMap::new(),
            verdict: Verdict::default(),
        }
    }

    /// Adds the operations of clients and the results of the checks.
    pub fn judged(self, collected: &Collected, verdict: Verdict) -> Self {
        let mut operations: BTreeMap<String, Operations> = BTreeMap::new();
        for call in collected.calls() {
            let counts = operations.entry(name(call)).or_default();
            match call.outcome {
                Outcome::Done(_) => counts.done += 1,
                Outcome::Refused { .. } => counts.refused += 1,
                Outcome::Unknown { .. } => counts.unknown += 1,
            }
        }
        Self { operations, verdict, ..self }
    }

    /// Faults that could not be begun or ended.
    pub fn undone(&self) -> impl Iterator<Item = &Done> {
        self.faults.iter().filter(|fault| fault.problem.is_some())
    }

    /// Faults that were executed and had an effect.
    pub fn done(&self) -> impl Iterator<Item = &Done> {
        self.faults.iter().filter(|fault| fault.problem.is_none() && !fault.is_idle())
    }

    /// Why success of this run proves nothing; `None` if enough was broken and checked. Faults without effect count on
    /// neither side.
    pub fn doubt(&self) -> Option<String> {
        let (done, undone) = (self.done().count(), self.undone().count());
        if done == 0 || undone * 4 > done + undone {
            let idle = self.faults.len() - done - undone;
            return Some(format!("{done} faults were done, {idle} had no effect, and {undone} could not be done"));
        }
        let unjudged = self.verdict.unjudged().filter(|invariant| ALWAYS_JUDGED.contains(invariant));
        let unjudged: Vec<String> = unjudged.map(|invariant| invariant.to_string()).collect();
        (!unjudged.is_empty()).then(|| format!("nothing in it could have broken {}", unjudged.join(", ")))
    }

    /// Whether success of this run proves something.
    pub fn is_conclusive(&self) -> bool {
        self.doubt().is_none()
    }

    /// Reads the report in a run's folder.
    ///
    /// # Errors
    /// When there is none.
    pub fn load(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(JSON);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes the report before the checks into the run's folder, so that the run can be checked again later.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn begin(&self, folder: &Path) -> anyhow::Result<()> {
        put(folder, JSON, &serde_json::to_string_pretty(self)?)
    }

    /// Writes all reports into the run's folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, folder: &Path, collected: &Collected) -> anyhow::Result<()> {
        self.begin(folder)?;
        put(folder, "report.md", &words::page(self))?;
        put(folder, "timeline.svg", &timeline::draw(collected, &self.faults)?)
    }
}

fn put(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// The name of an operation in the history.
fn name(call: &Call) -> String {
    let told = serde_json::to_value(&call.op).ok();
    told.and_then(|told| told["op"].as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::check::{Finding, Violation};
    use crate::history::At;
    use crate::schedule::done::Note;
    use crate::schedule::fault::{Fault, Lane, Who};
    use crate::schedule::profile::Profile;

    /// A report of a run with these numbers of faults with an effect, without one, and failed; `unjudged` are not
    /// judged.
    fn report(done: usize, idle: usize, undone: usize, unjudged: &[Invariant]) -> Report {
        let fault = |problem: Option<&str>, note| {
            let (fault, problem) = (Fault::Kill(Who::All), problem.map(str::to_owned));
            Done { fault, lane: Lane::Nodes, from: At::default(), to: At::default(), problem, note }
        };
        let mut faults = vec![fault(None, None); done];
        faults.extend(vec![fault(None, Some(Note::Unreached)); idle]);
        faults.extend(vec![fault(Some("no node"), None); undone]);
        let setup = Setup::new(7, Profile::quick(), PathBuf::new());
        let report = Report::new(&setup, faults, Utc::now(), Duration::from_secs(1));
        let finding = |invariant: Invariant| Finding {
            invariant,
            counts: Vec::new(),
            judged: usize::from(!unjudged.contains(&invariant)),
            notes: Vec::new(),
            violations: Vec::new(),
        };
        Report { verdict: Verdict { findings: Invariant::ALL.into_iter().map(finding).collect() }, ..report }
    }

    #[test]
    fn what_held_says_something_when_enough_was_broken_and_looked_at() {
        use Invariant as I;
        let table: [(Report, &str); 9] = [
            (report(3, 0, 1, &[]), ""),
            (report(1, 9, 0, &[]), ""),
            (report(3, 0, 2, &[]), "3 faults were done, 0 had no effect, and 2 could not be done"),
            (report(0, 0, 0, &[]), "0 faults were done, 0 had no effect, and 0 could not be done"),
            (report(0, 5, 0, &[]), "0 faults were done, 5 had no effect, and 0 could not be done"),
            (report(2, 9, 1, &[]), "2 faults were done, 9 had no effect, and 1 could not be done"),
            (report(9, 0, 0, &[I::I4, I::I6, I::I7, I::I9, I::I11, I::I12, I::I14]), ""),
            (report(9, 0, 0, &[I::I3, I::I7, I::I8]), "nothing in it could have broken I3, I8"),
            // Before the checks.
            (Report { verdict: Verdict::default(), ..report(9, 0, 0, &[]) }, ""),
        ];
        for (report, doubt) in table {
            assert_eq!(report.doubt().unwrap_or_default(), doubt);
            assert_eq!(report.is_conclusive(), doubt.is_empty());
        }
    }

    #[test]
    fn the_page_counts_what_had_no_effect_apart_and_names_what_was_put_back() {
        let mut report = report(4, 3, 2, &[]);
        report.bugs = vec!["bug::reverse_outbox".to_owned()];
        let page = words::page(&report);
        for words in [
            "4 of 9 faults",
            "| kill | 4 | 3 | 2 |",
            "nothing came to that place",
            "`bug::reverse_outbox`",
            "anything: 4 faults were done, 3 had no effect, and 2 could not be done.**",
            "`gateway-chaos run --seed 7 --profile quick`",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        let violation = Violation { what: "lost".to_owned(), evidence: Vec::new() };
        report.verdict.findings[0].violations = vec![violation];
        assert!(words::page(&report).contains("VIOLATED"));
    }

    #[test]
    fn a_report_of_an_earlier_release_is_read_with_what_had_no_effect_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut earlier = serde_json::to_value(report(4, 3, 0, &[])).unwrap();
        assert_eq!(earlier["faults"][5]["note"], "nothing came to that place");
        earlier.as_object_mut().unwrap().remove("bugs");
        put(folder.path(), JSON, &earlier.to_string()).unwrap();
        let report = Report::load(folder.path()).unwrap();
        assert_eq!((report.done().count(), report.bugs.len()), (4, 0));
    }
}
