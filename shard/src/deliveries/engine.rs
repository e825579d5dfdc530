//! The task that holds all queues of the node and starts attempts as they become due.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{CustomerId, EndpointId, Epoch, RequestId, ShardId, Slot};
use model::time::Timestamp;
use raft::directory::{Change, Directory};
use raft::failpoint::{self, Point};
use raft::supervise;
use tokio::sync::{broadcast, mpsc};
use tokio::task::{self, JoinSet};
use tokio_util::sync::CancellationToken;

use super::attempt::{self, Finished, Means};
use super::cpu_load::CpuLoad;
use super::health::{self, Health};
use super::limiter::EndpointLimiter;
use super::paused::{Walks, unpause};
use super::queue::{EndpointQueue, Start};
use super::retry_limiter::{RetryLimiter, STARTS_A_TURN};
use super::waiting::endpoints_with_jobs;
use super::{DeliveryRules, Job, Rereading, ToEngine};
use crate::call::deliveries::{DeliveryRequest, DeliveryResponse};
use crate::call::{Answer, Call, OwnerRequest, OwnerResponse};
use crate::coordinator::{Report, Ruling, own_places};
use crate::owner::{NodeContext, Owner};

/// How often idle connections are closed, gauges are set, and the health of endpoints is reported.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// How many messages are taken before attempts are started.
const TURN: usize = 256;

/// Timeout of a coordinator's ruling.
const HOME_PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Engine {
    means: Means,
    rules: DeliveryRules,
    directory: Arc<Directory>,
    to_self: mpsc::UnboundedSender<ToEngine>,
    rereading: Rereading,
    owners: HashMap<ShardId, Arc<Owner>>,
    queues: HashMap<EndpointId, HashMap<ShardId, EndpointQueue>>,
    limiters: HashMap<EndpointId, EndpointLimiter>,
    retry_limiter: RetryLimiter,
    cpu_load: CpuLoad,
    health: Health,
    attempts: JoinSet<Option<Finished>>,
    /// The running attempts by their task: one that panics reports nothing else.
    started: HashMap<task::Id, Started>,
    /// When each endpoint has something to do next.
    agenda: BTreeSet<(Timestamp, EndpointId)>,
    planned: HashMap<EndpointId, Timestamp>,
    /// The searches for paused deliveries.
    walks: Walks,
}

/// An attempt that was started.
struct Started {
    shard: ShardId,
    epoch: Epoch,
    job: Job,
    answered: bool,
}

