//! A report as a page in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Report;
use crate::check::Finding;
use crate::run::faults::Done;

/// Violations of one invariant that are shown; all of them are in the JSON.
const SHOWN: usize = 20;

/// How many faults of each kind were done, and how many could not be.
fn by_kind(faults: &[Done]) -> BTreeMap<String, (usize, usize)> {
    let mut kinds: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for Done { fault, problem, .. } in faults {
        let counts = kinds.entry(fault.word()).or_default();
        if problem.is_none() {
            counts.0 += 1;
        } else {
            counts.1 += 1;
        }
    }
    kinds
}

/// The page. Faults are numbered as in the picture.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a String does not fail.
    let _ = write(report, &mut page);
    page
}

fn write(report: &Report, page: &mut String) -> std::fmt::Result {
    let (seed, verdict) = (report.schedule.seed, if report.verdict.holds() { "held" } else { "VIOLATED" });
    writeln!(page, "# Chaos run: seed {seed}, {}: {verdict}\n", report.profile)?;
    let began = report.began_at.format("%Y-%m-%d %H:%M:%S UTC");
    let (all, undone) = (report.faults.len(), report.undone().count());
    writeln!(page, "Began at {began}, took {:.0} s; {} of {all} faults.\n", report.took.as_secs_f64(), all - undone)?;
    if !report.is_conclusive() {
        writeln!(page, "**Too little was broken for this to say anything.**\n")?;
    }
    writeln!(page, "![Throughput and latency](timeline.svg)\n")?;

    writeln!(page, "## Invariants\n\n| | | Checked | Violations |\n|---|---|---|---:|")?;
    for Finding { invariant, counts, notes, violations } in &report.verdict.findings {
        let checked = counts.iter().chain(notes).map(String::as_str).collect::<Vec<_>>().join("; ");
        writeln!(page, "| {invariant} | {} | {checked} | {} |", invariant.says(), violations.len())?;
    }
    for Finding { invariant, violations, .. } in report.verdict.findings.iter().filter(|finding| !finding.holds()) {
        writeln!(page, "\n### {invariant}: {}\n", invariant.says())?;
        for violation in violations.iter().take(SHOWN) {
            writeln!(page, "- {}", violation.what)?;
            for evidence in &violation.evidence {
                writeln!(page, "  - {evidence}")?;
            }
        }
        let more = violations.len().saturating_sub(SHOWN);
        if more > 0 {
            writeln!(page, "- and {more} more")?;
        }
    }

    writeln!(page, "\n## Operations\n\n| | Done | Refused | Unknown |\n|---|---:|---:|---:|")?;
    for (name, counts) in &report.operations {
        writeln!(page, "| {name} | {} | {} | {} |", counts.done, counts.refused, counts.unknown)?;
    }

    writeln!(page, "\n## Faults\n\n| Kind | Done | Not done |\n|---|---:|---:|")?;
    for (kind, (done, undone)) in by_kind(&report.faults) {
        writeln!(page, "| {kind} | {done} | {undone} |")?;
    }
    writeln!(page, "\n| # | From | To | What | |\n|---:|---:|---:|---|---|")?;
    for (n, Done { fault, from, to, problem, note, .. }) in report.faults.iter().enumerate() {
        let more = problem.iter().chain(note).cloned().collect::<Vec<_>>().join("; ").replace(['|', '\n'], " ");
        writeln!(page, "| {} | {from} | {to} | {fault} | {more} |", n + 1)?;
    }
    writeln!(page, "\nThe same schedule again: `{}`", report.again)
}
