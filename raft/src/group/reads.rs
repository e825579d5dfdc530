//! Read-index rounds of a leader: calls that arrive during a round share the next one.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Core, ReadError};

type Waiting = oneshot::Sender<Result<u64, ReadError>>;

#[derive(Default)]
struct State {
    running: bool,
    waiting: Vec<Waiting>,
}

/// Read-index rounds of one group.
#[derive(Default)]
pub(super) struct Rounds {
    state: Mutex<State>,
}

impl Rounds {
    /// Waits for a round that begins after this call: a running one may miss what another node has just answered.
    pub(super) async fn join(&self, core: &Arc<Core>) -> Result<u64, ReadError> {
        let (waiting, result) = oneshot::channel();
        let start = {
            let mut state = self.state.lock();
            state.waiting.push(waiting);
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            let held = core.clone();
            core.runtime().spawn(core.tracked(async move { held.reads.run(&held).await }));
        }
        result.await.unwrap_or(Err(ReadError::Stopped))
    }

    async fn run(&self, core: &Core) {
        let _unwinding = Unwinding(self);
        loop {
            let waiting = {
                let mut state = self.state.lock();
                if state.waiting.is_empty() {
                    state.running = false;
                    return;
                }
                std::mem::take(&mut state.waiting)
            };
            let result = core.read_round().await;
            for call in waiting {
                // The caller may have given up.
                let _ = call.send(result.clone());
            }
        }
    }
}

/// If a round panics, fails the waiting calls and lets the next call start a new round.
struct Unwinding<'a>(&'a Rounds);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock();
            state.running = false;
            state.waiting.clear();
        }
    }
}
