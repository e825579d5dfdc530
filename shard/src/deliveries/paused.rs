//! Deliveries that were paused while their endpoint was disabled, and are due again once it is enabled.
//!
//! They can only be found among the jobs of the endpoint, of which there may be hundreds of thousands. So these are
//! walked over in their account's turn, by one walk at a time, however often the endpoint changes meanwhile.

use std::collections::HashMap;
use std::time::Instant;

use model::error::ErrorCode;
use model::id::{CustomerId, DeliveryId, EndpointId, Epoch, ShardId};
use model::time::Timestamp;
use raft::machine::{View, just_after};

use super::command::DeliveryCommand;
use super::running::Running;
use super::{RETRY_PAUSE, TURN_PATIENCE, read};
use crate::command::{Command, Reply};
use crate::keys;
use crate::owner::Owner;

/// Jobs that are read in one turn, and deliveries that one command makes due.
const READ: usize = 2048;
const AT_ONCE: usize = 256;

/// A walk over the jobs of an endpoint in one ownership.
type Walk = (ShardId, Epoch, EndpointId);

/// The walks in progress.
#[derive(Default)]
pub(super) struct Walks {
    /// Whether the endpoint has changed since its walk began.
    under_way: HashMap<Walk, bool>,
}

impl Walks {
    /// Whether to begin a walk. If one is in progress, another one follows it.
    pub fn begin(&mut self, walk: Walk) -> bool {
        let is_under_way = self.under_way.contains_key(&walk);
        self.under_way.insert(walk, is_under_way);
        !is_under_way
    }

    /// Ends a walk; returns whether another one has to follow.
    pub fn ended(&mut self, walk: Walk) -> bool {
        self.under_way.remove(&walk).unwrap_or_default()
    }
}

/// Finds an endpoint's paused deliveries and makes them due, a few with each command. Returns whether there were any.
pub(super) async fn unpause(owner: &Owner, customer: CustomerId, endpoint: EndpointId) -> bool {
    let (mut from, to) = keys::jobs_of(endpoint);
    let mut any = false;
    loop {
        let (begin, end) = (from.clone(), to.clone());
        let reading = move |view: &dyn View, _: &Running| paused(view, &begin, &end);
        let (deliveries, last) = match read(owner, Some(customer), Instant::now() + TURN_PATIENCE, reading).await {
            Ok(part) => part,
            // A read that panicked would panic again; the next change of the endpoint begins another walk.
            Err(error) if error.code == ErrorCode::InternalError => return any,
            Err(error) => {
                tracing::debug!(%endpoint, %error, "looking for paused deliveries did not have its turn");
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
        };
        for part in deliveries.chunks(AT_ONCE) {
            let unpause = DeliveryCommand::Unpause { endpoint, deliveries: part.to_vec(), at: Timestamp::now() };
            match owner.committer.commit_one(Command::Delivery(unpause)).await {
                Ok(reply) => any |= reply == Reply::Done,
                Err(_) => return any,
            }
        }
        let Some(last) = last else { return any };
        from = just_after(&last);
    }
}

/// The paused deliveries of the next jobs, and the key of the last job read, if there was one.
fn paused(view: &dyn View, from: &[u8], to: &[u8]) -> (Vec<DeliveryId>, Option<Vec<u8>>) {
    let jobs = view.scan(from, to, READ);
    let paused = jobs.iter().filter(|(_, mark)| mark == keys::JOB_PAUSED);
    let deliveries = paused.filter_map(|(key, _)| Some(keys::parse_job(key)?.2)).collect();
    (deliveries, jobs.last().map(|(key, _)| key.clone()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use raft::machine::{MemoryState, State};

    use super::*;

    #[test]
    fn an_endpoint_that_changes_again_and_again_is_walked_over_once_more_and_not_as_often() {
        let mut walks = Walks::default();
        let (endpoint, other) = (EndpointId::random(), EndpointId::random());
        assert!(walks.begin((1, 7, endpoint)));
        assert_eq!((0..100).filter(|_| walks.begin((1, 7, endpoint))).count(), 0);
        assert!(walks.begin((1, 7, other)) && walks.begin((2, 7, endpoint)) && walks.begin((1, 8, endpoint)));
        assert!(walks.ended((1, 7, endpoint)) && walks.begin((1, 7, endpoint)));
        assert!(!walks.ended((1, 7, endpoint)) && !walks.ended((1, 7, other)) && !walks.ended((3, 1, endpoint)));
    }

    #[test]
    fn paused_deliveries_are_found_among_those_that_are_due_by_themselves_a_part_at_a_time() {
        let mut state = MemoryState::new();
        let endpoint = EndpointId::random();
        let marks = [keys::JOB_DUE, keys::JOB_PAUSED];
        let all: Vec<DeliveryId> = (0..READ + 10).map(|_| DeliveryId::random()).collect();
        for (number, id) in all.iter().enumerate() {
            state.put(&keys::job(endpoint, Timestamp(number as i64), *id), marks[number % 2]);
        }
        state.put(&keys::job(EndpointId::random(), Timestamp(0), DeliveryId::random()), keys::JOB_PAUSED);
        let (from, to) = keys::jobs_of(endpoint);
        let (first, last) = paused(&state, &from, &to);
        let (rest, end) = paused(&state, &just_after(&last.unwrap()), &to);
        let found = [first, rest].concat();
        assert_eq!(found, all.iter().skip(1).step_by(2).copied().collect::<Vec<_>>());
        assert_eq!(paused(&state, &just_after(&end.unwrap()), &to), (Vec::new(), None));
    }
}
