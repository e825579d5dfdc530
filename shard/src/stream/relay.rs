//! The shard's side of a pull: what its events' homes fetch, and what becomes of what nobody fetches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::ShardId;
use model::time::Timestamp;
use raft::machine::View;

use super::ring;
use super::{StreamedEvent, gather::STREAMED_FOR};
use crate::command::Command;
use crate::keys;
use crate::owner::{NotOwner, Owner};
use crate::records::decode;

/// How often it is looked for what nobody fetches, and for places and rings that nobody needs any more.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// The events for a home after a place, waiting for one up to `wait`. What lies before the place is released.
///
/// # Errors
/// [`NotOwner`] when the ownership ends meanwhile.
pub async fn pull(
    owner: &Arc<Owner>,
    home: ShardId,
    after: u64,
    wait: Duration,
) -> Result<Vec<(u64, StreamedEvent)>, NotOwner> {
    let until = Instant::now() + wait;
    let mut bell = owner.streams.relayed.listen(home);
    let fetched = (keys::relay(home, 0), keys::relay(home, after.saturating_add(1)));
    if !owner.reader.scan(&fetched.0, &fetched.1, 1).is_empty() {
        // Nobody waits for it, and what is left is found at the next pull.
        let release = Command::Release { home, upto: after };
        owner.committer.commit_patiently(vec![release]).await.map_err(|_| NotOwner)?;
    }
    loop {
        let part = ring::relayed(&owner.reader, home, after);
        if !part.is_empty() {
            return Ok(part);
        }
        tokio::select! {
            () = owner.lost.cancelled() => return Err(NotOwner),
            () = tokio::time::sleep_until(until.into()) => return Ok(Vec::new()),
            rung = bell.changed() => {
                if rung.is_err() {
                    // The bell was taken down while nobody listened; there is another one.
                    bell = owner.streams.relayed.listen(home);
                }
            }
        }
    }
}

/// Drops what no home fetches: it was written in the last moments of a stream's time, or its home is away for long.
pub async fn sweep(owner: Arc<Owner>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let homes: Vec<ShardId> = owner.node.directory.read(|state| state.placement.keys().copied().collect());
        let oldest = Timestamp::now().minus(STREAMED_FOR + ring::RING_AGE);
        for home in homes {
            let part = ring::relayed(&owner.reader, home, 0);
            let old = part.iter().take_while(|(_, event)| event.at < oldest).last();
            if let Some((upto, _)) = old
                && owner.committer.commit_one(Command::Release { home, upto: *upto }).await.is_err()
            {
                return;
            }
        }
        owner.streams.places.sweep(Instant::now());
        if sweep_rings(&owner).await.is_err() {
            return;
        }
    }
}

/// Drops the rings of customers whose streams ended so long ago that nobody resumes.
async fn sweep_rings(owner: &Owner) -> Result<(), NotOwner> {
    let now = Timestamp::now();
    let (from, to) = keys::ring_extents();
    for (key, extent) in owner.reader.scan(&from, &to, usize::MAX) {
        let Some(customer) = keys::customer_of_ring(&key) else { continue };
        let extent: ring::RingExtent = decode(&extent);
        let streamed = owner.node.directory.read(|state| state.streamed_until(customer).is_some_and(|end| end > now));
        if !streamed && extent.first < extent.next {
            // A part at a time; the rest goes with the next rounds.
            owner.committer.commit_one(Command::DropRing { customer }).await.map_err(|_| NotOwner)?;
        }
    }
    Ok(())
}
