//! The task that knows all lanes of the node and starts attempts as they become due.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::id::{EndpointId, Epoch, ShardId};
use model::time::Timestamp;
use model::webhook::RetrySchedule;
use raft::directory::state::DirectoryState;
use raft::directory::{Change, Directory};
use raft::machine::View;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ToEngine;
use super::attempt::{self, Finished, Means};
use super::command::DeliveryCommand;
use super::lane::{Job, Lane};
use super::running::Running;
use crate::command::{Command, Reply};
use crate::keys;
use crate::owner::Owner;
use crate::webhook::attempt::Attempter;

/// Attempts at one endpoint at a time (supplement 20.6).
const AT_ONCE: usize = 10;

/// How often connections that nobody used for a while are closed, and the gauges set.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// How many messages are taken in before attempts are started.
const TURN: usize = 256;

pub(super) struct Engine {
    means: Means,
    directory: Arc<Directory>,
    to_self: mpsc::UnboundedSender<ToEngine>,
    owners: HashMap<ShardId, Arc<Owner>>,
    lanes: HashMap<EndpointId, HashMap<ShardId, Lane>>,
    running: HashMap<EndpointId, usize>,
    attempts: JoinSet<Finished>,
    /// When an endpoint has something to do next; one entry each.
    agenda: BTreeSet<(Timestamp, EndpointId)>,
    planned: HashMap<EndpointId, Timestamp>,
}

impl Engine {
    pub fn new(
        attempter: Attempter,
        schedule: RetrySchedule,
        directory: Arc<Directory>,
        to_self: mpsc::UnboundedSender<ToEngine>,
        running: Running,
    ) -> Self {
        Self {
            means: Means { attempter: Arc::new(attempter), schedule: Arc::new(schedule), running },
            directory,
            to_self,
            owners: HashMap::new(),
            lanes: HashMap::new(),
            running: HashMap::new(),
            attempts: JoinSet::new(),
            agenda: BTreeSet::new(),
            planned: HashMap::new(),
        }
    }

