//! Faults of the product, put back on purpose: each is found by the judge of the invariant that it breaks, and without it
//! the same run holds. `gateway-chaos prove` does it with many seeds.

use std::collections::BTreeSet;

use chaos::prove::{Ground, Harm, Outcome, PROOFS};

const SEED: u64 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "has not come to its end yet: wants root, and several minutes of a machine without other work"]
async fn each_fault_put_back_is_found_and_without_it_the_same_run_holds() {
    let mut ground = Ground::prepare().await;
    let mut missed = Vec::new();
    let harms: BTreeSet<Harm> = PROOFS.iter().map(|proof| proof.harm).collect();
    for harm in harms {
        ground = ground.ready_for(harm).await.expect("the cluster can be made ready");
        let verdict = ground.run(harm, None, SEED).await.expect("the run comes to its end");
        assert!(verdict.holds(), "{harm:?}, and no fault of the product:\n{verdict}");
        println!("{harm:?}: holds");
        for proof in PROOFS.iter().filter(|proof| proof.harm == harm) {
            match ground.prove(proof, SEED).await.expect("the run comes to its end") {
                Outcome::Found(runs) => println!("{:<30} found by {} in run {runs}", proof.bug.name(), proof.invariant),
                Outcome::Missed(verdict) => missed.push(format!("{proof:?}\n{verdict}")),
            }
        }
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}
