//! What was seen of a run from outside: by clients, receivers, streams, the network and the harness.
//!
//! A run's folder holds all that a judge needs, so that a run can be judged again.
//!
//! - [`record`]: one thing that happened, with its time.
//! - [`recorder`]: where many tasks write records while they go on.
//! - [`collected`]: the whole of a run, as the folder holds it.

pub mod collected;
pub mod record;
pub mod recorder;

pub use collected::{Collected, Delivery, Evidence, InboxRow, LedgerRow, Liveness, Login, Look, Meta, Replica, Stats};
pub use record::{
    Answer, At, Call, Damage, Ended, Fault, FaultKind, Frame, LeaderSeen, Op, Outcome, Progress, Record, Request, Size,
    Stage,
};
pub use recorder::Recorder;
