//! Raft groups on simulated time, disks and wires: one seed is one run, and the same run whenever it is made again.
//!
//! Real are openraft with this gateway's settings, the rules of [`crate::group`] and the machines. Simulated are the clock
//! and the scheduler (`openraft-rt-sim`), the log's disk, the state's disk, and the way between nodes.
//!
//! - [`world`]: the nodes of one run: started, crashed, started again; what they run.
//! - [`group`]: one Raft group on one node, as its users see it.
//! - [`router`]: the way between nodes: loss, delay, doubles, other orders, cuts.
//! - [`clock`], [`chance`]: the time and the dice of the run.
//! - `disk`, `log`, `applier`, `network`: what stands in for the host's files and sockets.

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
