//! Webhook deliveries as stored in a shard: their commands, lists and views.

pub mod bulk;
pub mod command;
pub mod query;
pub mod running;
pub mod view;

use model::address::Address;
use model::id::{DeliveryId, EndpointId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A delivery that is due at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub endpoint: EndpointId,
    pub delivery: DeliveryId,
    pub due: Timestamp,
    /// Set until the first attempt: first attempts within one conversation run in order.
    pub chat: Option<Address>,
}
