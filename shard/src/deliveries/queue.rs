//! The deliveries that wait for one endpoint in one shard: the earliest in memory, the rest on disk.

use std::collections::{BTreeMap, HashSet};

use model::address::Address;
use model::id::{DeliveryId, EndpointId};
use model::time::Timestamp;
use raft::machine::View;

use super::Job;
use crate::keys;

/// How many jobs a queue keeps in memory, and how many it reads at a time. The rest stays on disk, so that a dead
/// receiver with a hundred thousand deliveries costs no more memory than one with a thousand.
const KEPT: usize = 1024;
const READ: usize = 512;

/// Maximum number of starts owed to new events, which a receiver that was slow for a moment has missed. Beyond that it
/// is a backlog.
const OWED: usize = 64;

/// With fewer jobs in memory, the next ones are read.
const LOW: usize = 128;

/// What a queue has to start.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    Job(Job),
    NothingDue,
    /// A job is due, but has to wait for the retry limiter.
    Later,
}

type Place = (Timestamp, DeliveryId);

/// Jobs of one endpoint, earliest first.
///
/// Invariant: every job up to the horizon is in memory or being attempted; those beyond it are on disk only.
pub struct EndpointQueue {
    endpoint: EndpointId,
    waiting: BTreeMap<Place, Option<Address>>,
    /// `None`: everything is in memory.
    horizon: Option<Place>,
    running: HashSet<DeliveryId>,
    running_chats: HashSet<Address>,
    /// Starts that do not wait for the retry limiter, one for each new event: so a queue keeps up with its events,
    /// however slowly the node attempts backlogs.
    owed: usize,
}

impl EndpointQueue {
    /// A queue that knows nothing yet: all its jobs are on disk.
    pub fn unread(endpoint: EndpointId) -> Self {
        let start = (Timestamp(0), DeliveryId::from_bytes([0; 16]));
        Self { horizon: Some(start), ..Self::empty(endpoint) }
    }

