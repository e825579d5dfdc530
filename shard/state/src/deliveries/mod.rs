//! Webhook deliveries as the shard keeps them: what becomes of them, how they are listed and shown.

pub mod command;
pub mod query;
pub mod running;
pub mod view;
