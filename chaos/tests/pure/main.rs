//! Tests without a cluster of processes: the simulation, and parsers of bytes from outside.

#![allow(clippy::unwrap_used, reason = "tests")]

mod fuzz_corpus;
mod mutations;
mod simulation;
