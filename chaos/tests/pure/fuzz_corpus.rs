//! The fuzz targets as ordinary tests: over the corpus, over valid inputs of this release, and over some thousand
//! mutations of both. `cargo fuzz` runs the same targets for longer: see `fuzz/README.md`.
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use chaos::fuzz::mutation::mutated;
use chaos::fuzz::{TARGETS, Target};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use raft::transport::STACK_BYTES;
use tests::sources::checkout;

/// Mutated inputs of each target. The seed is fixed, so that a finding in CI can be reproduced.
const INPUTS: u32 = 3000;
const SEED: [u8; 32] = *b"the gateway's readers are fuzzed";

fn folder(name: &str) -> PathBuf {
    checkout().join("fuzz").join(name)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Valid inputs of the target, and its corpus, which includes former findings.
fn good_inputs(target: &Target) -> Vec<Vec<u8>> {
    let corpus = folder("corpus").join(target.name);
    let seeds = fs::read_dir(&corpus).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    (target.examples)().into_iter().chain(seeds).collect()
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names(&folder("fuzz_targets")), targets);
    assert_eq!(names(&folder("corpus")), targets);
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is not in fuzz/Cargo.toml", target.name);
    }
}

/// Runs `work` with the stack size of the threads that parse in production.
fn as_readers_do(work: fn()) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap();
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn nothing_in_the_corpus_is_a_finding() {
    as_readers_do(|| {
        for target in TARGETS {
            good_inputs(target).iter().for_each(|input| (target.run)(input));
        }
    });
}

#[test]
fn what_is_made_of_good_inputs_is_read_or_refused() {
    as_readers_do(mutations_are_read_or_refused);
}

fn mutations_are_read_or_refused() {
    for target in TARGETS {
        // Set `FUZZ_INPUTS` to try more of them.
        let cases = std::env::var("FUZZ_INPUTS").map_or(INPUTS, |inputs| inputs.parse().unwrap());
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
        let tried = runner.run(&mutated(good_inputs(target)), |input| {
            let read = std::panic::catch_unwind(|| (target.run)(&input));
            read.map_err(|_| TestCaseError::fail("a finding: see the panic above"))
        });
        tried.unwrap_or_else(|found| panic!("{}: {found}; mend it and keep the input in fuzz/corpus", target.name));
    }
}
