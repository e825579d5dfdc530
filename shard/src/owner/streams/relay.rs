//! The shard's side of a pull: events that the homes fetch, and the expiry of those that nobody fetches.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::ShardId;
use raft::directory::STREAMED_FOR;
use raft::machine::View;
use raft::supervise;

use crate::command::Command;
use crate::keys;
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::records::decode;
use crate::stream::{StreamedEvent, ring};

/// How often unfetched events are looked for, and places and rings that nobody needs any more.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// Nobody can resume from events that no home has fetched for this long.
const RELAYED_FOR: Duration = STREAMED_FOR.saturating_add(ring::RING_AGE);

/// The events for a home after a position, waiting up to `wait` for one. Events up to the position are released.
///
/// # Errors
/// [`LeadershipLost`] if the ownership ends meanwhile.
pub async fn pull(
    owner: &Arc<Owner>,
    home: ShardId,
    after: u64,
    wait: Duration,
) -> Result<Vec<(u64, StreamedEvent)>, LeadershipLost> {
    let until = Instant::now() + wait;
    let mut notifier = owner.streams.relayed.listen(home);
    let fetched = (keys::relay(home, 0), keys::relay(home, after.saturating_add(1)));
    if !owner.reader.scan(&fetched.0, &fetched.1, 1).is_empty() {
        // Nobody waits for the release; the next pull finds what is left.
        let release = Command::Release { home, upto: after };
        drop(owner.committer.commit_deferred(vec![release]).await?);
    }
    loop {
        let part = ring::relayed(&owner.reader, home, after);
        if !part.is_empty() {
            return Ok(part);
        }
        tokio::select! {
            () = owner.lost.cancelled() => return Err(LeadershipLost),
            () = tokio::time::sleep_until(until.into()) => return Ok(Vec::new()),
            // The notifier keeps the sender while somebody listens, so `changed` does not fail.
            _ = notifier.changed() => {}
        }
    }
}

/// Drops events that no home fetches: they were written in the last moments of a stream's time, or the home is away for
/// long. Their age counts from when they were seen here, since their own times are of clocks that may jump.
pub async fn expire(owner: Arc<Owner>) {
    let mut ends: HashMap<ShardId, Ends> = HashMap::new();
    let mut ticks = supervise::ticks(EXPIRE_EVERY);
    loop {
        ticks.tick().await;
        let homes: Vec<ShardId> = owner.node.directory.read(|state| state.placement.keys().copied().collect());
        for home in homes {
            let extent = ring::relay_extent(&owner.reader, home);
            let old = ends.entry(home).or_default().look(extent, Instant::now());
            if let Some(upto) = old
                && owner.committer.commit_one(Command::Release { home, upto }).await.is_err()
            {
                return;
            }
        }
        owner.streams.places.expire(Instant::now());
        if drop_rings(&owner).await.is_err() {
            return;
        }
    }
}

/// Where the relay for a home ended at earlier checks, oldest first.
#[derive(Default)]
struct Ends(VecDeque<(Instant, u64)>);

impl Ends {
    /// Takes the present positions of the first and the last event, and returns the position up to which they are old.
    fn look(&mut self, extent: Option<(u64, u64)>, now: Instant) -> Option<u64> {
        let Some((first, last)) = extent else {
            self.0.clear();
            return None;
        };
        // Events that the home has fetched meanwhile are gone.
        self.0.retain(|(_, upto)| *upto >= first);
        self.0.push_back((now, last));
        let mut old = None;
        while let Some((seen, upto)) = self.0.front().copied()
            && now.saturating_duration_since(seen) >= RELAYED_FOR
        {
            old = Some(upto);
            self.0.pop_front();
        }
        old
    }
}

/// Drops the rings of customers whose streams ended so long ago that nobody resumes them.
async fn drop_rings(owner: &Owner) -> Result<(), LeadershipLost> {
    for (key, extent) in owner.reader.scan_range(keys::ring_extents(), usize::MAX) {
        let Some(customer) = keys::customer_of_ring(&key) else { continue };
        let extent: ring::RingExtent = decode(&extent);
        if !owner.node.directory.is_streamed(customer) && extent.first < extent.next {
            // A part at a time; the rest follows in the next rounds.
            owner.committer.commit_one(Command::DropRing { customer }).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_relay_is_old_once_it_was_seen_there_for_its_time() {
        let begin = Instant::now();
        let after = |halves: u32| begin + RELAYED_FOR / 2 * halves;
        let mut ends = Ends::default();
        assert_eq!(ends.look(Some((3, 5)), after(0)), None);
        assert_eq!(ends.look(Some((3, 9)), after(1)), None);
        assert_eq!(ends.look(Some((3, 12)), after(2)), Some(5));
        assert_eq!(ends.look(Some((10, 12)), after(3)), None, "what was old is fetched");
        assert_eq!(ends.look(None, after(4)), None);
        assert_eq!(ends.look(Some((20, 20)), after(5)), None);
        assert_eq!(ends.look(Some((20, 20)), after(7)), Some(20));
    }
}
