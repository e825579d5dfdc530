//! A report as a page in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Report;
use crate::check::Finding;
use crate::schedule::done::Done;

/// The most violations shown per invariant; the JSON has all of them.
const SHOWN: usize = 20;

/// How many faults of each kind had an effect, had none, and failed.
fn by_kind(faults: &[Done]) -> BTreeMap<String, [usize; 3]> {
    let mut kinds: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for fault in faults {
        let [done, idle, undone] = kinds.entry(fault.fault.word()).or_default();
        *match &fault.problem {
            Some(_) => undone,
            None if fault.is_idle() => idle,
            None => done,
        } += 1;
    }
    kinds
}

/// The page. Faults have the numbers of the timeline.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a `String` cannot fail.
    let _ = write(report, &mut page);
    page
}

fn write(report: &Report, page: &mut String) -> std::fmt::Result {
    let (seed, verdict) = (report.schedule.seed, if report.verdict.holds() { "held" } else { "VIOLATED" });
    writeln!(page, "# Chaos run: seed {seed}, {}: {verdict}\n", report.profile)?;
    let began = report.began_at.format("%Y-%m-%d %H:%M:%S UTC");
    let (took, done, all) = (report.took.as_secs_f64(), report.done().count(), report.faults.len());
    writeln!(page, "Began at {began}, took {took:.0} s; {done} of {all} faults.\n")?;
    if !report.bugs.is_empty() {
        writeln!(page, "Every node had faults that were put back: `{}`.\n", report.bugs.join("`, `"))?;
    }
    if let Some(doubt) = report.doubt() {
        writeln!(page, "**Too little was broken for this to say anything: {doubt}.**\n")?;
    }
    writeln!(page, "![Throughput and latency](timeline.svg)\n")?;

    writeln!(
        page,
        "## Invariants\n\n| | | | Could have broken it | Checked | Violations |\n|---|---|---|---:|---|---:|"
    )?;
    for finding in &report.verdict.findings {
        let Finding { invariant, counts, judged, notes, violations } = finding;
        let (says, state) = (invariant.says(), finding.state());
        let checked = counts.iter().chain(notes).map(String::as_str).collect::<Vec<_>>().join("; ");
        writeln!(page, "| {invariant} | {says} | {state} | {judged} | {checked} | {} |", violations.len())?;
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

    writeln!(page, "\n## Faults\n\n| Kind | Done | Had no effect | Not done |\n|---|---:|---:|---:|")?;
    for (kind, [done, idle, undone]) in by_kind(&report.faults) {
        writeln!(page, "| {kind} | {done} | {idle} | {undone} |")?;
    }
    writeln!(page, "\n| # | From | To | What | |\n|---:|---:|---:|---|---|")?;
    for (n, done) in report.faults.iter().enumerate() {
        let Done { fault, from, to, .. } = done;
        let more = done.more().collect::<Vec<_>>().join("; ").replace(['|', '\n'], " ");
        writeln!(page, "| {} | {from} | {to} | {fault} | {more} |", n + 1)?;
    }
    writeln!(page, "\nThe same schedule again: `{}`", report.again)
}
