//! Threads for work that takes a processor for long: decoding pictures, converting sound. They yield to all others, so
//! that whatever keeps an ownership alive comes first on a saturated machine.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work panicked, or no thread could be started for it")]
pub(super) struct Undone;

/// Threads for one kind of work. They start with its first job, and end when this is dropped.
///
/// The queue of jobs is not bounded: the caller ensures that there are no more jobs than threads.
pub(super) struct Workshop {
    name: &'static str,
    threads: usize,
    jobs: OnceLock<Mutex<Sender<Job>>>,
}

impl Workshop {
    pub fn new(name: &'static str, threads: usize) -> Self {
        Self { name, threads, jobs: OnceLock::new() }
    }

    /// Does the work on one of the threads, to its end even if nobody waits for it.
    ///
    /// # Errors
    /// [`Undone`] if it panicked, or no thread could be started.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Undone> {
        let (done, result) = oneshot::channel();
        let job = move || {
            if let Ok(made) = catch_unwind(AssertUnwindSafe(work)) {
                // The caller may not wait any more.
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
            if let Err(error) = give_way() {
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

/// How long work goes on between two pauses, and how long each pause lasts.
const STRETCH: Duration = Duration::from_millis(2);

/// Pauses for work that would keep a processor busy all the time. A processor that is idle now and then takes waiting
/// threads from others; the system moves few threads to a busy one, however unimportant its work is.
pub(super) struct Pauses {
    since: Instant,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { since: Instant::now() }
    }
}

impl Pauses {
    /// Pauses if it is time to. Has to be called many times in each millisecond of work.
    pub fn take(&mut self) {
        if self.since.elapsed() >= STRETCH {
            std::thread::sleep(STRETCH);
            self.since = Instant::now();
        }
    }
}

/// Lets the calling thread run only when no other one wants the processor, and preempts it at once for one that does.
/// The lowest niceness is not enough: such a thread still runs to the end of its time slice, some milliseconds.
///
/// # Errors
/// If the system does not permit it.
#[allow(unsafe_code, reason = "no library with a safe interface sets this policy")]
pub fn give_way() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: The system reads the parameters and keeps no address. 0 is the calling thread.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// The scheduling policy of the calling thread: field 41 of its `stat`.
    fn policy() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn work_pauses_for_half_of_its_time() {
        let (begun, mut pauses, mut busy) = (Instant::now(), Pauses::default(), Duration::ZERO);
        while begun.elapsed() < STRETCH * 20 {
            let since = Instant::now();
            while since.elapsed() < STRETCH / 10 {}
            busy += since.elapsed();
            pauses.take();
        }
        assert!(busy < begun.elapsed() * 2 / 3, "{busy:?}");
    }

    #[tokio::test]
    async fn work_gives_way_to_all_else_and_a_panic_costs_nothing_else() {
        let workshop = Workshop::new("test", 1);
        let panicked = workshop.run(|| panic!("damaged bytes")).await;
        assert_eq!(panicked, Err::<(), _>(Undone));
        assert_eq!(workshop.run(policy).await, Ok(libc::SCHED_IDLE));
        assert_eq!(policy(), libc::SCHED_OTHER, "it is the thread's alone");
    }
}
