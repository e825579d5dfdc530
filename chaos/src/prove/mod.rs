//! The proof that judges find what they are for: faults of the product are put back on purpose, and each has to be found
//! by the judge of the invariant that it breaks, within a stated number of runs. Without it the same run holds.
//!
//! - [`proofs`]: which fault, found by whom, shown by what.
//! - [`harm`]: what is done to the cluster so that it shows.
//! - [`run`]: one run with a fault or without.
//! - [`table`]: `gateway-chaos prove`.

pub mod harm;
pub mod proofs;
pub mod run;
pub mod table;

pub use harm::Harm;
pub use proofs::{PROOFS, Proof};
pub use run::{Ground, Outcome};
