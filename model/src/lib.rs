//! The domain model: identifiers, addresses, the channel's status machine, messages, events and error codes.
//!
//! Pure types and functions without I/O or knowledge of Raft, storage or HTTP. Only [`clock`] and [`time`] read clocks.

pub mod address;
pub mod api_key;
pub mod blacklist;
pub mod business;
pub mod call;
pub mod chat;
pub mod clock;
pub mod community;
pub mod contact;
pub mod customer;
pub mod digest;
pub mod error;
pub mod event;
pub mod field;
pub mod format;
pub mod group;
pub mod id;
pub mod issue;
pub mod join_token;
mod kept;
pub mod label;
pub mod limit;
pub mod media;
pub mod member;
pub mod message;
pub mod msgpack;
pub mod newsletter;
pub mod page;
pub mod payload;
pub mod presence;
pub mod privacy;
pub mod profile;
mod received;
pub mod scope;
pub mod seal;
pub mod send;
pub mod session_token;
pub mod settings;
pub mod standstill;
pub mod status;
pub mod stream_ticket;
pub mod target;
pub mod ticket;
pub mod time;
pub mod webhook;
mod words;

pub use message::story;
