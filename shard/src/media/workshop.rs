//! Threads for work that takes a processor for long: decoding pictures, converting sound. They have the lowest priority, so
//! that whatever keeps an ownership alive comes first on a machine that has nothing to spare.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use tokio::sync::oneshot;

/// As little as Linux gives.
const LOWEST: i32 = 19;

type Job = Box<dyn FnOnce() + Send>;

/// The work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work panicked, or no thread could be started for it")]
pub(super) struct Undone;

/// Threads of one kind of work, started with the first of it. They end with it.
///
/// Jobs wait in a queue that has no bound of its own: who brings them sees to it that there are no more than threads.
pub(super) struct Workshop {
    name: &'static str,
    threads: usize,
    jobs: OnceLock<Mutex<Sender<Job>>>,
}

impl Workshop {
    pub fn new(name: &'static str, threads: usize) -> Self {
        Self { name, threads, jobs: OnceLock::new() }
    }

    /// Does the work on one of the threads. It is done to its end, whoever waits for it.
    ///
    /// # Errors
    /// [`Undone`] when it panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Undone> {
        let (done, result) = oneshot::channel();
        let job = move || {
            if let Ok(made) = catch_unwind(AssertUnwindSafe(work)) {
                // Nobody may wait any more.
                let _ = done.send(made);
            }
        };
        let jobs = self.jobs.get_or_init(|| Mutex::new(open(self.name, self.threads)));
        jobs.lock().send(Box::new(job)).map_err(|_| Undone)?;
        result.await.map_err(|_| Undone)
    }
}

fn open(name: &'static str, threads: usize) -> Sender<Job> {
    let (jobs, taken) = channel();
    let taken = Arc::new(Mutex::new(taken));
    for _ in 0..threads {
        let taken: Arc<Mutex<Receiver<Job>>> = taken.clone();
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = setpriority_process(Some(gettid()), LOWEST) {
                tracing::warn!(%error, "a thread for pictures or sound keeps its priority");
            }
            loop {
                // Only one waits for the next job; the others wait for the lock.
                let job = taken.lock().recv();
                let Ok(job) = job else { return };
                job();
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread can be started for pictures or sound");
        }
    }
    jobs
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[tokio::test]
    async fn work_is_done_at_the_lowest_priority_and_a_panic_costs_nothing_else() {
        let workshop = Workshop::new("test", 1);
        let own = getpriority_process(Some(gettid())).unwrap();
        let panicked = workshop.run(|| panic!("damaged bytes")).await;
        assert_eq!(panicked, Err::<(), _>(Undone));
        let priority = workshop.run(|| getpriority_process(Some(gettid())).unwrap()).await.unwrap();
        assert_eq!(priority, LOWEST);
        assert_eq!(getpriority_process(Some(gettid())).unwrap(), own, "it is the thread's alone");
    }
}
