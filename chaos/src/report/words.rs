//! A report as a page in Markdown.

use std::fmt::Write as _;

use super::Report;
use crate::check::Finding;
use crate::run::faults::Done;

/// Violations of one invariant that are shown; all of them are in the JSON.
const SHOWN: usize = 20;

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
    writeln!(page, "Began at {began}, took {:.0} s; {} faults.\n", report.took.as_secs_f64(), report.faults.len())?;
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

    writeln!(page, "\n## Faults\n\n| # | From | To | What | |\n|---:|---:|---:|---|---|")?;
    for (n, Done { fault, from, to, problem, .. }) in report.faults.iter().enumerate() {
        let problem = problem.as_deref().unwrap_or_default().replace(['|', '\n'], " ");
        writeln!(page, "| {} | {from} | {to} | {fault} | {problem} |", n + 1)?;
    }
    writeln!(page, "\nThe same schedule again: `gateway-chaos run --seed {seed}` with the same profile.")
}
