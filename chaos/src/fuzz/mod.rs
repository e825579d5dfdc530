//! What is fuzzed: each target reads bytes that come from elsewhere. A panic is a finding.
//!
//! `fuzz/` runs these with `cargo fuzz`; `chaos/tests/fuzz_corpus.rs` runs them over `fuzz/corpus` and what
//! [`mutation`] makes of it.

pub mod mutation;
mod rows;
mod targets;

pub use targets::TARGETS;

/// One reader of foreign bytes.
pub struct Target {
    /// Its name under `fuzz/fuzz_targets` and `fuzz/corpus`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// What it is meant to read, in the form of this release.
    pub examples: fn() -> Vec<Vec<u8>>,
}

/// Runs one target; for `fuzz/fuzz_targets`.
///
/// # Panics
/// When there is no such target, or the input is a finding.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the name of a target");
    (target.run)(bytes);
}
