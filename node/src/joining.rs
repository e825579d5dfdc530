//! How a node joins a cluster: `gateway init` creates the first one, `gateway join` adds the others.
//!
//! - [`init`]: certificates, keys and a configuration for a cluster of one node.
//! - [`ask`]: `gateway join`, on the new node. [`service`]: its counterpart, on any node of the cluster.
//! - [`audit`]: entries of the audit log. [`words`]: messages between the two. [`place`]: where a node's files are.

pub mod ask;
pub mod audit;
pub mod init;
pub mod place;
pub mod service;
pub mod words;
