//! The home's side of a pull: while a customer at home here is streamed, fetches the relays of all shards and commits
//! their events into the customers' rings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{CustomerId, RequestId, ShardId, Slot};
use model::time::Timestamp;
use raft::directory::Change;
use raft::supervise;
use tokio::sync::{broadcast, watch};

use crate::call::{Answer, Call, OwnerRequest, OwnerResponse};
use crate::command::{Command, Reply};
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::stream::{StreamedEvent, ring};

/// How long a shard may wait for an event before it answers that there is none.
const PULL_WAIT: Duration = Duration::from_secs(20);

/// Time of a pull besides its waiting.
const PULL_MARGIN: Duration = Duration::from_secs(5);

/// Delay before a shard without an owner is asked again. An election takes longer, and many homes ask at the same time.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How often the streams are checked besides after changes of the directory: a stream's time may end without one.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Gathers as long as the ownership lasts.
pub async fn run(owner: Arc<Owner>) {
    let (streamed, watching) = watch::channel(false);
    // The tasks of the sources end with this task, even if it panics; the restarted task starts its own.
    let here = owner.lost.child_token();
    let _ended = here.clone().drop_guard();
    for source in shards(&owner).await {
        let (owner, watching, here) = (owner.clone(), watching.clone(), here.clone());
        owner.tasks.clone().spawn(async move {
            let gathering =
                supervise::restarted("the gathering from a shard", || gather(&owner, source, watching.clone()));
            if let Some(Err(LeadershipLost)) = here.run_until_cancelled(gathering).await {
                owner.lost.cancel();
            }
        });
    }
    let mut changes = owner.node.directory.changes();
    loop {
        let now = any_streamed(&owner);
        streamed.send_if_modified(|before| std::mem::replace(before, now) != now);
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = until_relevant(&mut changes) => {}
        }
    }
}

/// The shards of the cluster, once the directory knows them.
async fn shards(owner: &Owner) -> Vec<ShardId> {
    loop {
        let shards: Vec<ShardId> = owner.node.directory.read(|state| state.placement.keys().copied().collect());
        if !shards.is_empty() {
            return shards;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

fn any_streamed(owner: &Owner) -> bool {
    let streamed = owner.node.directory.streamed();
    owner.node.directory.read(|state| {
        let home = |customer: &CustomerId| state.shard_of(Slot::of_customer(*customer)) == Some(owner.shard);
        streamed.iter().any(home)
    })
}

async fn until_relevant(changes: &mut broadcast::Receiver<Change>) {
    loop {
        match changes.recv().await {
            Ok(Change::Streamed(_) | Change::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Fetches one shard's relay repeatedly.
async fn gather(owner: &Owner, source: ShardId, mut watching: watch::Receiver<bool>) -> Result<(), LeadershipLost> {
    let mut tries = 0;
    while watching.wait_for(|streamed| *streamed).await.is_ok() {
        let after = ring::gathered(&owner.reader, source);
        let Some(part) = fetch(owner, source, after, tries).await else {
            tries += 1;
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        tries = 0;
        let Some((upto, _)) = part.last() else { continue };
        let upto = *upto;
        let events: Vec<StreamedEvent> = part.into_iter().map(|(_, event)| event).collect();
        let customers: BTreeSet<CustomerId> = events.iter().map(|event| event.customer).collect();
        let command = Command::Gather { source, after, upto, at: Timestamp::now(), events };
        // Deferred: dashboards can wait some milliseconds for a shared entry, and senders should not pay for another.
        let committed = owner.committer.commit_deferred(vec![command]).await?;
        match committed.await?.first() {
            Some(Reply::Done) => customers.into_iter().for_each(|customer| owner.streams.grown.notify(customer)),
            // An event from before events were bounded. The events behind it must not wait forever.
            Some(Reply::TooLarge) => {
                tracing::warn!(source, upto, "an event is too large for its stream, and is left out");
                let pass = Command::Gather { source, after, upto, at: Timestamp::now(), events: Vec::new() };
                owner.committer.commit_one(pass).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// One request to the shard's owner; `None` without an answer.
async fn fetch(owner: &Owner, source: ShardId, after: u64, tries: usize) -> Option<Vec<(u64, StreamedEvent)>> {
    let request = OwnerRequest::Relay { home: owner.shard, after, wait: PULL_WAIT };
    let call = Call { budget: PULL_WAIT + PULL_MARGIN, ..Call::new(source, request, RequestId::mint()) };
    let deadline = Instant::now() + PULL_WAIT + PULL_MARGIN;
    match owner.node.nodes.try_owner(&call, deadline, tries).await? {
        Answer::Result { result: Ok(OwnerResponse::Relayed(part)), .. } => Some(part),
        _ => None,
    }
}
