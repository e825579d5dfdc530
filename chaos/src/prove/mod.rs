//! The proof that the checks work: bugs of the product are put back on purpose, and the check of the invariant that a
//! bug breaks must find it within a stated number of runs. Without the bug the same runs hold.
//!
//! - [`proofs`]: the bugs, the invariants that they break, and the faults that make them show.
//! - [`harm`]: these faults.
//! - [`run`]: one run with or without a bug.
//! - [`table`]: `gateway-chaos prove`.

pub mod harm;
pub mod proofs;
pub mod run;
pub mod table;

pub use harm::Harm;
pub use proofs::{PROOFS, Proof};
pub use run::{Ground, Outcome};
