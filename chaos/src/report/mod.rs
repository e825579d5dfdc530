//! What a run leaves for people and programs: a folder with `report.json`, `report.md` and `timeline.svg`.
//!
//! - [`timeline`]: throughput and latency over the run, with the faults drawn in. [`words`]: the page for people.

pub mod timeline;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::check::Verdict;
use crate::history::{Call, Collected, Outcome};
use crate::run::faults::Done;
use crate::schedule::Schedule;
use crate::schedule::profile::Profile;

const JSON: &str = "report.json";

/// All that is to be said of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub profile: String,
    /// The command that does the same again.
    #[serde(default)]
    pub again: String,
    pub began_at: DateTime<Utc>,
    /// With the making of the world.
    pub took: Duration,
    pub schedule: Schedule,
    pub faults: Vec<Done>,
    /// What the clients did, by name.
    pub operations: BTreeMap<String, Operations>,
    pub verdict: Verdict,
}

/// How often an operation ended in each way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    pub done: u64,
    pub refused: u64,
    /// Timed out or cut off: it may have happened.
    pub unknown: u64,
}

impl Report {
    /// Before anything is judged.
    pub fn new(
        profile: &Profile,
        schedule: Schedule,
        faults: Vec<Done>,
        began_at: DateTime<Utc>,
        took: Duration,
    ) -> Self {
        let (operations, verdict) = (BTreeMap::new(), Verdict::default());
        let again = format!("gateway-chaos run --seed {} {}", schedule.seed, profile.arguments);
        Self { profile: profile.name.clone(), again, began_at, took, schedule, faults, operations, verdict }
    }

    /// With what the clients did, and the judgement over it.
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

    /// Faults that could not be done, or not be undone.
    pub fn undone(&self) -> impl Iterator<Item = &Done> {
        self.faults.iter().filter(|fault| fault.problem.is_some())
    }

    /// Whether enough was broken that what held says something.
    pub fn is_conclusive(&self) -> bool {
        !self.faults.is_empty() && self.undone().count() * 4 <= self.faults.len()
    }

    /// Reads the report of a run's folder.
    ///
    /// # Errors
    /// When there is none.
    pub fn load(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(JSON);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes what is known before anything is judged into the run's folder: it can be judged again from then on.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn begin(&self, folder: &Path) -> anyhow::Result<()> {
        put(folder, JSON, &serde_json::to_string_pretty(self)?)
    }

    /// Writes all of it into the run's folder.
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

/// What an operation is called in the history.
fn name(call: &Call) -> String {
    let told = serde_json::to_value(&call.op).ok();
    told.and_then(|told| told["op"].as_str().map(str::to_owned)).unwrap_or_default()
}
