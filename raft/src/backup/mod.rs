//! A group's state outside of a cluster: read out of one that runs, and put into a data folder that no node has used.
//!
//! - [`export`]: the state of one moment, as a stream of bytes. [`file`]: reading that stream again.
//! - [`seed`]: a data folder that begins with such states, for a node that then is a cluster by itself.

pub mod export;
pub mod file;
pub mod seed;

/// How a stream begins: what it is, and in which format.
const MAGIC: &[u8; 8] = b"GWGROUP1";

/// Magic, group, term, index.
const HEAD_BYTES: usize = 8 + 2 + 8 + 8;

/// Stands for the lengths of a pair behind the last one; the count of pairs and the state's hash follow.
const END: u32 = u32::MAX;

/// A pair, in front of its key and value: the length of each.
const LENGTHS_BYTES: usize = 4 + 4;

/// More is damage: no key or value of any machine comes near.
const LONGEST_KEY: u32 = 64 << 10;
const LONGEST_VALUE: u32 = 256 << 20;

/// A higher term or index is damage: no log comes near, and that of a restored group begins higher still ([`seed`]).
const HIGHEST: u64 = 1 << 60;
