//! A group whose core is busy at times when an entry is submitted. When the leadership moves meanwhile, the entry
//! enters the log with an epoch of the past.

use std::sync::Arc;
use std::time::{self, Duration};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use model::id::Epoch;
use raft::group::{Leader, ProposeError};
use raft::machine::GroupId;
use raft::simulation::{SimulatedGroup, clock};
use tokio::sync::{mpsc, oneshot};

use super::scene::Scene;

/// The longest time for which a core is busy.
const BUSY: Duration = Duration::from_millis(1_500);

type Answer = oneshot::Sender<Result<Bytes, ProposeError>>;

/// The way into a group's log: entries enter it in the order of their submission.
#[derive(Clone)]
pub struct LateGroup {
    group: SimulatedGroup,
    id: GroupId,
    queue: mpsc::UnboundedSender<(Bytes, Answer)>,
}

impl LateGroup {
    pub fn new(scene: &Arc<Scene>, group: SimulatedGroup, id: GroupId) -> Self {
        let (queue, mut waiting) = mpsc::unbounded_channel::<(Bytes, Answer)>();
        let (held, submitting) = (scene.clone(), group.clone());
        scene.spawn("the queue of a group", async move {
            while let Some((entry, answer)) = waiting.recv().await {
                if held.chance.hits(held.plan.busy) {
                    clock::sleep(held.chance.time(&(Duration::ZERO..BUSY))).await;
                }
                // The caller may have gone away and then needs no answer.
                match submitting.submit(entry) {
                    Ok(pending) => drop(clock::spawn(async move { drop(answer.send(pending.await)) })),
                    Err(error) => drop(answer.send(Err(error))),
                }
            }
        });
        Self { group, id, queue }
    }
}

impl Leader for LateGroup {
    type Pending = BoxFuture<'static, Result<Bytes, ProposeError>>;

    fn id(&self) -> GroupId {
        self.id
    }

    fn submit(&self, command: Bytes) -> Result<Self::Pending, ProposeError> {
        let (answer, answered) = oneshot::channel();
        self.queue.send((command, answer)).map_err(|_| ProposeError::Stopped)?;
        Ok(answered.map(|answer| answer.unwrap_or(Err(ProposeError::Unknown))).boxed())
    }

    fn quorum_contact(&self, epoch: Epoch) -> Option<time::Instant> {
        let leads = self.group.leadership().ready_epoch == Some(epoch);
        self.group.quorum_contact().filter(|_| leads).map(clock::moment)
    }
}
