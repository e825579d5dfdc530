//! The usage that one log entry counts: collected while the entry is applied, and written once for each channel and
//! hour, so that many sends of a channel in one entry cost one row.

use std::collections::BTreeMap;

use machine::State;
use model::id::{ChannelId, CustomerId};
use model::time::Timestamp;

use super::{Hour, UsageRow};
use crate::keys;
use crate::records::{decode, encode};

#[derive(Default)]
pub struct Tally {
    rows: BTreeMap<(CustomerId, Hour, ChannelId), UsageRow>,
    retrying: BTreeMap<(CustomerId, ChannelId), i64>,
}

impl Tally {
    /// The additional usage of a channel in the hour of `at`.
    pub fn of(&mut self, customer: CustomerId, channel: ChannelId, at: Timestamp) -> &mut UsageRow {
        self.rows.entry((customer, Hour::of(at), channel)).or_default()
    }

    /// Adds to the number of a channel's deliveries that wait for another attempt; `more` may be negative.
    pub fn retrying(&mut self, customer: CustomerId, channel: ChannelId, more: i64) {
        *self.retrying.entry((customer, channel)).or_default() += more;
    }

    pub fn write(self, state: &mut dyn State) {
        for ((customer, hour, channel), more) in self.rows {
            let key = keys::usage(customer, hour, channel);
            let mut row: UsageRow = state.get(&key).map(|row| decode(&row)).unwrap_or_default();
            row.add(&more);
            state.put(&key, &encode(&row));
        }
        for ((customer, channel), more) in self.retrying {
            let key = keys::retrying(customer, channel);
            let before: i64 = state.get(&key).map_or(0, |count| decode(&count));
            match before + more {
                0 => state.delete(&key),
                count => state.put(&key, &encode(&count)),
            }
        }
    }
}
