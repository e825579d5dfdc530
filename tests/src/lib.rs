//! The harness of the end-to-end tests: a real cluster of real processes, driven from outside as a customer would.
//!
//! - [`cluster`]: `gateway dev` on free ports and a folder of its own, its nodes killed, paused and started again.
//! - [`grown`]: a cluster made by `gateway init` and `gateway join`, node by node.
//! - [`load`]: sends that go on while something is done to the cluster.
//! - [`http`]: requests and answers, with the assertions that every test needs.
//! - [`network`]: which network that is.
//! - [`simulator`]: the messaging network's control port: phones, ledger, faults.
//! - [`tenant`]: a customer of one test, its keys and its paired channels.
//! - [`scene`]: a channel, a phone and a receiver, for tests of what the network does beside messages.
//! - [`receiver`]: a webhook receiver that can be told to fail; [`signature`] checks what it was sent.
//! - [`sources`]: what the tests themselves say, for tables that name them.
//! - [`stream`]: a client of the event stream.
//! - [`media`]: uploads and links. [`member`]: members of an account and their sessions.
//! - [`haproxy`]: a balancer before a cluster.
//! - [`wait`]: conditions with a deadline, in place of sleeps.
//! - [`previous`]: the previous release, for clusters of both.
//! - [`binary`]: where the program is, and how to run one of its commands to its end.
//! - [`room`]: how many nodes one machine runs at once, and on which ports.
//!
//! Everything here panics with a message when it fails: it is test code, whichever crate calls it.

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
