//! Webhook deliveries of the shards that this node owns.
//!
//! - [`queue`]: the jobs of one endpoint in one shard. [`engine`]: the task that starts attempts when they are due.
//! - `attempt`: one attempt, from the stored delivery to the committed outcome. `running`: the attempts in flight.
//! - `retry_limiter`: how fast backlogs are attempted. `cpu_load`: how busy the processors are.
//! - `limiter`: how many attempts may run at an endpoint. [`crate::coordinator`]: what is counted for it over the whole
//!   cluster. `health`: what is reported of it to the directory. `paused`: deliveries that wait until it is enabled.
//! - `command`: commands to the state machine. `query`, `view`: lists, details, figures. `bulk`: bulk operations.
//! - `serve`: an owner's answers to other nodes. `waiting`: the jobs that wait for each endpoint.

mod attempt;
pub mod bulk;
pub mod cpu_load;
mod engine;
mod health;
mod limiter;
mod paused;
mod queue;
mod retry_limiter;
pub(crate) mod serve;
pub mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::error::CallError;
use model::id::{CustomerId, EndpointId, Epoch, ShardId};
use model::time::Timestamp;
use model::webhook::RetrySchedule;
use parking_lot::Mutex;
use raft::directory::Directory;
use raft::directory::health::DisableRule;
use raft::machine::{View, just_after};
use raft::supervise;
pub use state::deliveries::{Job, command, query, running, view};
use tokio::sync::{Semaphore, mpsc};
use tokio::task;
use tokio_util::sync::CancellationToken;

use self::attempt::{LARGE_EVENTS_OF_ONE, Means};
use self::command::DeliveryCommand;
use self::running::Running;
use crate::command::Command;
use crate::coordinator::{Report, Ruling};
use crate::keys;
use crate::owner::committer::LeadershipLost;
use crate::owner::{Owner, Webhooks};
use crate::reads::Patience;
use crate::shares::Shares;
use crate::webhook::attempt::Attempter;

/// Capacity of the engine's queue. Jobs that are announced beyond it are found on disk instead.
const QUEUE: usize = 16 * 1024;

enum ToEngine {
    /// This node owns the shard from now on.
    Add(Arc<Owner>),
    /// This node does not own the shard any more.
    Remove(ShardId, Epoch),
    /// A job was written.
    Written(ShardId, Epoch, Job),
    /// Announced jobs found no room in the queue, or an endpoint's jobs were made due again.
    Reread(ShardId, Epoch, Option<EndpointId>),
    /// An attempt has its answer, successful or not; `None` if no request was made.
    Answered(task::Id, Option<bool>),
    /// The search for an endpoint's paused deliveries has ended; `found` if it made any due.
    Walked { shard: ShardId, epoch: Epoch, endpoint: EndpointId, found: bool },
    /// The coordinator's ruling on a report that was sent at this time; `None` if it could not be asked.
    Ruled(Report, Instant, Option<Ruling>),
}

/// Ownerships whose jobs all have to be read again, and for which the engine has a message. One message is enough: the
/// engine finds everything written before it reads. With one for each announcement that finds no room, it would do
/// nothing but read.
type Rereading = Arc<Mutex<HashSet<(ShardId, Epoch)>>>;

/// What an operator may set besides the schedule.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryRules {
    /// When failing endpoints are disabled.
    pub disable: DisableRule,
    /// How often at most an endpoint is reported to the directory.
    pub note_every: Duration,
}

/// The handle of the engine.
#[derive(Clone)]
pub struct Deliveries {
    queue: mpsc::Sender<ToEngine>,
    overflow: mpsc::UnboundedSender<ToEngine>,
    running: Running,
    /// The present ownerships that the engine was told of; one that restarts after a panic is told of them again.
    owners: Arc<Mutex<HashMap<ShardId, Arc<Owner>>>>,
    rereading: Rereading,
}

impl Deliveries {
    /// Starts the engine's task.
    pub fn start(
        attempter: Arc<Attempter>,
        schedule: RetrySchedule,
        rules: DeliveryRules,
        directory: Arc<Directory>,
        stop: CancellationToken,
    ) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE);
        // Bounded by its use: a few messages for each ownership, one for each running attempt, for each endpoint whose
        // coordinator is asked, and for each step of a bulk operation.
        let (overflow, rare) = mpsc::unbounded_channel();
        let running = Running::new(schedule.max_attempts());
        let means = Means {
            attempter,
            schedule: Arc::new(schedule),
            running: running.clone(),
            large_events: Arc::new(Shares::new(Semaphore::MAX_PERMITS, LARGE_EVENTS_OF_ONE)),
        };
        let (owners, rereading) = (Arc::default(), Rereading::default());
        let deliveries = Self { queue, overflow, running, owners, rereading };
        let waiting = Arc::new(tokio::sync::Mutex::new(Waiting { messages, rare, begun: false }));
        let begun = deliveries.clone();
        tokio::spawn(async move {
            let engine = || begun.clone().run(means.clone(), rules, directory.clone(), waiting.clone(), stop.clone());
            supervise::restarted("the webhook deliveries", engine).await;
        });
        deliveries
    }

    /// Runs an engine. One that follows another, which panicked, treats the shards' deliveries as a new owner would:
    /// attempts that were cut off are recorded as interrupted, and everything else that waits is read from the store.
    async fn run(
        self,
        means: Means,
        rules: DeliveryRules,
        directory: Arc<Directory>,
        waiting: Arc<tokio::sync::Mutex<Waiting>>,
        stop: CancellationToken,
    ) {
        let mut waiting = waiting.lock().await;
        if waiting.begun {
            let owners = self.owners.lock();
            while waiting.messages.try_recv().is_ok() || waiting.rare.try_recv().is_ok() {}
            self.rereading.lock().clear();
            for owner in owners.values().cloned() {
                let (again, lost) = (self.clone(), owner.lost.clone());
                owner.tasks.clone().spawn(async move { lost.run_until_cancelled(again.hand_to_engine(&owner)).await });
            }
        }
        waiting.begun = true;
        let Waiting { messages, rare, .. } = &mut *waiting;
        let engine = engine::Engine::new(means, rules, directory, self.overflow.clone(), self.rereading.clone());
        engine.run(messages, rare, stop).await;
    }

    /// Tells the engine of an ownership; false if that has ended.
    async fn hand_to_engine(&self, owner: &Arc<Owner>) -> bool {
        if note_interrupted(owner).await.is_err() {
            return false;
        }
        let mut owners = self.owners.lock();
        // Under the lock, so that a restarting engine either finds the ownership here or gets the message.
        owners.insert(owner.shard, owner.clone());
        self.overflow.send(ToEngine::Add(owner.clone())).is_ok()
    }
}

