//! Bugs of the product that are put back on purpose: each is found by the check of the invariant that it breaks, and
//! without it the same run holds. `gateway-chaos prove` runs many seeds, and the bugs that are missing here. Takes some
//! five minutes, needs root and `/dev/fuse`.

use chaos::mutation::Bug;
use chaos::prove::{Ground, Harm, Outcome, PROOFS, Proof};

use crate::rooted_machine;

const SEED: u64 = 100;

/// The bugs of each run. Bugs that share a run do not break each other's invariants.
const RUNS: &[&[Bug]] = &[
    &[Bug::IgnoreFence],
    &[Bug::ServeStaleKey],
    &[Bug::AnswerBeforeCommit, Bug::AcknowledgeBeforeCommit],
    &[Bug::ResendUnderNewId, Bug::DoubleBucket],
    &[Bug::ForgetDeliveries],
    &[Bug::SkipFsync],
    &[Bug::ForgetSnapshotTail],
];

fn proof(bug: &Bug) -> &'static Proof {
    PROOFS.iter().find(|proof| proof.bug == *bug).expect("every fault has a proof")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "of test-all: wants the gateway of chaos/mutations/build.sh in GATEWAY_BIN; takes six minutes"]
async fn each_fault_put_back_is_found_and_without_it_the_same_run_holds() {
    let Some(_machine) = rooted_machine().await else { return };
    let mut ground = Ground::prepare().await;
    let mut missed = Vec::new();
    let mut last: Option<Harm> = None;
    for bugs in RUNS {
        let proofs: Vec<&Proof> = bugs.iter().map(proof).collect();
        let harm = proofs[0].harm;
        assert!(proofs.iter().all(|proof| proof.harm == harm), "{bugs:?} want one harm");
        if last.replace(harm) != Some(harm) {
            ground = ground.ready_for(harm).await.expect("the cluster can be made ready");
            let verdict = ground.run(harm, &[], SEED).await.expect("the run comes to its end");
            assert!(verdict.holds(), "{harm:?}, and no fault of the product:\n{verdict}");
            println!("{harm:?}: holds");
        }
        match ground.prove(&proofs, SEED).await.expect("the run comes to its end") {
            Outcome::Found(runs) => println!("{bugs:?}: found by run {runs}"),
            Outcome::Missed { missing, last } => missed.push(format!("{bugs:?} did not break {missing:?}\n{last}")),
        }
    }
    // Dropped first: a failing test prints its nodes' logs, and the list of missed bugs should come last.
    drop(ground);
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}