impl Engine {
    pub fn new(
        means: Means,
        rules: DeliveryRules,
        directory: Arc<Directory>,
        to_self: mpsc::UnboundedSender<ToEngine>,
        rereading: Rereading,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            means,
            retry_limiter: RetryLimiter::new(cores, Instant::now()),
            cpu_load: CpuLoad::new(cores),
            health: Health::new(rules.note_every),
            rules,
            directory,
            to_self,
            rereading,
            owners: HashMap::new(),
            queues: HashMap::new(),
            limiters: HashMap::new(),
            attempts: JoinSet::new(),
            started: HashMap::new(),
            agenda: BTreeSet::new(),
            planned: HashMap::new(),
            walks: Walks::default(),
        }
    }

    pub async fn run(
        mut self,
        messages: &mut mpsc::Receiver<ToEngine>,
        rare: &mut mpsc::UnboundedReceiver<ToEngine>,
        stop: CancellationToken,
    ) {
        let mut changes = self.directory.changes();
        let mut taken = Vec::new();
        let mut taken_rare = Vec::new();
        let mut tidying = tokio::time::interval(TIDY_EVERY);
        loop {
            failpoint::reach(Point::DeliveriesTurn);
            let now = Timestamp::now();
            let wait = self.agenda.first().map_or(Duration::from_secs(3600), |(due, _)| due.since(now));
            let turn = self.retry_limiter.wake_after(Instant::now());
            let mut touched = HashSet::new();
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tidying.tick() => self.tidy(),
                _ = rare.recv_many(&mut taken_rare, TURN) => {
                    taken_rare.drain(..).for_each(|message| self.take(message, &mut touched));
                }
                _ = messages.recv_many(&mut taken, TURN) => {
                    taken.drain(..).for_each(|message| self.take(message, &mut touched));
                }
                Some(joined) = self.attempts.join_next_with_id() => {
                    // An attempt that panicked frees its place; the next owner finds its delivery again.
                    let (id, finished) = joined.unwrap_or_else(|error| (error.id(), None));
                    touched.extend(self.finish(id, finished.unwrap_or_default()));
                }
                change = changes.recv() => match change {
                    Ok(Change::Endpoint(id)) => {
                        self.endpoint_changed(id);
                        touched.insert(id);
                    }
                    Ok(_) | Err(broadcast::error::RecvError::Closed) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        let known: Vec<EndpointId> = self.queues.keys().copied().collect();
                        known.into_iter().for_each(|id| self.endpoint_changed(id));
                    }
                },
                () = tokio::time::sleep(wait), if !self.agenda.is_empty() => {}
                () = tokio::time::sleep(turn.unwrap_or_default()), if turn.is_some() => {}
            }
            let now = Timestamp::now();
            let due = self.agenda.iter().take_while(|(due, _)| *due <= now).map(|(_, endpoint)| *endpoint);
            touched.extend(due);
            touched.into_iter().for_each(|endpoint| self.pump(endpoint, now, 0));
            self.take_turns(now);
        }
    }

    fn tidy(&mut self) {
        self.means.attempter.close_idle();
        let backlog = |state: &'static str| metrics::gauge!("gateway_webhook_backlog", "state" => state);
        let waiting: usize = self.queues.values().flat_map(HashMap::values).map(EndpointQueue::known).sum();
        backlog("pending").set(waiting as f64);
        backlog("in_flight").set(self.attempts.len() as f64);
        metrics::gauge!("gateway_webhook_pace").set(self.retry_limiter.rate());
        let notes = self.directory.read(|state| {
            let fails = |id: EndpointId| {
                state.endpoints.get(&id).is_some_and(|endpoint| endpoint.health.failing_since.is_some())
            };
            self.health.take(Instant::now(), fails)
        });
        if !notes.is_empty() {
            tokio::spawn(health::note(self.directory.clone(), notes, self.rules.disable));
        }
    }

    /// The owner that a message refers to, if that ownership still lasts.
    fn owner(&self, shard: ShardId, epoch: Epoch) -> Option<&Arc<Owner>> {
        self.owners.get(&shard).filter(|owner| owner.epoch == epoch)
    }

    fn take(&mut self, message: ToEngine, touched: &mut HashSet<EndpointId>) {
        match message {
            ToEngine::Add(owner) => {
                for endpoint in endpoints_with_jobs(&owner.reader) {
                    self.queues.entry(endpoint).or_default().insert(owner.shard, EndpointQueue::unread(endpoint));
                    touched.insert(endpoint);
                    // The endpoint may have been enabled while the shard had no owner.
                    self.unpause(&owner, endpoint);
                }
                self.owners.insert(owner.shard, owner);
            }
            ToEngine::Remove(shard, epoch) => {
                if self.owner(shard, epoch).is_some() {
                    self.owners.remove(&shard);
                    self.queues.values_mut().for_each(|queues| drop(queues.remove(&shard)));
                    self.queues.retain(|_, queues| !queues.is_empty());
                }
            }
            ToEngine::Written(shard, epoch, job) => {
                if self.owner(shard, epoch).is_some() {
                    let queues = self.queues.entry(job.endpoint).or_default();
                    touched.insert(job.endpoint);
                    queues.entry(shard).or_insert_with(|| EndpointQueue::empty(job.endpoint)).announced(job);
                }
            }
            ToEngine::Reread(shard, epoch, endpoint) => {
                if endpoint.is_none() {
                    // Before anything is read: jobs that find no room from here on are announced again.
                    self.rereading.lock().remove(&(shard, epoch));
                }
                let Some(owner) = self.owner(shard, epoch) else { return };
                let endpoints = endpoint.map_or_else(|| endpoints_with_jobs(&owner.reader), |endpoint| vec![endpoint]);
                for endpoint in endpoints {
                    let queues = self.queues.entry(endpoint).or_default();
                    queues.entry(shard).or_insert_with(|| EndpointQueue::unread(endpoint)).reread();
                    touched.insert(endpoint);
                }
            }
            ToEngine::Walked { shard, epoch, endpoint, found } => {
                let again = self.walks.ended((shard, epoch, endpoint));
                if found {
                    self.take(ToEngine::Reread(shard, epoch, Some(endpoint)), touched);
                }
                if again && let Some(owner) = self.owner(shard, epoch).cloned() {
                    self.unpause(&owner, endpoint);
                }
            }
            ToEngine::Answered(id, success) => touched.extend(self.answered(id, success)),
            ToEngine::Ruled(report, sent, ruling) => {
                touched.insert(report.endpoint);
                let Some(limiter) = self.limiters.get_mut(&report.endpoint) else { return };
                match ruling {
                    Some(ruling) => limiter.ruled(ruling, sent, Instant::now()),
                    None => limiter.unheard(&report, Instant::now()),
                }
            }
        }
    }

    /// Frees the place and the chat of an attempt that has its answer, while its outcome is stored.
    fn answered(&mut self, id: task::Id, success: Option<bool>) -> Option<EndpointId> {
        let started = self.started.get_mut(&id).filter(|started| !started.answered)?;
        started.answered = true;
        let endpoint = started.job.endpoint;
        let limiter = self.limiters.entry(endpoint).or_default();
        limiter.answered();
        if let Some(success) = success {
            limiter.heard(success);
            self.health.heard(endpoint, success, Timestamp::now());
        }
        if self.owners.get(&started.shard).is_some_and(|owner| owner.epoch == started.epoch)
            && let Some(queue) = self.queues.get_mut(&endpoint).and_then(|queues| queues.get_mut(&started.shard))
        {
            queue.answered(&started.job);
        }
        Some(endpoint)
    }

    fn finish(&mut self, id: task::Id, finished: Finished) -> Option<EndpointId> {
        self.answered(id, None);
        let Started { shard, epoch, job, .. } = self.started.remove(&id)?;
        let endpoint = job.endpoint;
        if let Some(limiter) = self.limiters.get_mut(&endpoint) {
            limiter.committed();
        }
        if self.owner(shard, epoch).is_some()
            && let Some(queue) = self.queues.get_mut(&endpoint).and_then(|queues| queues.get_mut(&shard))
        {
            queue.finished(&job);
            if finished.overtaken {
                queue.reread();
            }
            if let Some(due) = finished.next_due {
                queue.add(Job { due, chat: None, ..job });
            }
        }
        // The endpoint may have been enabled while the pause was on its way into the log.
        if finished.paused
            && let Some(owner) = self.owners.get(&shard).cloned()
        {
            self.unpause(&owner, endpoint);
        }
        Some(endpoint)
    }

    /// This node's own places at an endpoint, and the endpoint's customer if it exists and is enabled.
    fn standing(&self, endpoint: EndpointId) -> (usize, Option<CustomerId>) {
        self.directory.read(|state| {
            let called = state.endpoints.get(&endpoint).filter(|known| known.enabled);
            (own_places(state.nodes.len()), called.map(|known| known.customer_id))
        })
    }

    /// Lets the endpoints that wait for the retry limiter go on, one after the other.
    fn take_turns(&mut self, now: Timestamp) {
        if !self.retry_limiter.has_queue() {
            return;
        }
        let cpu_load = &mut self.cpu_load;
        self.retry_limiter.set(Instant::now(), || cpu_load.measure());
        while self.retry_limiter.has_start(Instant::now())
            && let Some(endpoint) = self.retry_limiter.next()
        {
            self.pump(endpoint, now, STARTS_A_TURN);
        }
    }

    /// Starts what is due at an endpoint, as far as it takes more, and plans when to look again. `paced`: how many
    /// starts may be taken from the retry limiter; an endpoint that needs more waits for its turn.
    fn pump(&mut self, endpoint: EndpointId, now: Timestamp, paced: usize) {
        if let Some(planned) = self.planned.remove(&endpoint) {
            self.agenda.remove(&(planned, endpoint));
        }
        let has_queues = self.queues.contains_key(&endpoint);
        if !has_queues && !self.limiters.contains_key(&endpoint) {
            return;
        }
        let (own, called) = self.standing(endpoint);
        let instant = Instant::now();
        let room = self.limiters.entry(endpoint).or_default().room(own, called.is_some(), instant);
        let (room, later) = self.start_due(endpoint, room, now, paced);
        if later {
            self.retry_limiter.wait(endpoint);
        }

        let next_due =
            self.queues.get(&endpoint).and_then(|queues| queues.values().filter_map(EndpointQueue::next_due).min());
        let waiting = room == 0 && next_due.is_some_and(|due| due <= now);
        let Some(limiter) = self.limiters.get_mut(&endpoint) else { return };
        if let Some(customer) = called
            && let Some(context) = self.owners.values().next().map(|owner| owner.node.clone())
            && let Some(report) = limiter.report(endpoint, context.node, own, waiting, instant)
        {
            let to_self = self.to_self.clone();
            tokio::spawn(async move {
                // However the request ends, the limiter waits for its end.
                let ruling =
                    supervise::noticed("the question to an endpoint's home", ask_home(&context, customer, report));
                let ruling = ruling.await.flatten();
                let _ = to_self.send(ToEngine::Ruled(report, instant, ruling));
            });
        }
        // If all places are taken, or the rest waits for its turn in a chat, the next answer looks again. Jobs that are
        // not due yet are looked at in time, if only to ask for a probe. Jobs at the retry limiter get their turn.
        let next_start = next_due.filter(|due| *due > now || (room > 0 && limiter.running() == 0 && !later));
        let look_at = limiter.look_at(waiting).filter(|_| called.is_some());
        let look_at = look_at.map(|at| now.plus(at.saturating_duration_since(instant).max(Duration::from_millis(1))));
        if let Some(next) = [next_start, look_at].into_iter().flatten().min() {
            self.agenda.insert((next, endpoint));
            self.planned.insert(endpoint, next);
        }
        if limiter.is_idle() || (called.is_none() && limiter.is_at_rest()) {
            self.limiters.remove(&endpoint);
        }
    }

    /// Starts up to `room` attempts, one from each queue in turn, so that no shard waits for another. Returns how many
    /// more the endpoint would take, and whether a due job waits for the retry limiter.
    fn start_due(&mut self, endpoint: EndpointId, mut room: usize, now: Timestamp, mut paced: usize) -> (usize, bool) {
        let mut later = false;
        let Some(queues) = self.queues.get_mut(&endpoint) else { return (room, later) };
        let limiter = self.limiters.entry(endpoint).or_default();
        let instant = Instant::now();
        let mut found = true;
        while found {
            found = false;
            for (shard, queue) in queues.iter_mut() {
                let Some(owner) = self.owners.get(shard) else { continue };
                queue.fill(&owner.reader);
                if room == 0 {
                    continue;
                }
                let may_start = || {
                    let may = paced > 0 && self.retry_limiter.take(instant);
                    paced -= usize::from(may);
                    may
                };
                let job = match queue.start_due(now, may_start) {
                    Start::Job(job) => job,
                    Start::NothingDue => continue,
                    Start::Later => {
                        later = true;
                        continue;
                    }
                };
                (room, found) = (room - 1, true);
                limiter.begin();
                let attempt = attempt::run(self.means.clone(), owner.clone(), job.clone(), self.to_self.clone());
                let id = self.attempts.spawn(attempt).id();
                self.started.insert(id, Started { shard: *shard, epoch: owner.epoch, job, answered: false });
            }
        }
        queues.retain(|_, queue| !queue.is_done());
        if queues.is_empty() {
            self.queues.remove(&endpoint);
        }
        // With no room left, the next answer looks again.
        (room, later && room > 0)
    }

    /// Makes an endpoint's paused deliveries due, if it was enabled again.
    fn endpoint_changed(&mut self, id: EndpointId) {
        let owners: Vec<Arc<Owner>> = self.owners.values().cloned().collect();
        owners.iter().for_each(|owner| self.unpause(owner, id));
    }

    /// Makes an endpoint's paused deliveries in a shard due again, if it is enabled.
    fn unpause(&mut self, owner: &Arc<Owner>, endpoint: EndpointId) {
        let (_, Some(customer)) = self.standing(endpoint) else { return };
        let (shard, epoch) = (owner.shard, owner.epoch);
        if !self.walks.begin((shard, epoch, endpoint)) {
            return;
        }
        let (owner, lost, to_self) = (owner.clone(), owner.lost.clone(), self.to_self.clone());
        owner.tasks.clone().spawn(async move {
            let walking = lost.run_until_cancelled(unpause(&owner, customer, endpoint));
            // However the search ends, the next one waits for its end.
            let found = supervise::noticed("the search for paused deliveries", walking).await.flatten();
            let _ = to_self.send(ToEngine::Walked { shard, epoch, endpoint, found: found.unwrap_or_default() });
        });
    }
}

/// Asks the coordinator of an endpoint's customer; `None` without an answer.
async fn ask_home(context: &NodeContext, customer: CustomerId, report: Report) -> Option<Ruling> {
    let shard = context.directory.read(|state| state.shard_of(Slot::of_customer(customer)))?;
    let call = Call::new(shard, OwnerRequest::Deliveries(DeliveryRequest::Report(report)), RequestId::mint());
    match context.nodes.ask(call, Instant::now() + HOME_PATIENCE).await.ok()? {
        Answer::Result { result: Ok(OwnerResponse::Deliveries(DeliveryResponse::Ruled(ruling))), .. } => Some(ruling),
        _ => None,
    }
}
