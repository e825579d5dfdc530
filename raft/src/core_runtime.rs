//! The runtime of openraft's cores: tokio, but without openraft's own timeouts, which are too short for a busy machine.
//!
//! openraft gives up on a heartbeat after one interval, and on a vote after the shortest wait before it stands for
//! election: 80 and 120 ms in one data centre. On busy CPUs, all answers may take longer; then no leader keeps its
//! lease, and none is elected. So only [`crate::network::Timeouts`] limits requests.
//!
//! The runtime also watches all tasks of a core: openraft only notices a panic of its main loop, and a leader whose
//! replication task for a follower is gone would never send to it again.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures::FutureExt;
use openraft::OptionalSend;
use openraft::async_runtime::AsyncRuntime;
use tokio_util::sync::CancellationToken;

use crate::supervise;

#[allow(deprecated, reason = "openraft re-exports its tokio runtime only under a deprecated name")]
type Tokio = openraft::impls::TokioRuntime;

/// At least the longest timeout of a vote ([`crate::network::Timeouts`]), that between regions.
const LEAST: Duration = Duration::from_secs(12);

tokio::task_local! {
    /// Cancelled when a task of this core panics.
    static PANICKED: CancellationToken;
}

/// Runs the start of a core. `panicked` is cancelled when one of its tasks, or a task spawned by these, panics.
pub(crate) fn watched<T>(panicked: CancellationToken, begin: impl Future<Output = T>) -> impl Future<Output = T> {
    PANICKED.scope(panicked, begin)
}

#[derive(Debug)]
pub(crate) struct CoreRuntime(Tokio);

impl AsyncRuntime for CoreRuntime {
    type JoinError = <Tokio as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <Tokio as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <Tokio as AsyncRuntime>::Sleep;
    type Instant = <Tokio as AsyncRuntime>::Instant;
    type TimeoutError = <Tokio as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <Tokio as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = <Tokio as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <Tokio as AsyncRuntime>::Mpsc;
    type Watch = <Tokio as AsyncRuntime>::Watch;
    type Oneshot = <Tokio as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <Tokio as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        let Ok(panicked) = PANICKED.try_with(Clone::clone) else { return Tokio::spawn(future) };
        let told = panicked.clone();
        let future = AssertUnwindSafe(future).catch_unwind().map(move |ended| {
            ended.unwrap_or_else(|panic| {
                supervise::note("a Raft core", &*panic);
                told.cancel();
                resume_unwind(panic)
            })
        });
        Tokio::spawn(PANICKED.scope(panicked, future))
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        Tokio::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        Tokio::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        Tokio::timeout(duration.max(LEAST), future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        Tokio::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        Tokio::is_panic(join_error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        Tokio::thread_rng()
    }

    fn new(threads: usize) -> Self {
        Self(Tokio::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::network::Timeouts;
    use crate::timing::Timing;

    #[tokio::test]
    async fn an_answer_that_comes_behind_openrafts_own_limit_counts() {
        let answer = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            7
        };
        assert_eq!(CoreRuntime::timeout(Duration::from_millis(1), answer).await.ok(), Some(7));
    }

    #[tokio::test]
    async fn a_panic_in_a_task_of_a_core_or_in_one_that_it_spawned_is_told() {
        for depth in 0..2 {
            let panicked = CancellationToken::new();
            let (sees, well) = (panicked.clone(), CoreRuntime::spawn(async { 7 }));
            let begin = async move {
                let inner = async move { assert!(depth > 1, "at depth {depth}") };
                let task = if depth == 0 {
                    CoreRuntime::spawn(inner)
                } else {
                    CoreRuntime::spawn(async { CoreRuntime::spawn(inner).await.unwrap() })
                };
                CoreRuntime::is_panic(&task.await.unwrap_err())
            };
            assert!(watched(panicked, begin).await, "openraft is told, too");
            assert!(sees.is_cancelled() && well.await.unwrap() == 7);
        }
        assert!(supervise::panics().contains_key("a Raft core"));
    }

    #[test]
    fn the_network_gives_up_before_openraft_would_and_heartbeats_within_the_shortest_election() {
        for timing in [Timing::LAN, Timing::WAN] {
            let Timeouts { vote, heartbeat, control, .. } = Timeouts::of(&timing);
            assert!(vote <= LEAST && timing.election_max < vote, "{vote:?}");
            assert!(timing.heartbeat < heartbeat && heartbeat < timing.election_min, "{heartbeat:?}");
            assert!(control < timing.election_min, "{control:?}");
        }
    }
}
