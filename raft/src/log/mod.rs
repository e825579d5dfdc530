//! The Raft logs and votes of all groups of a node, in one RocksDB under `raft/`.
//!
//! [`store`] implements openraft's log storage for one group; [`cache`] keeps the tail of its log in memory; [`writer`]
//! is the thread that writes for all groups, [`syncs`] times its syncs; [`disk`] holds the database, its keys and
//! reads; [`mark`] keeps the number of the last synced write; [`limits`] says how much log is kept.

pub(crate) mod cache;
pub(crate) mod disk;
pub(crate) mod limits;
pub(crate) mod mark;
pub(crate) mod store;
pub(crate) mod syncs;
pub(crate) mod writer;

#[cfg(test)]
mod tests;
