//! Threads for clients that users would have on other machines, and that share the processors with the nodes here.

use std::sync::{Arc, LazyLock};

use ::tests::http;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use shard::media::give_way;
use tokio::runtime::{Builder, Handle, Runtime};

use super::client::{Client, Shared, Tenant};

/// The niceness of who waits for no processor.
const FIRST: i32 = -19;

/// Some such threads, and the connections that are kept on them, which are nobody else's.
pub struct Threads {
    runtime: Runtime,
    connections: reqwest::Client,
}

/// Those of who makes a noise. They give way to all else: who makes noise elsewhere takes none of the nodes' processors for that.
pub fn loud() -> &'static Threads {
    static LOUD: LazyLock<Threads> = LazyLock::new(|| {
        Threads::new("loud", || {
            // One that stays as it was makes a node look slower than it is, and not faster.
            let _ = give_way();
        })
    });
    &LOUD
}

/// Those of who is measured. They go first: who waits elsewhere waits for the nodes alone, and not for their processors once more.
pub fn quiet() -> &'static Threads {
    static QUIET: LazyLock<Threads> = LazyLock::new(|| {
        Threads::new("quiet", || {
            // Without the right to it a node looks slower than it is.
            let _ = setpriority_process(Some(gettid()), FIRST);
        })
    });
    &QUIET
}

impl Threads {
    fn new(name: &'static str, begun: fn()) -> Self {
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(2).thread_name(name).enable_all().on_thread_start(begun);
        Self { runtime: threads.build().expect("threads can be started"), connections: http::client() }
    }

    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    pub fn client(&self, shared: &Arc<Shared>, tenant: &Tenant) -> Client {
        Client { http: self.connections.clone(), ..shared.client(tenant) }
    }
}
