//! What needs no cluster of processes: the simulation of one, and readers of foreign bytes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod fuzz_corpus;
mod mutations;
mod simulation;
