//! The way between nodes: what is sent may come late, never, twice, or behind what was sent after it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::id::NodeId;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::chance::Chance;
use super::clock::{self, Instant};

/// How long it takes to notice that nobody listens at the other end.
const REFUSED_AFTER: Duration = Duration::from_millis(1);

/// One life of a node, from a start to a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub node: NodeId,
    /// Counts the node's starts from 1.
    pub start: u64,
}

/// How bad the way is. Rates are in thousandths of all messages, questions and answers alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weather {
    pub delay: Range<Duration>,
    pub lost: u32,
    pub doubled: u32,
    /// Overtaken by what is sent after them; all others keep their order.
    pub overtaken: u32,
    /// Take ten times as long.
    pub late: u32,
}

impl Weather {
    /// A healthy local network.
    pub const FAIR: Self = Self {
        delay: Duration::from_micros(100)..Duration::from_micros(900),
        lost: 0,
        doubled: 0,
        overtaken: 0,
        late: 0,
    };
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The request may have arrived, or not.
    TimedOut,
    /// Nobody was there; it certainly did not arrive.
    Unreachable,
}

struct Inner {
    weather: Weather,
    /// Ways that carry nothing, from and to.
    cut: BTreeSet<(NodeId, NodeId)>,
    up: BTreeMap<NodeId, u64>,
    /// Nodes from and to which nothing moves until then; it is not lost.
    stalled: BTreeMap<NodeId, Instant>,
    /// When the last message that keeps its place comes out of each way.
    last: BTreeMap<(NodeId, NodeId), Instant>,
}

pub struct Router {
    inner: Mutex<Inner>,
    chance: Chance,
    carried: AtomicU64,
}

impl Router {
    pub(super) fn new(chance: Chance) -> Arc<Self> {
        let inner = Inner {
            weather: Weather::FAIR,
            cut: BTreeSet::new(),
            up: BTreeMap::new(),
            stalled: BTreeMap::new(),
            last: BTreeMap::new(),
        };
        Arc::new(Self { inner: Mutex::new(inner), chance, carried: AtomicU64::new(0) })
    }

    /// Messages from one node to another so far, questions and answers alike.
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    pub fn set_weather(&self, weather: Weather) {
        self.inner.lock().weather = weather;
    }

    /// Lets nothing through from one node to another; the other direction stays as it is.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.inner.lock().cut.insert((from, to));
    }

    /// Holds up everything from and to a node for a time.
    pub fn stall(&self, node: NodeId, time: Duration) {
        self.inner.lock().stalled.insert(node, clock::now() + time);
    }

    /// Opens all ways again.
    pub fn mend(&self) {
        let mut inner = self.inner.lock();
        inner.cut.clear();
        inner.stalled.clear();
    }

    pub(super) fn comes_up(&self, life: Life) {
        self.inner.lock().up.insert(life.node, life.start);
    }

    pub(super) fn goes_down(&self, node: NodeId) {
        self.inner.lock().up.remove(&node);
    }

    /// Whether a life has not ended.
    pub fn lives(&self, life: Life) -> bool {
        self.inner.lock().up.get(&life.node) == Some(&life.start)
    }

    /// The life in which a node is up.
    pub fn life_of(&self, node: NodeId) -> Option<Life> {
        self.inner.lock().up.get(&node).map(|start| Life { node, start: *start })
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.inner.lock().cut.contains(&(from, to))
    }

    /// How long each copy of a message takes; none for one that is lost.
    fn copies(&self, from: NodeId, to: NodeId) -> Vec<Duration> {
        let mut inner = self.inner.lock();
        let weather = inner.weather.clone();
        if from != to && (inner.cut.contains(&(from, to)) || self.chance.hits(weather.lost)) {
            return Vec::new();
        }
        let copies = if self.chance.hits(weather.doubled) { 2 } else { 1 };
        if from != to {
            self.carried.fetch_add(copies as u64, Ordering::Relaxed);
        }
        let now = clock::now();
        let mut delays = Vec::with_capacity(copies);
        for copy in 0..copies {
            let mut delay = self.chance.time(&weather.delay);
            if self.chance.hits(weather.late) {
                delay *= 10;
            }
            for node in [from, to] {
                if let Some(until) = inner.stalled.get(&node) {
                    delay += *until - now;
                }
            }
            if copy == 0 && !self.chance.hits(weather.overtaken) {
                let last = inner.last.entry((from, to)).or_insert(now);
                *last = (*last).max(now + delay);
                delay = *last - now;
            }
            delays.push(delay);
        }
        delays
    }

    /// Sends a question at once, in the order of these calls, and gives its answer later. `serve` answers it at the other
    /// end, once for each copy that arrives; where it has nothing to say, the asker hears nothing.
    pub fn call<A, S, F>(
        self: &Arc<Self>,
        from: Life,
        to: NodeId,
        patience: Duration,
        serve: S,
    ) -> impl Future<Output = Result<A, Unanswered>> + Send + use<A, S, F>
    where
        A: Send + 'static,
        S: Fn(Life) -> F + Clone + Send + 'static,
        F: Future<Output = Option<A>> + Send,
    {
        let (answer, answered) = oneshot::channel();
        // Held by the asker, too: when all copies are lost, it does not know that, and waits.
        let answer = Arc::new(Mutex::new(Some(answer)));
        let refused = !self.lives(from) || self.life_of(to).is_none();
        if !refused {
            for delay in self.copies(from.node, to) {
                let (router, answer, serve) = (self.clone(), answer.clone(), serve.clone());
                clock::spawn(async move {
                    clock::sleep(delay).await;
                    // A cut also stops what is on its way.
                    if router.is_cut(from.node, to) {
                        return;
                    }
                    let Some(there) = router.life_of(to) else { return };
                    let Some(reply) = serve(there).await else { return };
                    if !router.lives(there) {
                        return;
                    }
                    let Some(delay) = router.copies(to, from.node).pop() else { return };
                    clock::sleep(delay).await;
                    if !router.is_cut(to, from.node)
                        && router.lives(from)
                        && let Some(answer) = answer.lock().take()
                    {
                        // The asker may have given up.
                        let _ = answer.send(reply);
                    }
                });
            }
        }
        async move {
            if refused {
                clock::sleep(REFUSED_AFTER).await;
                return Err(Unanswered::Unreachable);
            }
            let reply = clock::within(patience, answered).await;
            drop(answer);
            reply.and_then(Result::ok).ok_or(Unanswered::TimedOut)
        }
    }
}
