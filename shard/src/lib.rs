//! Shards: the state machine of their channels, the owner's side of it, and the way to owners on other nodes.
//!
//! - [`cluster`]: what the floor above uses. [`call`] and [`history`]: the words of its calls.
//! - [`machine`], [`command`], [`records`], [`keys`]: the replicated state machine of a shard.
//! - `sameness`: when a message that comes in is a repeat.
//! - [`media`]: the bytes of messages and uploads, their rows, links to them.
//! - [`owner`]: sessions, sends and inbound items at the leader. [`deliveries`] and [`webhook`]: webhooks.
//! - [`projection`]: what the network has told of groups, chats and the like, to be read in every status.
//! - [`stream`]: the event stream of a customer over all its shards.
//! - [`usage`]: what a customer uses, counted by channel and hour.
//! - [`trace`]: what a request set going, for OpenTelemetry.
//! - [`backup`]: the states of all groups, read out of a cluster that runs and fitted into a new one.
//! - [`bucket`]: objects in an S3-compatible service.
//! - [`retention`]: how long what is stored is kept.
//! - `buckets` and `leases`: token buckets at their home, and what other nodes hold of them.
//! - [`reads`]: reading many rows in the turns of accounts; [`shares`]: places that accounts share.
//! - [`secrets`]: sealing and opening; [`rewrap`]: the exchange of the master key.
//! - [`layout`], [`membership`], [`router`]: where shards live, and how they are found. [`mod@format`]: what nodes of several
//!   releases agree upon. [`report`]: how each node is; [`figures`]: what it had to do lately;
//!   [`assessment`]: how their groups stand.

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
