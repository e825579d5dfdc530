//! The event streams of customers, as the owner of a shard serves them: [`relay`] is the side of the shard that has events,
//! [`gather`] that of the customer's home, which [`serve`]s them.

pub mod gather;
pub mod relay;
pub mod serve;