    pub async fn run(
        mut self,
        mut messages: mpsc::Receiver<ToEngine>,
        mut rare: mpsc::UnboundedReceiver<ToEngine>,
        stop: CancellationToken,
    ) {
        let mut changes = self.directory.changes();
        let mut taken = Vec::new();
        let mut tidying = tokio::time::interval(TIDY_EVERY);
        loop {
            let now = Timestamp::now();
            let wait = self.agenda.first().map_or(Duration::from_secs(3600), |(due, _)| due.since(now));
            let mut touched = HashSet::new();
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tidying.tick() => {
                    self.means.attempter.close_idle();
                    self.gauge();
                }
                message = rare.recv() => {
                    if let Some(message) = message {
                        self.take(message, &mut touched);
                    }
                }
                _ = messages.recv_many(&mut taken, TURN) => {
                    for message in taken.drain(..) {
                        self.take(message, &mut touched);
                    }
                }
                Some(finished) = self.attempts.join_next() => {
                    // An attempt that panicked was counted by nobody; its delivery is found again by the next owner.
                    if let Ok(finished) = finished {
                        touched.insert(self.finish(finished));
                    }
                }
                change = changes.recv() => match change {
                    Ok(Change::Endpoint(id)) => self.endpoint_changed(id),
                    Ok(_) | Err(broadcast::error::RecvError::Closed) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        let known: Vec<EndpointId> = self.lanes.keys().copied().collect();
                        known.into_iter().for_each(|id| self.endpoint_changed(id));
                    }
                },
                () = tokio::time::sleep(wait), if !self.agenda.is_empty() => {}
            }
            let now = Timestamp::now();
            let due = self.agenda.iter().take_while(|(due, _)| *due <= now).map(|(_, endpoint)| *endpoint);
            touched.extend(due);
            touched.into_iter().for_each(|endpoint| self.pump(endpoint, now));
        }
    }

    fn gauge(&self) {
        let backlog = |state: &'static str| metrics::gauge!("gateway_webhook_backlog", "state" => state);
        let waiting: usize = self.lanes.values().flat_map(HashMap::values).map(Lane::known).sum();
        backlog("pending").set(waiting as f64);
        backlog("in_flight").set(self.attempts.len() as f64);
    }

    /// Whether a message is of an ownership that still stands.
    fn is_current(&self, shard: ShardId, epoch: Epoch) -> bool {
        self.owners.get(&shard).is_some_and(|owner| owner.epoch == epoch)
    }

    fn take(&mut self, message: ToEngine, touched: &mut HashSet<EndpointId>) {
        match message {
            ToEngine::Add(owner) => {
                let endpoints = endpoints_with_jobs(&owner);
                for endpoint in endpoints {
                    self.lanes.entry(endpoint).or_default().insert(owner.shard, Lane::unread(endpoint));
                    touched.insert(endpoint);
                    // It may have been switched on while the shard had no owner.
                    self.unpause(&owner, endpoint);
                }
                self.owners.insert(owner.shard, owner);
            }
            ToEngine::Remove(shard, epoch) => {
                if self.is_current(shard, epoch) {
                    self.owners.remove(&shard);
                    self.lanes.values_mut().for_each(|lanes| drop(lanes.remove(&shard)));
                    self.lanes.retain(|_, lanes| !lanes.is_empty());
                }
            }
            ToEngine::Written(shard, epoch, job) => {
                if self.is_current(shard, epoch) {
                    let lanes = self.lanes.entry(job.endpoint).or_default();
                    touched.insert(job.endpoint);
                    lanes.entry(shard).or_insert_with(|| Lane::empty(job.endpoint)).add(job);
                }
            }
            ToEngine::Reread(shard, epoch, endpoint) => {
                let Some(owner) = self.owners.get(&shard).filter(|owner| owner.epoch == epoch) else { return };
                let endpoints = endpoint.map_or_else(|| endpoints_with_jobs(owner), |endpoint| vec![endpoint]);
                for endpoint in endpoints {
                    let lanes = self.lanes.entry(endpoint).or_default();
                    lanes.entry(shard).or_insert_with(|| Lane::unread(endpoint)).reread();
                    touched.insert(endpoint);
                }
            }
        }
    }

    fn finish(&mut self, finished: Finished) -> EndpointId {
        let endpoint = finished.job.endpoint;
        if let Some(running) = self.running.get_mut(&endpoint) {
            *running = running.saturating_sub(1);
        }
        if self.is_current(finished.shard, finished.epoch)
            && let Some(lane) = self.lanes.get_mut(&endpoint).and_then(|lanes| lanes.get_mut(&finished.shard))
        {
            lane.finished(&finished.job);
            if finished.overtaken {
                lane.reread();
            }
            if let Some(due) = finished.next_due {
                lane.add(Job { due, chat: None, ..finished.job });
            }
        }
        // It may have been switched on while the pause was on its way into the log.
        if finished.paused
            && let Some(owner) = self.owners.get(&finished.shard)
        {
            self.unpause(owner, endpoint);
        }
        endpoint
    }

    /// Starts what is due at an endpoint, as far as it takes more, and plans when to look again.
    fn pump(&mut self, endpoint: EndpointId, now: Timestamp) {
        if let Some(planned) = self.planned.remove(&endpoint) {
            self.agenda.remove(&(planned, endpoint));
        }
        let Some(lanes) = self.lanes.get_mut(&endpoint) else { return };
        let running = self.running.entry(endpoint).or_default();
        for (shard, lane) in lanes.iter_mut() {
            let Some(owner) = self.owners.get(shard) else { continue };
            lane.fill(&owner.reader);
            while *running < AT_ONCE
                && let Some(job) = lane.take_due(now)
            {
                *running += 1;
                let attempt = attempt::run(self.means.clone(), owner.clone(), job);
                self.attempts.spawn(attempt);
                lane.fill(&owner.reader);
            }
        }
        lanes.retain(|_, lane| !lane.is_done());
        // With all places taken, or the rest waiting for its turn in a conversation, the next finish looks again.
        let next = if *running < AT_ONCE { lanes.values().filter_map(Lane::next_due).min() } else { None };
        if let Some(next) = next.filter(|next| *next > now || *running == 0) {
            self.agenda.insert((next, endpoint));
            self.planned.insert(endpoint, next);
        }
        if *running == 0 {
            self.running.remove(&endpoint);
        }
        if lanes.is_empty() {
            self.lanes.remove(&endpoint);
        }
    }

    /// An endpoint that was switched on again gets what was paused for it.
    fn endpoint_changed(&self, id: EndpointId) {
        self.owners.values().for_each(|owner| self.unpause(owner, id));
    }

    /// Makes an endpoint's paused deliveries in a shard due again, if it is switched on.
    fn unpause(&self, owner: &Arc<Owner>, endpoint: EndpointId) {
        let enabled = |state: &DirectoryState| state.endpoints.get(&endpoint).is_some_and(|endpoint| endpoint.enabled);
        if self.directory.read(enabled) {
            let (owner, to_self) = (owner.clone(), self.to_self.clone());
            owner.tasks.clone().spawn(async move {
                if unpause(&owner, endpoint).await {
                    let _ = to_self.send(ToEngine::Reread(owner.shard, owner.epoch, Some(endpoint)));
                }
            });
        }
    }
}

/// Finds an endpoint's paused deliveries and makes them due, a few with each command. Says whether there were any.
async fn unpause(owner: &Owner, endpoint: EndpointId) -> bool {
    /// Jobs that are read, and made due, at a time.
    const AT_ONCE: usize = 256;
    let (mut from, to) = keys::jobs_of(endpoint);
    let mut any = false;
    loop {
        let jobs = owner.reader.scan(&from, &to, AT_ONCE);
        let Some((last, _)) = jobs.last() else { return any };
        from = [last.as_slice(), &[0]].concat();
        let paused = jobs.iter().filter(|(_, mark)| mark == keys::JOB_PAUSED);
        let deliveries: Vec<_> = paused.filter_map(|(key, _)| Some(keys::parse_job(key)?.2)).collect();
        if !deliveries.is_empty() {
            let unpause = DeliveryCommand::Unpause { endpoint, deliveries, at: Timestamp::now() };
            match owner.committer.commit_one(Command::Delivery(unpause)).await {
                Ok(reply) => any |= reply == Reply::Done,
                Err(_) => return any,
            }
        }
    }
}

/// The endpoints that have jobs in a shard: one key read for each.
fn endpoints_with_jobs(owner: &Owner) -> Vec<EndpointId> {
    let (mut from, to) = keys::jobs();
    let mut endpoints = Vec::new();
    while let Some((key, _)) = owner.reader.scan(&from, &to, 1).pop() {
        let Some((endpoint, _, _)) = keys::parse_job(&key) else { break };
        endpoints.push(endpoint);
        (_, from) = keys::jobs_of(endpoint);
    }
    endpoints
}
