//! The state log: writes of the client library, in order, on their way to a quorum.
//!
//! A store call appends and returns; only the wire waits. A writer task cuts all appended writes into one batch,
//! commits it, and only then cuts the next, so the stored state is always a prefix of the library's writes.
//! [`StateLog::barrier`] returns when the last earlier append of class [`Class::Wire`] is durable. A failed commit
//! poisons the log: every later append, barrier and write to the wire fails, and nothing is sent that depends on lost
//! state.
//!
//! The writer runs on the session's own thread, so it is polled between two tasks of the session, never inside one. The
//! writes that one task appends without a yield are a *run*, and share a batch.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use network::driver::{AuthError, AuthStore, AuthWrite};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::steps::Steps;
use crate::failpoint::{Point, reach};
use crate::telemetry::StateBytes;

/// The largest batch, in bytes of names and values: the store takes no more. Only a run that is larger is split.
const LARGEST_BATCH: usize = 240 << 10;

/// The largest value of a row, in bytes. A batch has to carry it with its name and some other rows.
pub const LARGEST_ROW: usize = 192 << 10;

/// Bytes that may wait to be cut: as many as the store takes of a channel in total. The phone of somebody with tens of
/// thousands of contacts sends all of their names at once.
const MOST_WAITING: usize = 32 << 20;

/// How long an append waits for others to share its batch.
const WIRE_LINGER: Duration = Duration::from_millis(20);
const LAZY_LINGER: Duration = Duration::from_secs(2);

/// Lazy bytes that are cut without further delay.
const LAZY_BYTES: usize = 64 << 10;

/// Names read from the store in one page.
const NAMES_AT_ONCE: usize = 500;

/// When a write has to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It may be delayed, and rides with the next batch.
    Lazy,
    /// Before any later byte reaches the wire.
    Wire,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub key: String,
    pub value: Option<Vec<u8>>,
}

impl Write {
    pub fn put(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }

    pub fn delete(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: None }
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

struct Waiting {
    number: u64,
    run: u64,
    write: Write,
}

#[derive(Default)]
struct Inner {
    /// Appended and not cut yet.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Appended and not known to be stored. Reads look here first. Values have the number of their append.
    fresh: BTreeMap<String, (u64, Option<Vec<u8>>)>,
    last: u64,
    last_wire: u64,
    /// The highest append that a caller waits for.
    wanted: u64,
    run: u64,
    first_wire_at: Option<Instant>,
    first_at: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    durable: u64,
    poison: Option<AuthError>,
}

/// The state log of one session.
pub struct StateLog {
    store: Arc<dyn AuthStore>,
    inner: Mutex<Inner>,
    appended: Notify,
    progress: watch::Sender<Progress>,
    stored: Mutex<StateBytes>,
    home: Mutex<Option<ThreadId>>,
}

impl StateLog {
    pub fn new(store: Arc<dyn AuthStore>) -> Arc<Self> {
        Arc::new(Self {
            store,
            inner: Mutex::default(),
            appended: Notify::new(),
            progress: watch::Sender::default(),
            stored: Mutex::default(),
            home: Mutex::new(None),
        })
    }

    /// Binds the log to the calling thread.
    pub fn live_here(&self) {
        *self.home.lock() = Some(thread::current().id());
    }

    /// Whether this is the session's thread. On another one, a store call could run between two calls of the client.
    pub fn is_home(&self) -> bool {
        self.home.lock().is_none_or(|home| home == thread::current().id())
    }

    /// Appends writes.
    ///
    /// # Errors
    /// The log is poisoned, or this append has poisoned it since too much waits.
    pub fn append(&self, class: Class, writes: impl IntoIterator<Item = Write>) -> Result<(), AuthError> {
        self.check()?;
        let mut inner = self.inner.lock();
        let before = inner.last;
        for write in writes {
            inner.last += 1;
            let (number, run) = (inner.last, inner.run);
            inner.waiting_bytes += write.bytes();
            inner.fresh.insert(write.key.clone(), (number, write.value.clone()));
            inner.waiting.push_back(Waiting { number, run, write });
        }
        if inner.last == before {
            return Ok(());
        }
        let now = Instant::now();
        inner.first_at.get_or_insert(now);
        if class == Class::Wire {
            inner.last_wire = inner.last;
            inner.first_wire_at.get_or_insert(now);
        }
        let is_full = inner.waiting_bytes > MOST_WAITING;
        drop(inner);
        if is_full {
            self.poison(AuthError::Unavailable("the store has not taken the session's state for long".into()));
            return self.check();
        }
        self.appended.notify_one();
        Ok(())
    }

