//! The load on a cluster while faults are injected: customers, their clients, phones and receivers, drawn from a seed.
//!
//! Everything is recorded as it is seen from outside. The rate is bounded so that three nodes on two cores have
//! capacity left, and every call has a timeout.
//!
//! - [`acts`]: actions of customers and phones that a schedule triggers. `neighbours`, `noise`, `sizes`: parts of them.
//! - [`cast`]: customers, connected channels and endpoints that exist from the beginning to the end.
//! - [`client`]: one call at a time, recorded.
//! - `gather`: queries the final state of network and gateway.
//! - [`hooks`]: the webhook receivers, good and bad.
//! - `sends`, `keys`, `channels`, `endpoints`, `streams`, `strangers`, `limits`: the kinds of clients.
//! - [`rest`]: waits for the cluster to heal, and for what is in flight to arrive.

pub mod acts;
pub mod cast;
pub mod client;
pub mod hooks;
pub mod rest;

mod channels;
mod endpoints;
mod gather;
mod keys;
mod leaders;
mod limits;
mod neighbours;
mod noise;
mod sends;
mod sizes;
mod strangers;
mod streams;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;

use crate::history::{At, Evidence, Liveness, Recorder};
use crate::world::map::Maps;
use acts::Acts;
use cast::Cast;
use client::Shared;
use hooks::Hooks;

/// The amount of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Connected channels of the first customer.
    pub channels: usize,
    /// Sends per second, over all channels.
    pub sends: f64,
    /// Messages that phones write, per second.
    pub inbound: f64,
    /// Keys, endpoints and channels that exist at a time, of each kind.
    pub lives: usize,
    pub streams: usize,
    /// Calls per second against a small bucket.
    pub draws: f64,
    /// Whether there are a quiet tenant, which is measured, and a loud one.
    pub neighbours: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { channels: 8, sends: 20.0, inbound: 3.0, lives: 1, streams: 2, draws: 10.0, neighbours: false }
    }
}

/// A workload that goes on until it is stopped.
pub struct Workload {
    shared: Arc<Shared>,
    cast: Arc<Cast>,
    acts: Acts,
    hooks: Hooks,
    clients: JoinSet<()>,
}

impl Workload {
    /// Creates customers, pairs channels, and starts all clients.
    ///
    /// # Errors
    /// When a participant cannot be created within a minute.
    pub async fn start(maps: Maps, seed: u64, recorder: Arc<Recorder>, pace: Pace) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::new(maps, recorder.clone(), seed));
        let hooks = Hooks::start(shared.map().receivers, recorder).await.context("webhook receivers")?;
        let cast = Arc::new(Cast::gather(&shared, &hooks, pace).await.context("setting the stage")?);
        let mut clients = JoinSet::new();
        sends::begin(&shared, &cast, pace, &mut clients);
        keys::begin(&shared, &cast, pace, &mut clients);
        channels::begin(&shared, &cast, pace, &mut clients);
        endpoints::begin(&shared, &cast, &hooks, pace, &mut clients);
        streams::begin(&shared, &cast, pace, &mut clients);
        strangers::begin(&shared, &cast, &mut clients);
        limits::begin(&shared, &cast, pace, &mut clients);
        leaders::begin(&shared, &cast, &mut clients);
        neighbours::begin(&shared, &cast, &mut clients);
        let acts = Acts::new(shared.clone(), cast.clone(), hooks.url(""));
        Ok(Self { shared, cast, acts, hooks, clients })
    }

    /// The actions of customers and phones that a schedule triggers.
    pub fn acts(&self) -> &Acts {
        &self.acts
    }

    /// The group whose owner is the main customer's coordinator: no node admits a call of the customer without it.
    pub fn main_home(&self) -> u16 {
        self.cast.main_home
    }

    /// Makes clients that may use any node use this one, or any node again.
    pub fn draw_to(&self, node: Option<u64>) {
        self.shared.draw_to(node);
    }

    /// Makes all webhook receivers take seconds for each response, or behave as usual again.
    pub fn hold_webhooks(&self, hold: bool) {
        self.hooks.hold(hold);
    }

    /// Waits until every channel is connected and a send was accepted through every node, while the load goes on.
    /// `since` is the end of the last fault.
    pub async fn heal(&self, since: At, bound: Duration) -> Liveness {
        rest::heal(&self.shared, &self.cast, since, bound).await
    }

    /// Stops all clients, waits for what was promised to arrive, within a limit, and queries the final state of network
    /// and gateway. The replicas' states are added by the caller.
    ///
    /// # Errors
    /// When a client panicked, or the network or the gateway cannot be queried.
    pub async fn stop(self, liveness: Option<Liveness>) -> anyhow::Result<Evidence> {
        self.stop_within(liveness, Duration::MAX).await
    }

    /// As [`Self::stop`], waiting at most `patience` for what was promised.
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub async fn stop_within(mut self, liveness: Option<Liveness>, patience: Duration) -> anyhow::Result<Evidence> {
        self.shared.stop.cancel();
        while let Some(ended) = self.clients.join_next().await {
            ended.context("a client of the workload panicked")?;
        }
        leaders::look_last(&self.shared, &self.cast).await;
        rest::settle(&self.shared, &self.cast, patience).await?;
        let evidence = gather::gather(&self.shared, &self.cast).await?;
        // Receivers run until all queries are done, so that no delivery fails for want of them.
        drop(self.hooks);
        Ok(Evidence { liveness, ..evidence })
    }
}
