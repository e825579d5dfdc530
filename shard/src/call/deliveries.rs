//! Requests to an owner about the deliveries of its shard.

use model::id::{CustomerId, DeliveryId, EndpointId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use state::deliveries::command::BulkOperation;
use state::deliveries::query::{DeliveryPage, DeliveryQuery, Figures};
use state::deliveries::view::{DeliveryDetail, DeliveryRecord};

use crate::coordinator::{Report, Ruling};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DeliveryRequest {
    /// A page of deliveries.
    Page { customer: CustomerId, query: DeliveryQuery },
    /// One delivery with its attempts.
    Find { customer: CustomerId, id: DeliveryId },
    /// Makes a delivery due now. `again` when the same call may have done so before.
    Redeliver {
        customer: CustomerId,
        id: DeliveryId,
        #[serde(default)]
        again: bool,
    },
    /// Begins a bulk operation.
    #[serde(rename = "Sweep")]
    BeginBulk(BulkOperation),
    /// Counts and latencies of an endpoint since a time.
    Figures { customer: CustomerId, endpoint: EndpointId, since: Timestamp },
    /// A node's report to the coordinator of an endpoint's customer.
    Report(Report),
    /// Counts a call of a test route, at the customer's coordinator.
    TakeTest { customer: CustomerId },
    /// The waiting deliveries of each endpoint in this shard.
    Waiting,
    /// The number of deliveries that a bulk operation would affect.
    #[serde(rename = "CountSweep")]
    CountBulk(BulkOperation),
}

impl DeliveryRequest {
    /// The account in whose turn the request waits, if it waits for one.
    pub fn account(&self) -> Option<CustomerId> {
        match self {
            Self::Page { customer, .. }
            | Self::Find { customer, .. }
            | Self::Redeliver { customer, .. }
            | Self::Figures { customer, .. }
            | Self::TakeTest { customer } => Some(*customer),
            Self::BeginBulk(bulk) | Self::CountBulk(bulk) => Some(bulk.customer),
            Self::Report(_) | Self::Waiting => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DeliveryResponse {
    Page(DeliveryPage),
    Found(Option<Box<DeliveryDetail>>),
    Redelivered(Redelivered),
    /// The number of deliveries that a bulk operation affects.
    Matched(u64),
    Figures(Figures),
    Ruled(Ruling),
    Test(Tested),
    Waiting(Vec<Waiting>),
}

/// Whether a test of an endpoint is allowed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Tested {
    Counted,
    TooMany { retry_after: u32 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Redelivered {
    Due(Box<DeliveryRecord>),
    /// The delivery is due already.
    DueAlready,
    NotFound,
}

/// The deliveries that wait for one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub endpoint: EndpointId,
    pub count: usize,
    /// Whether there are more than were counted.
    pub or_more: bool,
    /// When the oldest of them was created.
    pub oldest: Timestamp,
    /// When the next attempt is due; may be in the past.
    pub next_due: Timestamp,
    /// The oldest of them. Earlier releases do not report it.
    #[serde(default)]
    pub first: Option<DeliveryId>,
}

impl Waiting {
    /// Adds the deliveries that wait for the same endpoint in another shard.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.or_more |= other.or_more;
        if other.oldest < self.oldest {
            (self.oldest, self.first) = (other.oldest, other.first);
        }
        self.next_due = self.next_due.min(other.next_due);
    }
}
