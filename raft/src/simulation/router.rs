//! Network between the nodes: messages may be delayed, lost, duplicated or reordered.

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

/// How long it takes to notice that no node listens at the other end.
const REFUSED_AFTER: Duration = Duration::from_millis(1);

/// One life of a node, from a start to a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub node: NodeId,
    /// Number of the node's start, from 1.
    pub start: u64,
}

/// Quality of the network. Rates are in thousandths of all messages, requests and answers alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weather {
    pub delay: Range<Duration>,
    pub lost: u32,
    pub doubled: u32,
    /// Messages that later ones may overtake; all others stay in order.
    pub overtaken: u32,
    /// Messages that take ten times as long.
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

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The request may or may not have arrived.
    TimedOut,
    /// No node was there; the request has certainly not arrived.
    Unreachable,
}

struct Inner {
    weather: Weather,
    /// Blocked directions, as (from, to).
    cut: BTreeSet<(NodeId, NodeId)>,
    up: BTreeMap<NodeId, u64>,
    /// Nodes whose messages are all held up until then; none is lost.
    stalled: BTreeMap<NodeId, Instant>,
    /// For each direction: when the last message that stays in order arrives.
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

    /// Messages between different nodes so far, requests and answers alike.
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    pub fn set_weather(&self, weather: Weather) {
        self.inner.lock().weather = weather;
    }

    /// Blocks all messages from one node to another; the other direction is unaffected.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.inner.lock().cut.insert((from, to));
    }

    /// Holds up all messages from and to a node for a time.
    pub fn stall(&self, node: NodeId, time: Duration) {
        self.inner.lock().stalled.insert(node, clock::now() + time);
    }

    /// Removes all cuts and stalls.
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

    /// The current life of a node that is up.
    pub fn life_of(&self, node: NodeId) -> Option<Life> {
        self.inner.lock().up.get(&node).map(|start| Life { node, start: *start })
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.inner.lock().cut.contains(&(from, to))
    }

    /// Delay of each copy of a message; empty if it is lost.
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

    /// Sends a request at once, in the order of these calls; resolves to its answer. `serve` runs at the receiver for
    /// each copy that arrives; if it returns `None`, the sender gets no answer.
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
        // Held by the sender too: if all copies are lost, it has to wait for the timeout.
        let answer = Arc::new(Mutex::new(Some(answer)));
        let refused = !self.lives(from) || self.life_of(to).is_none();
        if !refused {
            for delay in self.copies(from.node, to) {
                let (router, answer, serve) = (self.clone(), answer.clone(), serve.clone());
                clock::spawn(async move {
                    clock::sleep(delay).await;
                    // A cut also drops messages in flight.
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
                        // The sender may have given up.
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
