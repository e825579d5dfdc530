//! A group's state outside of a cluster: exported from a running cluster, and imported into an unused data folder.
//!
//! - [`export`]: the state of one moment, as a byte stream. [`mod@file`]: reading that stream.
//! - [`seed`]: a data folder that starts with such states, for a node that then forms a cluster by itself.

pub mod export;
pub mod file;
pub mod seed;

/// Begin of a stream: names the type and version of the format.
const MAGIC: &[u8; 8] = b"GWGROUP1";

/// Magic, group, term, index.
const HEAD_BYTES: usize = 8 + 2 + 8 + 8;

/// Replaces the lengths of a pair after the last one; the number of pairs and the state's hash follow.
const END: u32 = u32::MAX;

/// The lengths of key and value that precede each pair.
const LENGTHS_BYTES: usize = 4 + 4;

/// Larger lengths are damage: no key or value of any machine comes near these.
const LONGEST_KEY: u32 = 64 << 10;
const LONGEST_VALUE: u32 = 256 << 20;

/// A higher term or index is damage: no log comes near, and a restored group's has to start higher still ([`seed`]).
const HIGHEST: u64 = 1 << 60;