#[async_trait]
impl Webhooks for Deliveries {
    fn running(&self) -> &Running {
        &self.running
    }

    async fn take_over(&self, owner: Arc<Owner>) {
        if !self.hand_to_engine(&owner).await {
            return;
        }
        supervise::restarted("the bulk operations on deliveries", || bulk::resume(owner.clone())).await;
    }

    fn changed(&self, owner: &Owner, endpoint: EndpointId) {
        let _ = self.overflow.send(ToEngine::Reread(owner.shard, owner.epoch, Some(endpoint)));
    }

    fn remove(&self, owner: &Owner) {
        let mut owners = self.owners.lock();
        if owners.get(&owner.shard).is_some_and(|known| known.epoch == owner.epoch) {
            owners.remove(&owner.shard);
        }
        drop(owners);
        let _ = self.overflow.send(ToEngine::Remove(owner.shard, owner.epoch));
    }

    fn announce(&self, shard: ShardId, epoch: Epoch, jobs: Vec<Job>) {
        for job in jobs {
            if self.queue.try_send(ToEngine::Written(shard, epoch, job)).is_err() {
                if self.rereading.lock().insert((shard, epoch)) {
                    let _ = self.overflow.send(ToEngine::Reread(shard, epoch, None));
                }
                return;
            }
        }
    }
}

/// The engine's messages, which outlive an engine that panics.
struct Waiting {
    messages: mpsc::Receiver<ToEngine>,
    rare: mpsc::UnboundedReceiver<ToEngine>,
    /// An engine has run before.
    begun: bool,
}

/// How long background work waits for its turn among its account's reads before it asks again, and the pause until
/// then.
const TURN_PATIENCE: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Reads apart from other tasks, in an account's turn: many rows may have to come from disk.
///
/// # Errors
/// As [`Reads::read`](crate::reads::Reads::read).
async fn read<T: Send + 'static>(
    owner: &Owner,
    account: Option<CustomerId>,
    deadline: Instant,
    with: impl FnOnce(&dyn View, &Running) -> T + Send + 'static,
) -> Result<T, CallError> {
    let (reader, running) = (owner.reader.clone(), owner.node.deliveries.running().clone());
    let reading = move |patience: &Patience| with(&patience.over(reader), &running);
    owner.node.reads.read(account, deadline, reading).await
}

/// Records which attempts the shard's former owner could not finish.
async fn note_interrupted(owner: &Owner) -> Result<(), LeadershipLost> {
    /// Attempts per command.
    const AT_ONCE: usize = 64;
    let (mut from, to) = keys::begun_attempts();
    loop {
        let begun = owner.reader.scan(&from, &to, AT_ONCE);
        let Some((last, _)) = begun.last() else { return Ok(()) };
        from = just_after(last);
        let deliveries = begun.iter().filter_map(|(key, _)| keys::parse_begun_attempt(key)).collect();
        let interrupted = DeliveryCommand::Interrupted { deliveries, at: Timestamp::now() };
        owner.committer.commit_one(Command::Delivery(interrupted)).await?;
    }
}

#[cfg(test)]
mod tests {
    use model::id::DeliveryId;

    use super::*;

    #[test]
    fn a_shard_is_read_again_once_however_many_announcements_find_no_room() {
        let (queue, _messages) = mpsc::channel(1);
        let (overflow, mut rare) = mpsc::unbounded_channel();
        let (running, owners, rereading) = (Running::new(1), Arc::default(), Rereading::default());
        let deliveries = Deliveries { queue, overflow, running, owners, rereading };
        let job =
            || Job { endpoint: EndpointId::random(), delivery: DeliveryId::random(), due: Timestamp(0), chat: None };
        let mut told = || std::iter::from_fn(|| rare.try_recv().ok()).count();
        // The first finds room.
        deliveries.announce(1, 7, vec![job()]);
        assert_eq!(told(), 0);
        for _ in 0..100 {
            deliveries.announce(1, 7, vec![job()]);
            deliveries.announce(2, 7, vec![job(), job()]);
        }
        assert_eq!(told(), 2);
        // The engine does this when it takes the message.
        deliveries.rereading.lock().remove(&(1, 7));
        (0..100).for_each(|_| deliveries.announce(1, 7, vec![job()]));
        assert_eq!(told(), 1);
    }
}
