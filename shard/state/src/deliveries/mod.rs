//! Webhook deliveries as the shard keeps them: what becomes of them, how they are listed and shown.

pub mod bulk;
pub mod command;
pub mod query;
pub mod running;
pub mod view;

use model::address::Address;
use model::id::{DeliveryId, EndpointId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A delivery that is due at some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub endpoint: EndpointId,
    pub delivery: DeliveryId,
    pub due: Timestamp,
    /// Set while the first attempt is still to come: those of one conversation run in order.
    pub chat: Option<Address>,
}
