//! Shards: their state machine, their owners, and the routing of calls to owners on other nodes.
//!
//! - [`cluster`]: the API that the HTTP layer uses. [`call`] and [`history`]: the types of its calls.
//! - [`machine`], [`command`], [`records`], [`keys`]: the replicated state machine of a shard.
//! - `sameness`: detects inbound messages that are repeats.
//! - [`media`]: the bytes of messages and uploads, their rows, and links to them.
//! - [`owner`]: sessions, sends and inbound items at the leader. [`deliveries`] and [`webhook`]: webhooks.
//! - [`projection`]: what the network has reported of groups, chats and the like, readable in every status.
//! - [`stream`]: the event stream of a customer over all its shards.
//! - [`usage`]: a customer's usage, counted by channel and hour.
//! - [`trace`]: OpenTelemetry traces of requests and inbound messages.
//! - [`backup`]: exports the states of all groups of a running cluster, and restores them into a new one.
//! - [`bucket`]: objects in an S3-compatible service.
//! - [`retention`]: how long stored data is kept.
//! - `buckets` and `leases`: token buckets at their coordinators, and the tokens that other nodes hold of them.
//! - [`reads`]: long reads, scheduled fairly over accounts; [`shares`]: permits that accounts share.
//! - [`secrets`]: sealing and opening; [`rewrap`]: the exchange of the master key.
//! - [`layout`], [`membership`], [`router`]: where shards live, and how they are found. [`mod@format`]: the format that
//!   nodes of several releases agree on. [`report`]: the state of each node; [`figures`]: its recent activity;
//!   [`assessment`]: the state of the Raft groups.

mod answer;
pub mod assessment;
pub mod backup;
pub mod bucket;
mod buckets;
pub mod call;
pub mod cluster;
mod coordinator;
pub mod deliveries;
pub mod figures;
pub mod format;
pub mod layout;
mod leases;
pub mod media;
pub mod membership;
mod nodes;
mod owner;
pub mod picture;
pub mod reads;
pub mod report;
pub mod rewrap;
pub mod room;
pub mod router;
pub mod secrets;
pub mod shares;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod stream;
mod telemetry;
pub mod trace;
pub mod webhook;

pub use state::{command, history, machine, projection, records, retention, settings, usage};
use state::{keys, sameness};
