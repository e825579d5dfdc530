//! Expiry of old usage, and of the usage of deleted customers.

use std::sync::Arc;

use model::id::CustomerId;
use model::time::{Day, Timestamp};
use raft::machine::View;

use super::{STEP, in_steps, read};
use crate::keys;
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::retention::{Expire, USAGE_DAYS, UsagePlace};
use crate::usage::Hour;

/// Expires the hours of all customers, one customer after the other.
pub async fn expire_all(owner: &Arc<Owner>) -> Result<(), LeadershipLost> {
    // Whole days, so that most scans find nothing.
    let oldest = Hour::first_of(Day::of(Timestamp::now()).minus(USAGE_DAYS));
    let (mut next, end) = keys::usages();
    loop {
        let (from, to) = (next, end.clone());
        let first = read(owner, move |view| view.scan(&from, &to, 1)).await?;
        let first = first.into_iter().next().and_then(|(key, _)| keys::parse_usage(&key));
        let Some((customer, _, _)) = first else { return Ok(()) };
        let oldest = if is_gone(owner, customer) { Hour(u32::MAX) } else { oldest };
        in_steps(owner, STEP, move |view| due(view, customer, oldest), |rows| Expire::Usage { rows }).await?;
        next = keys::usages_of(customer).1;
    }
}

/// Whether the directory has removed a customer. A customer is in the directory before it uses anything, and so in any
/// copy that is fresh.
fn is_gone(owner: &Owner, customer: CustomerId) -> bool {
    let directory = &owner.node.directory;
    directory.is_fresh() && directory.read(|state| !state.customers.contains_key(&customer))
}

/// The oldest rows of a customer from before an hour.
fn due(view: &dyn View, customer: CustomerId, oldest: Hour) -> Vec<UsagePlace> {
    let (from, to) = keys::usage_of(customer, Hour(0), oldest);
    view.scan(&from, &to, STEP).iter().filter_map(|(key, _)| keys::parse_usage(key)).collect()
}

#[cfg(test)]
mod tests {
    use model::id::ChannelId;
    use raft::machine::MemoryState;

    use super::*;
    use crate::usage::Tally;

    #[test]
    fn hours_are_due_once_they_are_older_than_the_oldest_that_is_kept() {
        let (mut state, customer, channel) = (MemoryState::new(), CustomerId::random(), ChannelId::random());
        let mut tally = Tally::default();
        for hour in [10, 11, 12] {
            tally.of(customer, channel, Hour(hour).start()).counts.sent += 1;
            tally.of(CustomerId::random(), channel, Hour(hour).start()).counts.sent += 1;
        }
        tally.write(&mut state);
        assert_eq!(due(&state, customer, Hour(11)), [(customer, Hour(10), channel)]);
        assert_eq!(due(&state, customer, Hour(u32::MAX)).len(), 3);
    }
}
