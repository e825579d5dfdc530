//! Fuzz targets: each parses bytes from outside. A panic is a finding.
//!
//! `fuzz/` runs these with `cargo fuzz`; `chaos/tests/pure/fuzz_corpus.rs` runs them over `fuzz/corpus` and mutations
//! of it ([`mutation`]).

pub mod mutation;
mod rows;
mod targets;

pub use targets::TARGETS;

/// A parser of bytes from outside.
pub struct Target {
    /// Its name under `fuzz/fuzz_targets` and `fuzz/corpus`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Valid inputs in the format of this release.
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
