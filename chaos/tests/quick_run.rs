//! Three minutes of everything that breaks and heals quickly: all invariants hold. Needs root.

#![allow(clippy::unwrap_used, reason = "tests")]

use chaos::check::Invariant;
use chaos::run::{self, Setup};
use chaos::schedule::profile::Profile;

/// One that has kills of one, of the owner, of a majority and of all, SIGSTOP, partitions of all kinds, a death at a
/// failpoint, and a rolling restart meanwhile.
const SEED: u64 = 7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_broken_in_every_quick_way_keeps_all_its_promises() {
    let mut kept = tempfile::tempdir().unwrap();
    let folder = kept.path().join("run");
    let report = run::run(&Setup::new(SEED, Profile::quick(), folder.clone()), |line| println!("{line}")).await;
    // Whoever looks why wants all of it.
    kept.disable_cleanup(!report.as_ref().is_ok_and(|report| report.verdict.holds()));
    let report = report.unwrap_or_else(|error| panic!("{error:#}; kept in {}", folder.display()));
    println!("{}", report.verdict);
    assert!(report.verdict.holds(), "kept in {}:\n{}", folder.display(), report.verdict);
    assert!(folder.join("timeline.svg").is_file() && folder.join("report.md").is_file());
    // The cluster may be too broken for one or the other, an operator's above all.
    let undone: Vec<String> = report.undone().map(ToString::to_string).collect();
    assert!(report.is_conclusive(), "{undone:#?}");
    // Nothing damages files in it.
    let unjudged: Vec<_> = report.verdict.unjudged().filter(|invariant| *invariant != Invariant::I11).collect();
    assert!(unjudged.is_empty(), "nothing could have broken {unjudged:?}");
    let sends = &report.operations["send"];
    assert!(sends.done > 100, "{sends:?}");
}
