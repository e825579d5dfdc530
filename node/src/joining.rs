//! How a node gets into a cluster: `gateway init` makes the first one, `gateway join` lets in every other.
//!
//! - [`init`]: certificates, keys and a configuration for a cluster of one.
//! - [`ask`]: `gateway join`, on the new node. [`service`]: what answers it, on any node of the cluster.
//! - [`audit`]: what the audit log says of it. [`words`]: what the two say to each other. [`place`]: where a node's files lie.

pub mod ask;
pub mod audit;
pub mod init;
pub mod place;
pub mod service;
pub mod words;
