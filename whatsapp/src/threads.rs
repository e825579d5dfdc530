//! Session threads: a client and everything of its session live on one of them.
//!
//! Store calls are ready on the first poll. So on one thread nothing else of a client runs between two store calls, or
//! between a cache's read of the store and its re-check: a run of store calls is atomic.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use wacore::runtime::{AbortHandle, Runtime};

/// The session threads of a node.
pub struct Threads {
    threads: Vec<Arc<Thread>>,
}

/// A session thread.
pub struct Thread {
    handle: Handle,
    sessions: AtomicUsize,
    /// Dropping the sender ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Threads {
    /// # Errors
    /// A thread or its runtime could not be created.
    pub fn start(count: usize) -> io::Result<Self> {
        let start = |number| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let (stop, stopped) = oneshot::channel::<()>();
            let run = move || {
                // An error means that the sender was dropped.
                let _ = runtime.block_on(stopped);
                runtime.shutdown_background();
            };
            thread::Builder::new().name(format!("session-{number}")).spawn(run)?;
            Ok(Arc::new(Thread { handle, sessions: AtomicUsize::new(0), _stop: stop }))
        };
        Ok(Self { threads: (0..count.max(1)).map(start).collect::<io::Result<_>>()? })
    }

    /// Reserves a place on the thread with the fewest sessions.
    pub fn place(&self) -> Place {
        let fewest = self.threads.iter().min_by_key(|thread| thread.sessions.load(Ordering::Relaxed));
        let thread = Arc::clone(fewest.expect("there is at least one thread"));
        thread.sessions.fetch_add(1, Ordering::Relaxed);
        Place { thread }
    }
}

/// A session's place on a thread. Dropping it frees the place.
pub struct Place {
    thread: Arc<Thread>,
}

impl Place {
    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.thread.handle.spawn(future)
    }

    pub fn runtime(&self) -> SessionRuntime {
        SessionRuntime { handle: self.thread.handle.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.thread.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The runtime that the library uses.
pub struct SessionRuntime {
    handle: Handle,
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

impl Runtime for SessionRuntime {
    fn spawn(&self, future: Boxed) -> AbortHandle {
        let task = self.handle.spawn(future);
        AbortHandle::new(move || task.abort())
    }

    fn spawn_detached(&self, future: Boxed) {
        drop(self.handle.spawn(future));
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn_blocking(&self, f: Box<dyn FnOnce() + Send + 'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let task = self.handle.spawn_blocking(f);
        Box::pin(async move {
            // The library notices a panic in the task by itself: the result that it waits for never comes.
            let _ = task.await;
        })
    }

    fn yield_now(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        Some(Box::pin(tokio::task::yield_now()))
    }

    fn yield_frequency(&self) -> u32 {
        1
    }
}
