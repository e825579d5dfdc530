//! tokio, as openraft sees it: with no limit of openraft's own that is too short for a busy machine.
//!
//! openraft gives up a heartbeat after one interval, and a vote after the least time that it waits before it stands for election: 80
//! and 120 ms in one data centre. On busy processors all answers may take longer, and then no leader keeps its lease and none is
//! elected for as long as they are busy. How long a request may take is said by [`crate::network::Timeouts`] alone.

use std::future::Future;
use std::time::Duration;

use openraft::OptionalSend;
use openraft::async_runtime::AsyncRuntime;

#[allow(deprecated, reason = "openraft re-exports its tokio runtime only under a deprecated name")]
type Tokio = openraft::impls::TokioRuntime;

/// No less than a vote may take ([`crate::network::Timeouts`]) between nodes in different regions.
const LEAST: Duration = Duration::from_secs(12);

#[derive(Debug)]
pub(crate) struct Unhurried(Tokio);

impl AsyncRuntime for Unhurried {
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
        Tokio::spawn(future)
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
        assert_eq!(Unhurried::timeout(Duration::from_millis(1), answer).await.ok(), Some(7));
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
