//! What a customer uses, counted by channel and hour.
//!
//! The shard's state machine counts while it applies, from the times in the commands: what was committed once is counted
//! once, whoever led when. Rows stand under their customer, so that those of a deleted channel still count.
//!
//! | counted | when |
//! |---|---|
//! | sent, failed | the network's verdict on a send from here, or what its silence was taken for |
//! | received | a message is stored that others wrote; its text after an undecryptable one is the same message |
//! | media bytes | bytes of a message that was taken or received are kept here |
//! | delivered | a webhook delivery reaches its endpoint for the first time |
//! | exhausted | a webhook delivery is given up; it may be delivered by hand later, and then counts there too |

mod latencies;
mod row;
mod tally;

pub use crate::keys::Hour;
pub use latencies::Latencies;
pub use row::{Counts, UsageRow};
pub use tally::Tally;
