//! What is asked of an owner about what a customer has used in its shard.

use std::collections::BTreeMap;

use model::id::{ChannelId, CustomerId};
use model::time::Day;
use serde::{Deserialize, Serialize};

use crate::usage::{Counts, Hour, UsageRow};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum UsageRequest {
    /// The days of `[from, to)`, each as a whole or by channel; those without use are left out.
    Days { customer: CustomerId, from: Day, to: Day, by_channel: bool, most: usize },
    /// All hours from `since` on together, and what waits now; of one channel, or of all of the customer's.
    Figures { customer: CustomerId, since: Hour, only: Option<ChannelId>, channels: Vec<ChannelId> },
    /// Bytes of media that are kept now, as far as they count towards the quota. Asked in a cluster whose format knows it.
    MediaKept { customer: CustomerId },
    /// The hours of `[from, to)`, each as a whole; those without use are left out.
    Hours { customer: CustomerId, from: Hour, to: Hour },
}

impl UsageRequest {
    /// Whose it is, where it waits for the turn of its account.
    pub fn account(&self) -> Option<CustomerId> {
        match self {
            // One row, which sends wait for: those that read months must not hold it up.
            Self::MediaKept { .. } => None,
            Self::Days { customer, .. } | Self::Figures { customer, .. } | Self::Hours { customer, .. } => {
                Some(*customer)
            }
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum UsageResponse {
    Days(Vec<DayUsage>),
    /// There are more rows than were asked for at most.
    TooMany,
    Figures(Box<AccountFigures>),
    MediaKept(u64),
    Hours(Vec<(Hour, Counts)>),
}

/// A day, of one channel or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayUsage {
    pub day: Day,
    pub channel: Option<ChannelId>,
    pub counts: Counts,
}

impl DayUsage {
    /// All of them; `None` when there are more than `most`.
    pub(crate) fn at_most(most: usize, days: BTreeMap<(Day, Option<ChannelId>), Counts>) -> Option<Vec<Self>> {
        let of_day = |((day, channel), counts)| Self { day, channel, counts };
        (days.len() <= most).then(|| days.into_iter().map(of_day).collect())
    }
}

/// A window of time, and what waits at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountFigures {
    pub used: UsageRow,
    /// Sends that the network has not taken yet.
    pub queued: u64,
    /// Webhook deliveries that wait for another attempt.
    pub retrying: u64,
}

impl AccountFigures {
    pub fn add(&mut self, other: &Self) {
        self.used.add(&other.used);
        self.queued += other.queued;
        self.retrying += other.retrying;
    }
}
