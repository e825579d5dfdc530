//! The Raft logs and votes of all groups of a node, in one RocksDB under `raft/`.
//!
//! [`store`] is what openraft sees of one group's log; [`cache`] keeps its tail in memory; [`writer`] is the one thread
//! that writes for all groups, and [`syncs`] knows how long that takes; [`disk`] holds the database, its keys and what is
//! read from it; [`mark`] notes how far it was synced; [`limits`] says how much of it stays.

pub(crate) mod cache;
pub(crate) mod disk;
pub(crate) mod limits;
pub(crate) mod mark;
pub(crate) mod store;
pub(crate) mod syncs;
pub(crate) mod writer;

#[cfg(test)]
mod tests;
