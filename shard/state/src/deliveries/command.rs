//! What an owner asks of its shard's state machine about deliveries.

use bytes::Bytes;
use model::event::EventName;
use model::id::{CustomerId, DeliveryId, EndpointId};
use model::time::Timestamp;
use model::webhook::DeliveryState;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::records::{AttemptRow, BegunAttempt};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DeliveryCommand {
    /// An attempt takes long: if its owner dies, the next one records it as interrupted.
    Begun { endpoint: EndpointId, delivery: DeliveryId, attempt: BegunAttempt },
    /// An attempt, and what follows from it.
    Attempted {
        endpoint: EndpointId,
        delivery: DeliveryId,
        /// When the delivery was due as the attempt began. Where it is another time now, the delivery was purged or
        /// made due anew meanwhile, and the attempt is recorded without changing that.
        due: Timestamp,
        attempt: Option<AttemptRow>,
        next: Next,
        /// Its beginning was noted.
        noted: bool,
    },
    /// Attempts that an earlier owner noted and did not end; their deliveries are due at once.
    Interrupted { deliveries: Vec<(EndpointId, DeliveryId)>, at: Timestamp },
    /// Makes deliveries due again that are paused, spread over a minute. The owner names a few at a time.
    Unpause { endpoint: EndpointId, deliveries: Vec<DeliveryId>, at: Timestamp },
    /// Makes a delivery due by hand.
    Redeliver { endpoint: EndpointId, delivery: DeliveryId, at: Timestamp },
    /// Begins work on many deliveries. One that is known already is left as it is.
    #[serde(rename = "BeginSweep")]
    BeginBulk(BulkOperation),
    /// A step of it: the deliveries that the owner found, and how far it has come.
    #[serde(rename = "SweepStep")]
    BulkStep { id: Uuid, deliveries: Vec<DeliveryId>, at: Timestamp, progress: Progress },
}

/// What becomes of a delivery after an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    Delivered,
    Retry(Timestamp),
    Exhausted,
    /// The endpoint is switched off; the time is when waiting ends for good.
    Paused(Timestamp),
    /// An attempt by hand failed: the delivery goes on as it would have without it.
    AsBefore,
}

/// Work on the deliveries of one endpoint in one shard, done in steps and gone on with by the next owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkOperation {
    pub id: Uuid,
    pub customer: CustomerId,
    pub endpoint: EndpointId,
    pub work: BulkAction,
    /// In one of these states.
    pub states: Vec<DeliveryState>,
    /// Made before this.
    pub until: Timestamp,
    /// The last key that was looked at.
    pub reached: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkAction {
    /// Makes them due by hand, for `recover`: those of one of these events; empty is every event.
    Recover { since: Timestamp, events: Vec<EventName> },
    /// Ends them without another attempt.
    Purge,
}

/// How far a bulk operation has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    Reached(Bytes),
    Finished,
}
