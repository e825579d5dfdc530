//! The commands about deliveries that an owner proposes.

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
    /// The result of an attempt.
    Attempted {
        endpoint: EndpointId,
        delivery: DeliveryId,
        /// When the delivery was due as the attempt began. If the due time differs now, the delivery was purged or
        /// redelivered in between, and the attempt is recorded without changing that.
        due: Timestamp,
        attempt: Option<AttemptRow>,
        next: Next,
        /// Whether its beginning was recorded.
        noted: bool,
    },
    /// Attempts that an earlier owner began and did not end; their deliveries are due at once.
    Interrupted { deliveries: Vec<(EndpointId, DeliveryId)>, at: Timestamp },
    /// Makes paused deliveries due again, spread over a minute. The owner names a few at a time.
    Unpause { endpoint: EndpointId, deliveries: Vec<DeliveryId>, at: Timestamp },
    /// Makes a delivery due by manual request.
    Redeliver { endpoint: EndpointId, delivery: DeliveryId, at: Timestamp },
    /// Begins a bulk operation. A known one is not changed.
    #[serde(rename = "BeginSweep")]
    BeginBulk(BulkOperation),
    /// A step of a bulk operation: the deliveries that the owner found, and the progress.
    #[serde(rename = "SweepStep")]
    BulkStep { id: Uuid, deliveries: Vec<DeliveryId>, at: Timestamp, progress: Progress },
}

/// The state of a delivery after an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    Delivered,
    Retry(Timestamp),
    Exhausted,
    /// The endpoint is disabled; the time is when the wait ends for good.
    Paused(Timestamp),
    /// A manually requested attempt failed: the delivery continues as it would have without it.
    AsBefore,
}

/// A bulk operation on the deliveries of one endpoint in one shard, done in steps and continued by the next owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkOperation {
    pub id: Uuid,
    pub customer: CustomerId,
    pub endpoint: EndpointId,
    pub work: BulkAction,
    /// Only deliveries in one of these states.
    pub states: Vec<DeliveryState>,
    /// Only deliveries that were created before this time.
    pub until: Timestamp,
    /// The last key that was examined.
    pub reached: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkAction {
    /// Makes deliveries due by manual request, for `recover`: those of these events, or of every event if empty.
    Recover { since: Timestamp, events: Vec<EventName> },
    /// Ends deliveries without another attempt.
    Purge,
}

/// The progress of a bulk operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    Reached(Bytes),
    Finished,
}
