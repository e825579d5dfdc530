//! An owner's answers about a customer's usage in its shard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use model::error::CallError;
use model::id::{ChannelId, CustomerId};
use model::time::Day;
use raft::machine::{View, scan_all};

use crate::call::usage::{AccountFigures, DayUsage, UsageRequest, UsageResponse};
use crate::keys;
use crate::media;
use crate::owner::Owner;
use crate::records::decode;
use crate::usage::{Counts, Hour, UsageRow};

/// Rows that are read from disk at a time.
const CHUNK: usize = 512;

/// Answers a usage request at the owner.
///
/// # Errors
/// `worker_at_capacity` when the read takes too long.
pub async fn answer(owner: &Arc<Owner>, request: UsageRequest, deadline: Instant) -> Result<UsageResponse, CallError> {
    let customer = request.account();
    let reader = owner.reader.clone();
    // Months of usage of many channels are many rows; reading them must not delay the calls of others.
    owner.node.reads.read(customer, deadline, move |patience| read(&patience.over(reader), request)).await
}

fn read(view: &dyn View, request: UsageRequest) -> UsageResponse {
    match request {
        UsageRequest::Days { customer, from, to, by_channel, most } => {
            let hours = (Hour::first_of(from), Hour::first_of(to));
            days(view, customer, hours, by_channel, most).map_or(UsageResponse::TooMany, UsageResponse::Days)
        }
        UsageRequest::Figures { customer, since, only, channels } => {
            let mut figures = AccountFigures::default();
            each(view, customer, (since, Hour(u32::MAX)), |_, channel, row| {
                if only.is_none_or(|only| only == channel) {
                    figures.used.add(&row);
                }
                true
            });
            figures.queued = channels.iter().map(|channel| queued(view, *channel)).sum();
            figures.retrying = retrying(view, customer, only);
            UsageResponse::Figures(Box::new(figures))
        }
        UsageRequest::Hours { customer, from, to } => {
            let mut hours: BTreeMap<Hour, Counts> = BTreeMap::new();
            each(view, customer, (from, to), |hour, _, row| {
                hours.entry(hour).or_default().add(&row.counts);
                true
            });
            UsageResponse::Hours(hours.into_iter().collect())
        }
        UsageRequest::MediaKept { customer } => UsageResponse::MediaKept(media::apply::kept_bytes(view, customer)),
    }
}

/// `None` when there are more than `most` rows.
fn days(
    view: &dyn View,
    customer: CustomerId,
    hours: (Hour, Hour),
    by_channel: bool,
    most: usize,
) -> Option<Vec<DayUsage>> {
    let mut days: BTreeMap<(Day, Option<ChannelId>), Counts> = BTreeMap::new();
    each(view, customer, hours, |hour, channel, row| {
        days.entry((hour.day(), by_channel.then_some(channel))).or_default().add(&row.counts);
        days.len() <= most
    });
    DayUsage::at_most(most, days)
}

/// Visits all rows of a customer in `[from, to)`, until `with` returns false.
fn each(
    view: &dyn View,
    customer: CustomerId,
    (from, to): (Hour, Hour),
    mut with: impl FnMut(Hour, ChannelId, UsageRow) -> bool,
) {
    for (key, row) in scan_all(view, keys::usage_of(customer, from, to), CHUNK) {
        let Some((_, hour, channel)) = keys::parse_usage(&key) else { continue };
        if !with(hour, channel, decode(&row)) {
            return;
        }
    }
}

fn queued(view: &dyn View, channel: ChannelId) -> u64 {
    let (from, to) = keys::outbox_of(channel);
    // The scan is bounded: an owner queues at most `OFFLINE_QUEUE` sends of a channel.
    view.scan(&from, &to, usize::MAX).len() as u64
}

