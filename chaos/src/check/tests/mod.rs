//! Each check accepts a history that holds, and finds each violation.

mod bounds;
mod directory;
mod events;
mod limits;
mod play;
mod progress;
mod sends;
mod states;
mod stopped;

use std::collections::BTreeSet;

use self::play::Play;
use super::{Invariant, judge};
use crate::history::{Collected, FaultKind, Record};

/// Asserts that a good history with this change breaks these invariants and no others.
#[track_caller]
fn breaks(invariants: &[Invariant], change: impl FnOnce(&mut Play)) {
    let mut play = Play::good_day();
    change(&mut play);
    let verdict = judge(&play.run);
    let broken: BTreeSet<_> = verdict.violated().collect();
    assert_eq!(broken, invariants.iter().copied().collect(), "{verdict}");
}

/// Asserts that a change breaks nothing.
#[track_caller]
fn holds(change: impl FnOnce(&mut Play)) {
    breaks(&[], change);
}

#[test]
fn a_good_day_holds_and_every_judge_has_looked() {
    let verdict = judge(&Play::good_day().run);
    assert!(verdict.holds(), "{verdict}");
    assert_eq!(verdict.findings.len(), Invariant::ALL.len());
    for finding in &verdict.findings {
        assert!(finding.counts.iter().any(|count| count.contains(|c: char| ('1'..='9').contains(&c))), "{finding:?}");
        assert!(finding.notes.is_empty(), "{finding:?}");
    }
}

#[test]
fn a_run_is_read_again_as_it_was_written() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let recorder = crate::history::Recorder::create(folder.path(), 7).expect("the folder can be written");
    let mut play = Play::good_day();
    play.fault(FaultKind::Crash);
    let run = play.run;
    for record in &run.records {
        recorder.write(record);
    }
    for fault in &run.faults {
        recorder.write(&Record::Fault(fault.clone()));
    }
    recorder.finish().expect("it was written");
    run.evidence.store(folder.path()).expect("it was written");
    let read = Collected::load(folder.path()).expect("it can be read");
    assert_eq!(
        (read.meta.seed, &read.records, &read.faults, &read.evidence),
        (7, &run.records, &run.faults, &run.evidence)
    );
}

#[test]
fn a_damaged_line_of_a_history_is_named() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let recorder = crate::history::Recorder::create(folder.path(), 7).expect("the folder can be written");
    recorder.write(&Play::good_day().run.records[0]);
    recorder.finish().expect("it was written");
    Play::good_day().run.evidence.store(folder.path()).expect("it was written");
    let history = folder.path().join("history.jsonl");
    let mut text = std::fs::read_to_string(&history).expect("it is there");
    text.push_str("{\"record\":\"call\"\n");
    std::fs::write(&history, text).expect("it can be written");
    let error = format!("{:#}", Collected::load(folder.path()).expect_err("a line is no record"));
    assert!(error.contains("history.jsonl, line 2"), "{error}");
}
