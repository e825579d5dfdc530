//! The harness of the end-to-end tests: a cluster of real processes, driven from outside as a customer would.
//!
//! - [`cluster`]: `gateway dev` with its own ports and folder; kills, pauses and restarts its nodes.
//! - [`grown`]: a cluster made by `gateway init` and `gateway join`, node by node.
//! - [`load`]: sends that continue while something happens to the cluster.
//! - [`http`]: requests and responses, with the assertions that every test needs.
//! - [`network`]: which network the tests run on.
//! - [`simulator`]: the control port of the simulated network: phones, ledger, faults.
//! - [`tenant`]: the customer of a test, its keys and its paired channels.
//! - [`scene`]: a channel, a phone and a receiver, for tests of network features other than messages.
//! - [`receiver`]: a webhook receiver that can be told to fail; [`signature`] verifies its requests.
//! - [`sources`]: the sources of the tests, for tables that name them.
//! - [`stream`]: a client of the event stream.
//! - [`media`]: uploads and links. [`member`]: members of an account and their sessions.
//! - [`haproxy`]: a load balancer in front of a cluster.
//! - [`wait`]: conditions with a deadline, in place of sleeps.
//! - [`previous`]: the previous release, for clusters of both.
//! - [`binary`]: the path of the program, and how to run one of its commands.
//! - [`room`]: how many nodes a machine runs at once, and their ports.
//!
//! Everything here panics with a message on failure: it is test code, whichever crate calls it.

#![allow(clippy::disallowed_methods, reason = "it stands outside of the product, and looks at real clocks")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "a harness of tests")]

pub mod binary;
pub mod cluster;
pub mod documents;
pub mod grown;
pub mod haproxy;
pub mod http;
pub mod issuer;
pub mod load;
pub mod mailbox;
pub mod media;
pub mod member;
pub mod network;
pub mod previous;
pub mod receiver;
pub mod room;
pub mod scene;
pub mod signature;
pub mod simulator;
pub mod sources;
pub mod stream;
pub mod tenant;
pub mod wait;
