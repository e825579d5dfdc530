//! What is asked of an owner about its shard's deliveries.

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
    /// What a node tells the home of an endpoint's customer.
    Report(Report),
    /// Counts a call of a test route, at the customer's home.
    TakeTest { customer: CustomerId },
    /// What waits for each endpoint in this shard.
    Waiting,
    /// How many deliveries a bulk operation would be about.
    #[serde(rename = "CountSweep")]
    CountBulk(BulkOperation),
}

impl DeliveryRequest {
    /// Whose it is, where it waits for the turn of its account.
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
    /// How many deliveries a bulk operation is about.
    Matched(u64),
    Figures(Figures),
    Ruled(Ruling),
    Test(Tested),
    Waiting(Vec<Waiting>),
}

/// Whether an endpoint may be tested once more.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Tested {
    Counted,
    TooMany { retry_after: u32 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Redelivered {
    Due(Box<DeliveryRecord>),
    /// The delivery is to be attempted at once anyway.
    DueAlready,
    NotFound,
}

/// The deliveries that wait for one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub endpoint: EndpointId,
    pub count: usize,
    /// There are more than were counted.
    pub or_more: bool,
    /// When the oldest of them was made.
    pub oldest: Timestamp,
    /// When the next attempt is due, be it in the past.
    pub next_due: Timestamp,
    /// The oldest of them. Earlier releases do not say.
    #[serde(default)]
    pub first: Option<DeliveryId>,
}

impl Waiting {
    /// Adds what waits for the same endpoint in another shard.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.or_more |= other.or_more;
        if other.oldest < self.oldest {
            (self.oldest, self.first) = (other.oldest, other.first);
        }
        self.next_due = self.next_due.min(other.next_due);
    }
}
