//! Requests to an owner about a customer's usage in its shard.

use std::collections::BTreeMap;

use model::id::{ChannelId, CustomerId};
use model::time::Day;
use serde::{Deserialize, Serialize};

use crate::usage::{Counts, Hour, UsageRow};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum UsageRequest {
    /// The days of `[from, to)`, each in total or by channel. Days without usage are omitted.
    Days { customer: CustomerId, from: Day, to: Day, by_channel: bool, most: usize },
    /// The usage from `since` on in total, and the waiting sends and deliveries; of channel `only`, or of all channels.
    Figures { customer: CustomerId, since: Hour, only: Option<ChannelId>, channels: Vec<ChannelId> },
    /// Bytes of stored media that count towards the quota. Sent only in a cluster whose format supports it.
    MediaKept { customer: CustomerId },
    /// The hours of `[from, to)`, each in total. Hours without usage are omitted.
    Hours { customer: CustomerId, from: Hour, to: Hour },
}

impl UsageRequest {
    /// The account in whose turn the request waits, if it waits for one.
    pub fn account(&self) -> Option<CustomerId> {
        match self {
            // This reads one row, and sends wait for it: reads over months must not delay it.
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
    /// There are more rows than the requested maximum.
    TooMany,
    Figures(Box<AccountFigures>),
    MediaKept(u64),
    Hours(Vec<(Hour, Counts)>),
}

/// The usage of a day, of one channel or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayUsage {
    pub day: Day,
    pub channel: Option<ChannelId>,
    pub counts: Counts,
}

impl DayUsage {
    /// The usage of all days; `None` when there are more than `most`.
    pub(crate) fn at_most(most: usize, days: BTreeMap<(Day, Option<ChannelId>), Counts>) -> Option<Vec<Self>> {
        let of_day = |((day, channel), counts)| Self { day, channel, counts };
        (days.len() <= most).then(|| days.into_iter().map(of_day).collect())
    }
}

/// The usage of a period, and what is waiting at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountFigures {
    pub used: UsageRow,
    /// Sends that the network has not accepted yet.
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
