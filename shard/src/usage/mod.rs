//! What a customer has used, asked of all shards; crate [`state`] counts it.

mod ask;
mod reach;

pub use ask::{AccountFigures, DayUsage, UsageAsk, UsageDone, answer};
pub use reach::MediaRoom;
pub use state::usage::*;
