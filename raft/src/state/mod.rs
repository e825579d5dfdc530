//! The state of all groups of a node, in one RocksDB under `data/`.
//!
//! [`disk`] holds the database and its keys; [`overlay`] is the state that a machine sees while it applies a batch,
//! with `recent` as its cache; [`reader`] is what everything else reads; [`applier`] is openraft's state machine around
//! a [`crate::machine`]; [`snapshot`] sends a group's state to a peer that is too far behind for the log, and installs
//! a received one.

pub(crate) mod applier;
pub(crate) mod cut;
pub(crate) mod disk;
pub(crate) mod meter;
pub(crate) mod overlay;
pub(crate) mod reader;
mod recent;
pub(crate) mod snapshot;