fn retrying(view: &dyn View, customer: CustomerId, only: Option<ChannelId>) -> u64 {
    let count = |count: &[u8]| u64::try_from(decode::<i64>(count)).unwrap_or(0);
    match only {
        Some(channel) => view.get(&keys::retrying(customer, channel)).map_or(0, |row| count(&row)),
        None => view.scan_range(keys::retrying_of(customer), usize::MAX).iter().map(|(_, row)| count(row)).sum(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::time::Timestamp;
    use raft::machine::MemoryState;

    use super::*;
    use crate::usage::Tally;

    const NOON: Timestamp = Timestamp(1_767_268_800_000);
    const DAY_MILLIS: i64 = 86_400_000;

    /// Two channels that send one message a day each, and one of another customer.
    fn used(days: i64) -> (MemoryState, CustomerId, [ChannelId; 2]) {
        let (mut state, customer, channels) =
            (MemoryState::new(), CustomerId::random(), [(); 2].map(|()| ChannelId::random()));
        for day in 0..days {
            let mut tally = Tally::default();
            let at = Timestamp(NOON.0 + day * DAY_MILLIS);
            channels.iter().for_each(|channel| tally.of(customer, *channel, at).counts.sent += 1);
            tally.of(CustomerId::random(), ChannelId::random(), at).counts.sent += 1;
            tally.write(&mut state);
        }
        (state, customer, channels)
    }

    #[test]
    fn days_are_told_whole_or_by_channel_and_no_more_than_were_asked_for() {
        let (state, customer, channels) = used(3);
        let first = Hour::of(NOON).day();
        let ask = |by_channel, most| {
            read(&state, UsageRequest::Days { customer, from: first, to: Day(first.0 + 2), by_channel, most })
        };
        let UsageResponse::Days(whole) = ask(false, 10) else { panic!("these are few") };
        assert_eq!(
            whole.iter().map(|day| (day.day.0 - first.0, day.counts.sent)).collect::<Vec<_>>(),
            [(0, 2), (1, 2)]
        );
        let UsageResponse::Days(parts) = ask(true, 4) else { panic!("these are four") };
        assert!(parts.iter().all(|part| part.counts.sent == 1 && channels.contains(&part.channel.unwrap())));
        assert!(matches!(ask(true, 3), UsageResponse::TooMany));
    }

    #[test]
    fn hours_are_told_from_the_first_to_before_the_last() {
        let (state, customer, _) = used(3);
        let (first, hour) = (Hour::of(NOON), |days: u32| Hour(Hour::of(NOON).0 + 24 * days));
        let UsageResponse::Hours(hours) = read(&state, UsageRequest::Hours { customer, from: first, to: hour(2) })
        else {
            panic!("hours are asked for")
        };
        assert_eq!(hours.iter().map(|(at, counts)| (*at, counts.sent)).collect::<Vec<_>>(), [(first, 2), (hour(1), 2)]);
    }

    #[test]
    fn figures_are_of_one_channel_or_of_all() {
        let (mut state, customer, channels) = used(3);
        let mut tally = Tally::default();
        tally.retrying(customer, channels[0], 2);
        tally.retrying(customer, channels[1], 1);
        tally.write(&mut state);
        let figures = |only| {
            let since = Hour::of(Timestamp(NOON.0 + DAY_MILLIS));
            match read(&state, UsageRequest::Figures { customer, since, only, channels: channels.to_vec() }) {
                UsageResponse::Figures(figures) => (figures.used.counts.sent, figures.retrying, figures.queued),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(figures(None), (4, 3, 0));
        assert_eq!(figures(Some(channels[0])), (2, 2, 0));
    }

    #[test]
    fn what_does_not_wait_any_more_leaves_no_row() {
        let (mut state, customer, channel) = (MemoryState::new(), CustomerId::random(), ChannelId::random());
        for more in [1, -1] {
            let mut tally = Tally::default();
            tally.retrying(customer, channel, more);
            tally.write(&mut state);
        }
        assert!(state.is_empty());
    }
}