    /// Reads the latest value of a row, stored or not.
    ///
    /// # Errors
    /// The log is poisoned, or the store cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError> {
        self.check()?;
        if let Some((_, value)) = self.inner.lock().fresh.get(key) {
            return Ok(value.clone());
        }
        self.store.get(key)
    }

    pub fn has(&self, key: &str) -> bool {
        if let Some((_, value)) = self.inner.lock().fresh.get(key) {
            return value.is_some();
        }
        self.is_stored(key)
    }

    fn is_stored(&self, key: &str) -> bool {
        self.store.keys(key, None, 1).first().is_some_and(|name| name == key)
    }

    /// All names that begin with `prefix`, of stored rows and of rows that are not stored yet.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let mut names = BTreeSet::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.store.keys(prefix, after.as_deref(), NAMES_AT_ONCE);
            let is_last = page.len() < NAMES_AT_ONCE;
            after = page.last().cloned();
            names.extend(page);
            if is_last {
                break;
            }
        }
        let inner = self.inner.lock();
        let fresh = inner.fresh.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        for (name, (_, value)) in fresh {
            match value {
                Some(_) => names.insert(name.clone()),
                None => names.remove(name),
            };
        }
        names.into_iter().collect()
    }

    /// Size of the stored state in bytes, as the store counts it.
    pub fn stored_bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Bytes that are not stored yet.
    pub fn waiting_bytes(&self) -> usize {
        self.inner.lock().waiting_bytes
    }

    /// Returns when the last earlier write that the wire has to wait for is durable.
    ///
    /// # Errors
    /// The log is poisoned.
    pub async fn barrier(&self) -> Result<(), AuthError> {
        let target = self.inner.lock().last_wire;
        let started = Instant::now();
        let waited = self.wait_for(target).await;
        if started.elapsed() > Duration::from_micros(50) {
            histogram!("gateway_whatsapp_barrier_seconds").record(started.elapsed());
        }
        waited
    }

    /// Returns when all earlier writes are durable.
    ///
    /// # Errors
    /// The log is poisoned.
    pub async fn flush(&self) -> Result<(), AuthError> {
        let target = self.inner.lock().last;
        self.wait_for(target).await
    }

    async fn wait_for(&self, target: u64) -> Result<(), AuthError> {
        let mut progress = self.progress.subscribe();
        {
            let progress = progress.borrow();
            if let Some(poison) = &progress.poison {
                return Err(poison.clone());
            }
            if progress.durable >= target {
                return Ok(());
            }
        }
        {
            let mut inner = self.inner.lock();
            inner.wanted = inner.wanted.max(target);
        }
        self.appended.notify_one();
        let reached = progress.wait_for(|now| now.durable >= target || now.poison.is_some()).await;
        match reached.map(|now| now.poison.clone()) {
            Ok(None) => Ok(()),
            Ok(Some(poison)) => Err(poison),
            Err(_) => Err(AuthError::Unavailable("the session has ended".into())),
        }
    }

    /// Closes the log: nothing is accepted, read or written any more. The first reason counts.
    pub fn poison(&self, why: AuthError) {
        self.progress.send_if_modified(|progress| {
            let is_new = progress.poison.is_none();
            if is_new {
                progress.poison = Some(why);
            }
            is_new
        });
        self.appended.notify_one();
    }

    /// # Errors
    /// The reason why the log is poisoned.
    pub fn check(&self) -> Result<(), AuthError> {
        self.progress.borrow().poison.clone().map_or(Ok(()), Err)
    }

    /// Returns the reason when the log is poisoned.
    pub async fn poisoned(&self) -> AuthError {
        let mut progress = self.progress.subscribe();
        let poisoned = progress.wait_for(|now| now.poison.is_some()).await;
        let poison = poisoned.ok().and_then(|now| now.poison.clone());
        poison.unwrap_or_else(|| AuthError::Unavailable("the session has ended".into()))
    }

    /// The writer task: commits appended writes until the log is poisoned.
    pub async fn write(self: Arc<Self>) {
        while self.check().is_ok() {
            let due = self.due();
            let linger = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let is_due = due.is_some_and(|due| due <= Instant::now());
            if !is_due {
                tokio::select! {
                    biased;
                    () = self.appended.notified() => {
                        self.end_run();
                        continue;
                    }
                    () = linger => {}
                }
            }
            let Some((batch, upto)) = self.cut() else { continue };
            if let Err(error) = self.commit(batch).await {
                self.poison(error);
                return;
            }
            self.committed(upto);
        }
    }

    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError> {
        if batch.is_empty() {
            return Ok(());
        }
        let bytes: usize = batch.iter().map(|write| write.key.len() + write.value.as_ref().map_or(0, Vec::len)).sum();
        histogram!("gateway_whatsapp_log_batch_bytes").record(bytes as f64);
        counter!("gateway_whatsapp_log_batches_total").increment(1);
        let steps = Steps::of(&batch, self.store.as_ref());
        reach(Point::StateBeforeCommit);
        steps.before_commit();
        let commit = self.store.commit(batch);
        tokio::pin!(commit);
        loop {
            tokio::select! {
                done = &mut commit => {
                    if done.is_ok() {
                        self.stored.lock().set(self.store.bytes());
                        reach(Point::StateAfterCommit);
                        steps.after_commit();
                    }
                    return done;
                }
                () = self.appended.notified() => self.end_run(),
            }
        }
    }

    /// Ends the current run: the task that appended has yielded since.
    fn end_run(&self) {
        self.inner.lock().run += 1;
    }

    fn due(&self) -> Option<Instant> {
        let durable = self.progress.borrow().durable;
        let inner = self.inner.lock();
        let first = inner.first_at?;
        if inner.wanted > durable || inner.waiting_bytes >= LAZY_BYTES {
            return Some(first);
        }
        let wire = inner.first_wire_at.map(|at| at + WIRE_LINGER);
        Some(wire.map_or(first + LAZY_LINGER, |wire| wire.min(first + LAZY_LINGER)))
    }

    /// Cuts the next batch of whole runs, with the number of its last append. Only the last write of each row is kept.
    fn cut(&self) -> Option<(Vec<AuthWrite>, u64)> {
        let mut inner = self.inner.lock();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(run) = inner.waiting.front().map(|waiting| waiting.run) {
            let of_run = inner.waiting.iter().take_while(|waiting| waiting.run == run);
            let (count, size) = of_run.fold((0, 0), |(count, size), one| (count + 1, size + one.write.bytes()));
            if taken.is_empty() && size > LARGEST_BATCH {
                // A run that is too large for a batch is split.
                let mut size = 0;
                while let Some(next) = inner.waiting.front().filter(|next| next.run == run) {
                    size += next.write.bytes();
                    if size > LARGEST_BATCH && !taken.is_empty() {
                        break;
                    }
                    taken.extend(inner.waiting.pop_front());
                }
                break;
            }
            if bytes + size > LARGEST_BATCH {
                break;
            }
            bytes += size;
            taken.extend(inner.waiting.drain(..count));
        }
        let upto = taken.last()?.number;
        let taken_bytes: usize = taken.iter().map(|one| one.write.bytes()).sum();
        inner.waiting_bytes -= taken_bytes;
        (inner.first_at, inner.first_wire_at) = match inner.waiting.front() {
            None => (None, None),
            // The rest was too much for this batch, and is due at once.
            Some(_) => (inner.first_at, inner.first_wire_at),
        };
        drop(inner);
        let mut last: HashMap<String, Option<Vec<u8>>> = HashMap::with_capacity(taken.len());
        let mut order = Vec::with_capacity(taken.len());
        for Waiting { write, .. } in taken {
            if last.insert(write.key.clone(), write.value).is_none() {
                order.push(write.key);
            }
        }
        let writes = order.into_iter().filter_map(|key| {
            let value = last.remove(&key)?;
            (value.is_some() || self.is_stored(&key)).then_some(AuthWrite { key, value })
        });
        Some((writes.collect(), upto))
    }

    fn committed(&self, upto: u64) {
        self.inner.lock().fresh.retain(|_, (number, _)| *number > upto);
        self.progress.send_modify(|progress| progress.durable = upto);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
pub(super) mod tests;
