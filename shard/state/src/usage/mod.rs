//! A customer's usage, counted by channel and hour.
//!
//! The shard's state machine counts while it applies commands, by the times in the commands: what was committed once is
//! counted once, whoever led. Rows are stored under their customer, so that those of a deleted channel still count.
//!
//! | counted | when |
//! |---|---|
//! | sent, failed | the network's verdict on a send from here, or the one assumed after it did not answer |
//! | received | a message of another author is stored; its content after an undecryptable one is the same message |
//! | media bytes | the bytes of an accepted or received message are stored here |
//! | delivered | a webhook delivery reaches its endpoint for the first time |
//! | exhausted | a webhook delivery is given up; if it is redelivered manually later, it counts as delivered as well |

mod latencies;
mod row;
mod tally;

pub use crate::keys::Hour;
pub use latencies::Latencies;
pub use row::{Counts, UsageRow};
pub use tally::Tally;
