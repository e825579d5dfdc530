//! Results against their targets: rows in Markdown for people, and all measurements in JSON for programs.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use crate::bench::machine::Facts;

/// Median and range of the values of several trials.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub trials: usize,
}

impl Spread {
    /// Of at least one value; NaN without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        } else {
            at(middle)
        };
        Self { median, min: at(0), max: at(sorted.len().wrapping_sub(1)), trials: sorted.len() }
    }
}

/// The target of a value.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
    /// The value only explains another one.
    None,
}

impl Target {
    fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::Between(least, most) => Some((least..=most).contains(&value)),
            Self::None => None,
        }
    }
}

/// One measure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// B1 to B11.
    pub number: &'static str,
    pub measure: String,
    pub value: Spread,
    /// Empty for a ratio.
    pub unit: &'static str,
    pub target: Target,
    pub met: Option<bool>,
    /// What the value was computed from.
    pub note: String,
}

impl Row {
    pub fn new(
        number: &'static str,
        measure: impl Into<String>,
        value: Spread,
        unit: &'static str,
        target: Target,
    ) -> Self {
        Self {
            number,
            measure: measure.into(),
            met: target.is_met(value.median),
            value,
            unit,
            target,
            note: String::new(),
        }
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn cells(&self) -> [String; 6] {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let spread = match self.value.trials {
            0 => String::new(),
            1 => "1 trial".to_owned(),
            trials => format!("{} to {} ({trials})", figure(self.value.min), figure(self.value.max)),
        };
        let target = match (self.target, self.met) {
            (Target::AtLeast(least), Some(met)) => format!("≥ {}{unit}: {}", figure(least), verdict(met)),
            (Target::AtMost(most), Some(met)) => format!("≤ {}{unit}: {}", figure(most), verdict(met)),
            (Target::Between(least, most), Some(met)) => {
                format!("{} to {}{unit}: {}", figure(least), figure(most), verdict(met))
            }
            _ => String::new(),
        };
        let value = format!("{}{unit}", figure(self.value.median));
        [self.number.to_owned(), self.measure.clone(), value, spread, target, self.note.clone()]
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

/// As many digits as are significant.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 || value.fract() == 0.0 => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        _ => format!("{value:.2}"),
    }
}

/// The rows of one benchmark, and all measurements behind them.
#[derive(Debug, Serialize)]
pub struct Section {
    pub rows: Vec<Row>,
    pub details: Value,
}

impl Section {
    /// Joins two sections.
    pub fn and(mut self, other: Self) -> Self {
        self.rows.extend(other.rows);
        Self { rows: self.rows, details: json!([self.details, other.details]) }
    }
}

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Results {
    pub machine: Facts,
    /// Whether the run is too short for reliable figures.
    pub quick: bool,
    pub sections: Vec<Section>,
    /// Benchmarks that did not complete, and why.
    pub failures: Vec<String>,
}

const HEADING: &str = "| | Measure | Median | Range (trials) | Target | Made of |\n|---|---|---|---|---|---|\n";

/// Rows as a table in Markdown.
pub fn table<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let mut text = HEADING.to_owned();
    for row in rows {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}

impl Results {
    /// The machine and every row, for the README.
    pub fn markdown(&self) -> String {
        let quick = if self.quick { " A quick run: shorter than figures should be taken from." } else { "" };
        let rows = table(self.sections.iter().flat_map(|section| &section.rows));
        let failures: String = self.failures.iter().map(|failure| format!("\nNot measured: {failure}\n")).collect();
        format!("{}.{quick}\n\n{rows}{failures}", self.machine.lines().replace('\n', "; "))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_middle_and_the_ends() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0, trials: 3 });
        assert_eq!(Spread::of([4.0, 1.0]), Spread { median: 2.5, min: 1.0, max: 4.0, trials: 2 });
        assert!(Spread::of([]).median.is_nan());
    }

    #[test]
    fn a_row_says_whether_its_target_is_met() {
        let row = Row::new("B1", "sends ÷ puts", Spread::of([0.5, 0.9, 1.2]), "", Target::AtLeast(1.0));
        assert_eq!(row.met, Some(false));
        assert!(
            table([&row]).contains("| B1 | sends ÷ puts | 0.90 | 0.50 to 1.20 (3) | ≥ 1: **missed** |"),
            "{}",
            table([&row])
        );
        let single = Row::new("B6", "failed sends", Spread::of([0.0]), "", Target::AtMost(0.0));
        assert_eq!(single.met, Some(true));
        assert!(table([&single]).contains("| 0 | 1 trial | ≤ 0: met |"), "{}", table([&single]));
        let unknown = Row::new("B7", "memory", Spread::of([]), "KiB", Target::AtMost(16.0));
        assert_eq!(unknown.met, Some(false), "what was not measured is not met");
        let never = Row::new("B2", "p99", Spread::of([2.0, f64::INFINITY, f64::INFINITY]), "", Target::AtMost(0.75));
        assert_eq!(never.met, Some(false));
        assert!(table([&never]).contains("| inf | 2 to inf (3) | ≤ 0.75: **missed** |"), "{}", table([&never]));
    }
}