    /// A queue that is known to have no jobs.
    pub fn empty(endpoint: EndpointId) -> Self {
        Self {
            endpoint,
            waiting: BTreeMap::new(),
            horizon: None,
            running: HashSet::new(),
            running_chats: HashSet::new(),
            owed: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.horizon.is_none()
    }

    /// Reads everything from disk again, since it may have changed.
    pub fn reread(&mut self) {
        self.waiting.clear();
        self.horizon = Some((Timestamp(0), DeliveryId::from_bytes([0; 16])));
    }

    /// Adds the job of a new event.
    pub fn announced(&mut self, job: Job) {
        self.owed = OWED.min(self.owed + 1);
        self.add(job);
    }

    /// Adds a job that was just written.
    pub fn add(&mut self, job: Job) {
        let place = (job.due, job.delivery);
        if self.horizon.is_some_and(|horizon| place > horizon) || self.running.contains(&job.delivery) {
            return;
        }
        self.waiting.insert(place, job.chat);
        if self.waiting.len() > KEPT {
            self.waiting.pop_last();
            self.horizon = self.waiting.last_key_value().map(|(place, _)| *place);
        }
    }

    /// Reads the next jobs from disk if few are in memory.
    pub fn fill(&mut self, view: &dyn View) {
        let Some((due, delivery)) = self.horizon else { return };
        if self.waiting.len() >= LOW {
            return;
        }
        let mut from = keys::job(self.endpoint, due, delivery);
        from.push(0);
        let (_, to) = keys::jobs_of(self.endpoint);
        let found = view.scan(&from, &to, READ);
        let places: Vec<Place> =
            found.iter().filter_map(|(key, _)| keys::parse_job(key)).map(|(_, due, id)| (due, id)).collect();
        self.horizon = if places.len() < READ { None } else { places.last().copied() };
        let new = places.into_iter().filter(|(_, id)| !self.running.contains(id));
        // A job's key does not name its chat. Jobs from disk have waited already, and order matters for first attempts
        // of new events only.
        self.waiting.extend(new.map(|place| (place, None)));
    }

    /// Takes the next due job, if it may start: by an owed start, or if `may_start` permits it.
    pub fn start_due(&mut self, now: Timestamp, may_start: impl FnOnce() -> bool) -> Start {
        let Some(place) = self.find_due(now) else { return Start::NothingDue };
        if self.owed == 0 && !may_start() {
            return Start::Later;
        }
        self.owed = self.owed.saturating_sub(1);
        self.take(place).map_or(Start::NothingDue, Start::Job)
    }

    /// The next due job whose chat has no attempt in progress.
    fn find_due(&self, now: Timestamp) -> Option<Place> {
        let free = |chat: &Option<Address>| chat.as_ref().is_none_or(|chat| !self.running_chats.contains(chat));
        let due = self.waiting.range(..=(now, DeliveryId::from_bytes([u8::MAX; 16])));
        due.into_iter().find(|(_, chat)| free(chat)).map(|(place, _)| *place)
    }

    fn take(&mut self, (due, delivery): Place) -> Option<Job> {
        let chat = self.waiting.remove(&(due, delivery))?;
        self.running.insert(delivery);
        if let Some(chat) = &chat {
            self.running_chats.insert(chat.clone());
        }
        Some(Job { endpoint: self.endpoint, delivery, due, chat })
    }

    /// An attempt has its answer: the next one of its chat may begin.
    pub fn answered(&mut self, job: &Job) {
        if let Some(chat) = &job.chat {
            self.running_chats.remove(chat);
        }
    }

    /// An attempt has finished, and its outcome is committed.
    pub fn finished(&mut self, job: &Job) {
        self.running.remove(&job.delivery);
    }

    /// How many waiting jobs are in memory; more may be on disk.
    pub fn known(&self) -> usize {
        self.waiting.len()
    }

    /// When the next job is due. If all are on disk, this is the horizon's time, which is not later.
    pub fn next_due(&self) -> Option<Timestamp> {
        match self.waiting.first_key_value() {
            Some(((due, _), _)) => Some(*due),
            None => self.horizon.map(|(due, _)| due),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use raft::machine::{MemoryState, State};

    fn job(endpoint: EndpointId, due: i64, chat: Option<&str>) -> Job {
        let chat = chat.map(|chat| Address::parse(chat).unwrap());
        Job { endpoint, delivery: DeliveryId::random(), due: Timestamp(due), chat }
    }

    fn take_due(queue: &mut EndpointQueue, now: Timestamp) -> Option<Job> {
        match queue.start_due(now, || true) {
            Start::Job(job) => Some(job),
            Start::NothingDue | Start::Later => None,
        }
    }

    #[test]
    fn what_comes_in_starts_at_once_and_what_has_waited_asks() {
        let endpoint = EndpointId::random();
        let mut queue = EndpointQueue::empty(endpoint);
        let now = Timestamp(10);
        queue.add(job(endpoint, 1, None));
        assert_eq!(queue.start_due(now, || false), Start::Later);
        // The oldest goes first; each new event permits one start.
        queue.announced(job(endpoint, 2, None));
        assert!(matches!(queue.start_due(now, || panic!("one is owed")), Start::Job(Job { due: Timestamp(1), .. })));
        assert_eq!(queue.start_due(now, || false), Start::Later);
        assert!(matches!(queue.start_due(now, || true), Start::Job(_)));
        assert_eq!(queue.start_due(now, || panic!("nothing is due")), Start::NothingDue);
    }

    #[test]
    fn first_attempts_of_one_conversation_run_one_after_the_other() {
        let endpoint = EndpointId::random();
        let mut queue = EndpointQueue::empty(endpoint);
        let jobs = [job(endpoint, 1, Some("1@s")), job(endpoint, 2, Some("1@s")), job(endpoint, 3, Some("2@s"))];
        jobs.iter().for_each(|job| queue.add(job.clone()));
        let now = Timestamp(10);
        assert_eq!(take_due(&mut queue, now).as_ref(), Some(&jobs[0]));
        assert_eq!(take_due(&mut queue, now).as_ref(), Some(&jobs[2]));
        assert_eq!(take_due(&mut queue, now), None);
        queue.answered(&jobs[0]);
        assert_eq!(take_due(&mut queue, now).as_ref(), Some(&jobs[1]));
    }

    #[test]
    fn a_job_waits_for_its_time() {
        let endpoint = EndpointId::random();
        let mut queue = EndpointQueue::empty(endpoint);
        queue.add(job(endpoint, 100, None));
        assert_eq!(take_due(&mut queue, Timestamp(99)), None);
        assert_eq!(queue.next_due(), Some(Timestamp(100)));
        assert!(take_due(&mut queue, Timestamp(100)).is_some());
    }

    proptest! {
        #[test]
        fn every_job_is_taken_once_in_order_of_time_however_many_there_are(
            stored in prop::collection::vec(0_i64..1_000_000, 0..3000),
            added in prop::collection::vec(0_i64..1_000_000, 0..2000),
        ) {
            let endpoint = EndpointId::random();
            let mut state = MemoryState::new();
            let mut expected = HashSet::new();
            for due in stored {
                let job = job(endpoint, due, None);
                state.put(&keys::job(endpoint, job.due, job.delivery), &[]);
                expected.insert(job.delivery);
            }
            let mut queue = EndpointQueue::unread(endpoint);
            queue.fill(&state);
            for due in added {
                let job = job(endpoint, due, None);
                state.put(&keys::job(endpoint, job.due, job.delivery), &[]);
                expected.insert(job.delivery);
                queue.add(job);
                prop_assert!(queue.waiting.len() <= KEPT + READ);
            }
            let mut last = Timestamp(0);
            loop {
                queue.fill(&state);
                let Some(job) = take_due(&mut queue, Timestamp(i64::MAX)) else { break };
                prop_assert!(job.due >= last);
                last = job.due;
                prop_assert!(expected.remove(&job.delivery));
                state.delete(&keys::job(endpoint, job.due, job.delivery));
                queue.finished(&job);
            }
            prop_assert!(expected.is_empty());
            prop_assert!(queue.is_done());
        }
    }
}
