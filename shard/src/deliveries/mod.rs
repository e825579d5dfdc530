//! Webhook deliveries of the shards that this node owns (design section 9).
//!
//! - [`lane`]: what waits for one endpoint in one shard. [`engine`]: the task that runs attempts when they are due.
//! - `attempt`: one attempt from the stored delivery to the committed outcome.

mod attempt;
mod engine;
mod lane;

use std::sync::Arc;

use model::id::{EndpointId, Epoch, ShardId};
use model::webhook::RetrySchedule;
use raft::directory::Directory;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::lane::Job;
use crate::owner::Owner;
use crate::webhook::attempt::Attempter;

/// How many messages wait for the engine. Announced jobs beyond that are found on disk instead.
const QUEUE: usize = 16 * 1024;

enum ToEngine {
    Add(Arc<Owner>),
    Remove(ShardId, Epoch),
    Written(ShardId, Epoch, Job),
    /// Jobs were announced that the queue had no room for, or an endpoint's were made due again.
    Reread(ShardId, Epoch, Option<EndpointId>),
}

/// The way to the engine.
#[derive(Clone)]
pub struct Deliveries {
    queue: mpsc::Sender<ToEngine>,
    overflow: mpsc::UnboundedSender<ToEngine>,
}

impl Deliveries {
    /// Starts the engine's task.
    pub fn start(
        attempter: Attempter,
        schedule: RetrySchedule,
        directory: Arc<Directory>,
        stop: CancellationToken,
    ) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE);
        // Bounded by what goes into it: a few messages for each ownership.
        let (overflow, rare) = mpsc::unbounded_channel();
        let engine = engine::Engine::new(attempter, schedule, directory, overflow.clone());
        tokio::spawn(engine.run(messages, rare, stop));
        Self { queue, overflow }
    }

    /// A shard's deliveries are this node's from now on.
    pub fn add(&self, owner: Arc<Owner>) {
        // The engine ends with the process only.
        let _ = self.overflow.send(ToEngine::Add(owner));
    }

    /// They are not any more.
    pub fn remove(&self, owner: &Owner) {
        let _ = self.overflow.send(ToEngine::Remove(owner.shard, owner.epoch));
    }

    /// Deliveries were written, due at once.
    pub fn announce(&self, shard: ShardId, epoch: Epoch, jobs: impl Iterator<Item = Job>) {
        for job in jobs {
            if self.queue.try_send(ToEngine::Written(shard, epoch, job)).is_err() {
                let _ = self.overflow.send(ToEngine::Reread(shard, epoch, None));
                return;
            }
        }
    }
}
