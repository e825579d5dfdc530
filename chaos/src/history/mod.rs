//! The observations of a run from outside: by clients, receivers, streams, the network and the harness.
//!
//! A run's folder holds everything that the checks need, so that a run can be checked again.
//!
//! - [`record`]: one observation, with its time.
//! - [`recorder`]: writes the records of many tasks during the run.
//! - [`collected`]: the whole run, as the folder holds it.

pub mod collected;
pub mod record;
pub mod recorder;

pub use collected::{Collected, Delivery, Evidence, InboxRow, LedgerRow, Liveness, Login, Look, Meta, Replica, Stats};
pub use record::{
    Answer, At, Call, Damage, Ended, Fault, FaultKind, Frame, LeaderSeen, Op, Outcome, Progress, Record, Request, Size,
    Stage,
};
pub use recorder::Recorder;
