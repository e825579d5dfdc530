//! The jobs that wait for each endpoint, for the operator who asks why webhooks do not come.

use model::id::{DeliveryId, EndpointId};
use raft::machine::View;

use crate::call::deliveries::Waiting;
use crate::keys;

/// Maximum jobs of one endpoint and shard that are counted; beyond that, the exact number does not matter.
const COUNTED: usize = 10_000;

/// The endpoints that have jobs in a shard, with one key read for each.
pub(super) fn endpoints_with_jobs(view: &dyn View) -> Vec<EndpointId> {
    let (mut from, to) = keys::jobs();
    let mut endpoints = Vec::new();
    while let Some((key, _)) = view.scan(&from, &to, 1).pop() {
        let Some((endpoint, _, _)) = keys::parse_job(&key) else { break };
        endpoints.push(endpoint);
        (_, from) = keys::jobs_of(endpoint);
    }
    endpoints
}

pub(super) fn in_shard(view: &dyn View) -> Vec<Waiting> {
    let of_endpoint = |endpoint: EndpointId| {
        let jobs = view.scan_range(keys::jobs_of(endpoint), COUNTED + 1);
        let parsed = || jobs.iter().filter_map(|(key, _)| keys::parse_job(key));
        let first = parsed().map(|(_, _, delivery)| delivery).min_by_key(DeliveryId::time)?;
        Some(Waiting {
            endpoint,
            count: jobs.len().min(COUNTED),
            or_more: jobs.len() > COUNTED,
            oldest: first.time(),
            next_due: parsed().map(|(_, due, _)| due).min()?,
            first: Some(first),
        })
    };
    endpoints_with_jobs(view).into_iter().filter_map(of_endpoint).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::time::Timestamp;
    use raft::machine::{MemoryState, State};

    use super::*;

    fn put(state: &mut MemoryState, endpoint: EndpointId, made: i64, due: i64) {
        let delivery = DeliveryId::made_at(Timestamp(made), rand::random());
        state.put(&keys::job(endpoint, Timestamp(due), delivery), keys::JOB_DUE);
    }

    #[test]
    fn what_waits_is_counted_by_endpoint_with_the_oldest_and_the_next() {
        let mut state = MemoryState::new();
        let (one, other) = (EndpointId::random(), EndpointId::random());
        put(&mut state, one, 300, 400);
        put(&mut state, one, 100, 900);
        put(&mut state, other, 200, 200);
        let mut found = in_shard(&state);
        found.sort_by_key(|waiting| waiting.oldest);
        let expected = |endpoint, count, oldest, next_due| Waiting {
            endpoint,
            count,
            or_more: false,
            oldest: Timestamp(oldest),
            next_due: Timestamp(next_due),
            first: None,
        };
        let without_first =
            |found: &[Waiting]| found.iter().map(|each| Waiting { first: None, ..*each }).collect::<Vec<_>>();
        assert!(found.iter().all(|each| each.first.is_some_and(|first| first.time() == each.oldest)));
        assert_eq!(without_first(&found), [expected(one, 2, 100, 400), expected(other, 1, 200, 200)]);
        found[0].add(&expected(one, 3, 50, 500));
        assert_eq!(found[0], expected(one, 5, 50, 400));
    }
}
