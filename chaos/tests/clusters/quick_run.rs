//! Two runs, one after the other, in which all invariants must hold: one with all faults that begin and heal quickly,
//! and one with longer faults of disks, clocks and members. Needs root, `/dev/fuse`, libfaketime, Linux 6.1, and 5 min.

use std::time::Duration;

use chaos::check::Invariant;
use chaos::report::Report;
use chaos::run;
use chaos::schedule::fault::Kind;
use chaos::schedule::profile::Profile;
use chaos::setup::Setup;

use crate::rooted_machine;

/// Executes a run that must hold, with enough faults for that to prove something.
async fn holds(seed: u64, profile: Profile) -> Report {
    let mut kept = tempfile::tempdir().unwrap();
    let folder = kept.path().join("run");
    let report = run::run(&Setup::new(seed, profile, folder.clone()), |line| println!("{line}")).await;
    // The folder of a failed run is kept for analysis.
    kept.disable_cleanup(!report.as_ref().is_ok_and(|report| report.verdict.holds() && report.is_conclusive()));
    let report = report.unwrap_or_else(|error| panic!("{error:#}; kept in {}", folder.display()));
    println!("{}", report.verdict);
    assert!(report.verdict.holds(), "kept in {}:\n{}", folder.display(), report.verdict);
    assert!(folder.join("timeline.svg").is_file() && folder.join("report.md").is_file());
    // Some faults, above all those of the operator, may fail because the cluster is too broken for them.
    let undone: Vec<String> = report.undone().map(ToString::to_string).collect();
    assert!(report.is_conclusive(), "kept in {}: {undone:#?}", folder.display());
    let sends = &report.operations["send"];
    assert!(sends.done > 100, "{sends:?}");
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_broken_in_every_quick_way_keeps_all_its_promises() {
    let Some(_machine) = rooted_machine().await else { return };
    // Long enough for every kind of fault of nodes: kills of one, of the owner, of a majority and of all, SIGSTOP, all
    // kinds of partitions, failpoints, slow connections. The network and an operator take part, too.
    let report = holds(7, Profile::quick().lasting(Duration::from_secs(120))).await;
    // The profile neither damages files nor has a noisy tenant.
    let elsewhere = [Invariant::I11, Invariant::I14];
    let unjudged: Vec<_> = report.verdict.unjudged().filter(|invariant| !elsewhere.contains(invariant)).collect();
    assert!(unjudged.is_empty(), "nothing could have broken {unjudged:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "of test-all: takes three minutes"]
async fn a_cluster_whose_disks_clocks_and_members_go_wrong_keeps_all_its_promises() {
    let Some(_machine) = rooted_machine().await else { return };
    // The kinds that the quick profile lacks, each at least twice: slow, full and failing disks, power cuts of one node
    // and of all, clocks an hour ahead and behind, reboots, logs truncated and with a flipped bit.
    let kinds = [Kind::Clock, Kind::Boot, Kind::Disk, Kind::PowerCut, Kind::Damage, Kind::Join, Kind::Reweigh];
    let report = holds(101, Profile::only(&kinds).lasting(Duration::from_secs(75))).await;
    assert!(report.verdict.unjudged().all(|invariant| invariant != Invariant::I11), "no node was given damaged files");
}
