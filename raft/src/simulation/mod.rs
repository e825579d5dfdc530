//! Raft groups on simulated time, disks and network: a seed determines a run, which is the same each time.
//!
//! openraft with this gateway's settings, the rules of [`crate::group`] and the machines are real. The clock and the
//! scheduler (`openraft-rt-sim`), the disks of log and state, and the network are simulated.
//!
//! - [`world`]: the nodes of a run: starts, crashes and restarts them.
//! - [`group`]: handle of one Raft group on one node.
//! - [`router`]: the network: loss, delay, duplication, reordering, cuts.
//! - [`clock`], [`chance`]: time and random numbers of the run.
//! - `disk`, `log`, `applier`, `network`: replace the host's files and sockets.

mod applier;
pub mod chance;
pub mod clock;
mod disk;
pub mod group;
mod log;
mod network;
pub mod router;
mod state;
mod types;
pub mod world;

pub use self::chance::Chance;
pub use self::group::SimulatedGroup;
pub use self::router::{Life, Router, Unanswered, Weather};
pub use self::world::{Crash, Flaw, Observer, World, WorldConfig};
