//! Supervision of the tasks that a node needs: a panic must neither go unnoticed nor leave a node that looks healthy
//! and does not work.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Interval, MissedTickBehavior};

use crate::fatal::Fatal;
use crate::{rt, telemetry};

/// Pause between a panic and the restart. It doubles each time, because the cause may persist.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A task that has run this long resets the pause.
const STABLE: Duration = Duration::from_secs(60);

/// How long a panic is reported to operators.
const TOLD_FOR: Duration = Duration::from_secs(3600);

/// Number of a task's panics, and the time of the latest one.
struct Panics {
    count: u32,
    last: Instant,
}

/// Panics of this process, by task.
static PANICS: Mutex<BTreeMap<&'static str, Panics>> = Mutex::new(BTreeMap::new());

/// Tasks that panicked within the last hour, each with its panics since it last went an hour without one.
pub(crate) fn panics() -> BTreeMap<String, u32> {
    let panics = PANICS.lock();
    let told = panics.iter().filter(|(_, of_task)| of_task.last.elapsed() < TOLD_FOR);
    told.map(|(task, of_task)| ((*task).to_owned(), of_task.count)).collect()
}

/// Runs a task to its end; restarts it after a panic, without limit.
///
/// For tasks that handle customers' data: data that makes a task panic may do so on every node, and must stop none.
pub async fn restarted<T, F: Future<Output = T>>(task: &'static str, mut begin: impl FnMut() -> F) -> T {
    telemetry::task_begun(task);
    let mut pause = FIRST_PAUSE;
    loop {
        let began = rt::now();
        // Each run starts from what is stored, and recovers what a panicked run left unfinished.
        if let Some(output) = noticed(task, async { begin().await }).await {
            return output;
        }
        if rt::now().saturating_duration_since(began) > STABLE {
            pause = FIRST_PAUSE;
        }
        rt::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Interval of a periodic check: the first tick is immediate, and after a slow check the full interval passes again.
pub fn ticks(every: Duration) -> Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Spawns a task that is restarted when it panics.
pub fn spawn<F>(task: &'static str, mut begin: impl FnMut() -> F + Send + 'static) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    start(task, Box::new(move || begin().boxed()))
}

fn start(task: &'static str, begin: Box<dyn FnMut() -> BoxFuture<'static, ()> + Send>) -> JoinHandle<()> {
    tokio::spawn(restarted(task, begin))
}

/// Runs blocking work on a thread of the blocking pool. tokio's code for a task, 3,000 lines of it, is compiled for
/// each type of work and result: here for a single type.
///
/// # Errors
/// When the work panicked, or was cancelled because the runtime shuts down.
pub fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, JoinError>> + Send {
    let (out, made) = oneshot::channel();
    // The caller may have given up.
    let thread = begin_on_thread(Box::new(move || drop(out.send(work()))));
    async move {
        thread.await?;
        Ok(made.await.expect("work that ended has left its result"))
    }
}

fn begin_on_thread(work: Box<dyn FnOnce() + Send>) -> JoinHandle<()> {
    tokio::task::spawn_blocking(work)
}

/// Runs a task to its end; ends the node if it panics: the node is of no use without it, and other nodes take over its
/// work. Returns `None` then, if the host has replaced the fatal handler.
pub async fn required<T>(task: &'static str, fatal: &Fatal, work: impl Future<Output = T>) -> Option<T> {
    telemetry::task_begun(task);
    let output = noticed(task, work).await;
    if output.is_none() {
        fatal(format!("{task} panicked, and nothing works without it; the lines above say where"));
    }
    output
}

/// Runs a task to its end; `None` if it panicked, which is logged and counted.
// Not an async function: its state would hold the work twice, in each of a hundred thousand channel tasks.
pub fn noticed<T>(task: &'static str, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    AssertUnwindSafe(work).catch_unwind().map(move |ended| ended.inspect_err(|panic| note(task, &**panic)).ok())
}

/// Result of a thread or another task. A panic there continues in the waiting task, for its supervisor; `None` if the
/// work was cancelled because the runtime shuts down.
pub async fn joined<T>(work: impl Future<Output = Result<T, JoinError>>) -> Option<T> {
    match work.await.map_err(JoinError::try_into_panic) {
        Ok(made) => Some(made),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// Runs work on this thread; `None` if it panicked, which is logged and counted.
pub(crate) fn noticed_in_thread<T>(task: &'static str, work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).inspect_err(|panic| note(task, &**panic)).ok()
}

/// Logs and counts a panic.
pub(crate) fn note(task: &'static str, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let reason = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(task, reason, "a task panicked");
    telemetry::task_panicked(task);
    let (now, mut panics) = (Instant::now(), PANICS.lock());
    let of_task = panics.entry(task).or_insert(Panics { count: 0, last: now });
    let before = if now.saturating_duration_since(of_task.last) < TOLD_FOR { of_task.count } else { 0 };
    *of_task = Panics { count: before.saturating_add(1), last: now };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_begun_again_until_it_ends() {
        let tries = AtomicUsize::new(0);
        let output = restarted("a test", || async {
            let done = tries.fetch_add(1, Ordering::SeqCst);
            assert!(done >= 2, "not yet");
            done
        });
        assert_eq!(output.await, 2);
    }

    #[tokio::test]
    async fn operators_are_told_which_tasks_have_panicked_and_how_often() {
        assert_eq!(noticed("a test that is well", async { 7 }).await, Some(7));
        for tries in 1..=3 {
            assert_eq!(noticed("a test that never is", async { assert_eq!(1, 2) }).await, None);
            let told = panics();
            assert_eq!(told.get("a test that never is"), Some(&tries));
            assert_eq!(told.get("a test that is well"), None);
        }
    }

    #[tokio::test]
    async fn a_panic_on_a_thread_is_one_of_the_task_that_waits_for_it() {
        let tries = Arc::new(AtomicUsize::new(0));
        let output = restarted("a test", || {
            let tries = tries.clone();
            joined(on_thread(move || {
                let done = tries.fetch_add(1, Ordering::SeqCst);
                assert!(done >= 1, "not yet");
                done
            }))
        });
        assert_eq!(output.await, Some(1));
    }

    #[tokio::test]
    async fn a_required_task_that_panics_ends_the_node_with_its_name() {
        let said = Arc::new(Mutex::new(String::new()));
        let hears = said.clone();
        let fatal: Fatal = Arc::new(move |reason| *hears.lock() = reason);
        assert_eq!(required("the test", &fatal, async { 7 }).await, Some(7));
        assert_eq!(said.lock().as_str(), "");
        assert_eq!(required("the test", &fatal, async { assert_eq!(1, 2) }).await, None);
        assert!(said.lock().contains("the test panicked"), "{}", said.lock());
    }
}
