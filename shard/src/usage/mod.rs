//! What a customer has used, asked of all shards; crate [`state`] counts it.

mod ask;

pub use ask::{AccountFigures, DayUsage, UsageAsk, UsageDone, answer};
pub use state::usage::*;
