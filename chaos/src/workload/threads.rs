//! Threads for clients that would run on other machines in production, but share the processors with the nodes here.

use std::sync::{Arc, LazyLock};

use ::tests::http;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use shard::media::give_way;
use tokio::runtime::{Builder, Handle, Runtime};

use super::client::{Client, Shared, Tenant};

/// Niceness of threads with priority over all others.
const FIRST: i32 = -19;

/// A pool of threads, with HTTP connections of its own.
pub struct Threads {
    runtime: Runtime,
    connections: reqwest::Client,
}

/// The noisy client's pool, with the lowest priority: a client elsewhere would take none of the nodes' processor time.
pub fn loud() -> &'static Threads {
    static LOUD: LazyLock<Threads> = LazyLock::new(|| {
        Threads::new("loud", || {
            // A failure makes nodes look slower than they are, never faster.
            let _ = give_way();
        })
    });
    &LOUD
}

/// The measured client's pool, with the highest priority: elsewhere a client would not wait for the nodes' processors.
pub fn quiet() -> &'static Threads {
    static QUIET: LazyLock<Threads> = LazyLock::new(|| {
        Threads::new("quiet", || {
            // Without the right to it, nodes look slower than they are.
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
