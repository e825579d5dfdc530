//! The event streams of customers at the owner of a shard: [`relay`] is the side of the shard that has events,
//! [`gather`] that of the customer's home, and [`serve`] answers streams there.

pub mod gather;
pub mod relay;
pub mod serve;
