//! Reads of many rows of a shard, on threads apart from the tasks that serve calls.
//!
//! Every read ends at the deadline of its caller, or once its caller is gone. Reads of one account take turns on a
//! node, so that neither one read nor all reads together take the CPUs from the calls of other accounts (I14).

use std::cell::Cell;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::id::CustomerId;
use raft::machine::{Pairs, View, just_after};
use raft::supervise;
use tokio_util::sync::CancellationToken;

use crate::shares::{Share, Shares};

/// The most concurrent reads on a node; each has a thread.
const MOST: usize = 64;

/// After a read that took no longer than this, the account's next one starts at once.
const SHORT: Duration = Duration::from_millis(20);

/// The longest pause of an account after a longer read, during which others use the CPUs. It is as long as the read
/// was.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// The number of rows that are read between two checks of the deadline.
const CHUNK: usize = 512;

/// Permits for the reads of a node.
pub struct Reads(Shares);

impl Default for Reads {
    /// One account can use at most half of the CPUs, and, with its pauses, a quarter.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Shares::new(MOST, (cores / 2).max(1)))
    }
}

impl Reads {
    /// Runs a read on its own thread, in the turn of `account` if it has one. `work` has to read through a view from
    /// [`Patience::over`]: its rows end when the time is over, and the result is then discarded.
    ///
    /// # Errors
    /// `worker_at_capacity` when the read did not end by the deadline; `internal_error` when it panicked.
    pub async fn read<T: Send + 'static>(
        &self,
        account: Option<CustomerId>,
        deadline: Instant,
        work: impl FnOnce(&Patience) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let share = match account {
            Some(account) => {
                let turn = tokio::time::timeout_at(deadline.into(), self.0.take(account));
                Some(turn.await.map_err(|_| CallError::worker_at_capacity())?)
            }
            None => None,
        };
        let gone = CancellationToken::new();
        let _gone_with_this = gone.clone().drop_guard();
        let reading = supervise::on_thread(move || {
            let begun = Instant::now();
            let patience = Patience { deadline, gone, is_out: Cell::new(false) };
            let made = work(&patience);
            if let Some(share) = share {
                rest(share, begun.elapsed());
            }
            (!patience.is_out.get()).then_some(made)
        });
        match reading.await {
            Ok(made) => made.ok_or_else(CallError::worker_at_capacity),
            Err(_) => Err(CallError::internal_error()),
        }
    }
}

/// Releases the permit; after a long read with a delay.
fn rest(share: Share, took: Duration) {
    if took > SHORT {
        tokio::spawn(async move {
            tokio::time::sleep(took.min(LONGEST_REST)).await;
            drop(share);
        });
    }
}

/// The limits of a read: its deadline, and the cancellation by its caller. The thread of a read can only end itself.
pub struct Patience {
    deadline: Instant,
    gone: CancellationToken,
    /// Whether the time was found to be over.
    is_out: Cell<bool>,
}

impl Patience {
    /// Whether the caller has given up: because the deadline has passed, or because it stopped waiting.
    pub fn is_over(&self) -> bool {
        if !self.is_out.get() && (self.gone.is_cancelled() || Instant::now() >= self.deadline) {
            self.is_out.set(true);
        }
        self.is_out.get()
    }

    /// A view whose rows end when the caller has given up.
    pub fn over<V: View>(&self, view: V) -> TimeLimited<'_, V> {
        TimeLimited { patience: self, view }
    }
}

/// See [`Patience::over`].
pub struct TimeLimited<'a, V> {
    patience: &'a Patience,
    view: V,
}

impl<V> TimeLimited<'_, V> {
    /// Reads in chunks. `next` is given the number of rows wanted, and the last key of the chunk before.
    fn in_parts(&self, limit: usize, next: impl Fn(usize, Option<&[u8]>) -> Pairs) -> Pairs {
        let mut pairs = Pairs::new();
        while pairs.len() < limit && !self.patience.is_over() {
            let wanted = (limit - pairs.len()).min(CHUNK);
            let part = next(wanted, pairs.last().map(|(key, _)| key.as_slice()));
            let is_last = part.len() < wanted;
            pairs.extend(part);
            if is_last {
                break;
            }
        }
        pairs
    }
}

impl<V: View> View for TimeLimited<'_, V> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        if self.patience.is_over() { None } else { self.view.get(key) }
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.in_parts(limit, |wanted, last| match last {
            Some(last) => self.view.scan(&just_after(last), to, wanted),
            None => self.view.scan(from, to, wanted),
        })
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.in_parts(limit, |wanted, last| self.view.scan_back(from, last.unwrap_or(to), wanted))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::Arc;

    use model::error::ErrorCode;
    use raft::machine::{MemoryState, State};
    use tokio::sync::oneshot;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn reads() -> Arc<Reads> {
        Arc::new(Reads(Shares::new(MOST, 1)))
    }

    fn soon() -> Instant {
        Instant::now() + LONG
    }

    #[tokio::test]
    async fn a_reading_ends_once_nobody_waits_for_it() {
        let (ended, has_ended) = oneshot::channel();
        let reads = reads();
        let reading = reads.read(None, soon(), move |patience| {
            while !patience.is_over() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        });
        let waited = tokio::time::timeout(Duration::from_millis(20), reading).await;
        assert!(waited.is_err(), "it goes on while somebody waits");
        tokio::time::timeout(LONG, has_ended).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_reading_ends_at_the_deadline_of_its_caller_and_what_it_made_of_half_the_rows_is_not_told() {
        let reads = reads();
        let mut state = MemoryState::new();
        (0_u32..3000).for_each(|number| state.put(&number.to_be_bytes(), &[]));
        let count = |patience: &Patience, state: MemoryState| {
            let view = patience.over(state);
            let all = view.scan(&[], &[0xff], usize::MAX);
            assert_eq!(all.iter().rev().cloned().collect::<Pairs>(), view.scan_back(&[], &[0xff], usize::MAX));
            assert_eq!(view.scan(&[], &[0xff], 1000), all[..all.len().min(1000)]);
            all.len()
        };
        let whole = state.clone();
        assert_eq!(reads.read(None, soon(), move |patience| count(patience, whole)).await.unwrap(), 3000);
        let late = reads.read(None, Instant::now(), move |patience| {
            assert_eq!((count(patience, state.clone()), patience.over(state).get(&0_u32.to_be_bytes())), (0, None));
        });
        assert_eq!(late.await.unwrap_err().code, ErrorCode::WorkerAtCapacity);
    }

    #[tokio::test]
    async fn readings_of_one_account_take_turns_and_leave_those_of_others_alone() {
        let reads = reads();
        let (loud, quiet) = (CustomerId::random(), CustomerId::random());
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let long = tokio::spawn({
            let reads = reads.clone();
            let work = move |_: &Patience| {
                begun.send(()).unwrap();
                goes_on.recv().unwrap();
            };
            async move { reads.read(Some(loud), soon(), work).await }
        });
        has_begun.await.unwrap();
        let next = reads.read(Some(loud), Instant::now() + Duration::from_millis(20), |_| ());
        assert_eq!(next.await.unwrap_err().code, ErrorCode::WorkerAtCapacity);
        assert_eq!(reads.read(Some(quiet), soon(), |_| 7).await.unwrap(), 7);
        go_on.send(()).unwrap();
        long.await.unwrap().unwrap();
        reads.read(Some(loud), soon(), |_| ()).await.unwrap();
    }
}
