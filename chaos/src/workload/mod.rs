//! What goes on in a cluster while it is broken: customers, their clients, phones and receivers, by a seed.
//!
//! Everything is recorded as it is seen from outside. The pace is bounded so that three nodes on two cores have room
//! left, and every call has a deadline.
//!
//! - [`acts`]: what customers and phones do when a schedule says so. `neighbours`, `noise`, `sizes`: some of it.
//! - [`cast`]: customers, connected channels and endpoints that are there from the beginning to the end.
//! - [`client`]: one call at a time, recorded.
//! - `gather`: what is asked of the network and the gateway once everything has come to rest.
//! - [`hooks`]: the receivers, good and bad.
//! - `sends`, `keys`, `channels`, `endpoints`, `streams`, `strangers`, `limits`: what each kind of client does.
//! - [`rest`]: waiting for the cluster to heal, and for what is under way to arrive.

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

/// How much goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Connected channels of the first customer.
    pub channels: usize,
    /// Sends a second, over all channels.
    pub sends: f64,
    /// Messages that phones write, a second.
    pub inbound: f64,
    /// Keys, endpoints and channels that live at a time, of each kind.
    pub lives: usize,
    pub streams: usize,
    /// Calls a second against a small bucket.
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
    /// Makes customers, pairs channels, and lets all clients begin.
    ///
    /// # Errors
    /// When something that is there from the beginning cannot be made within a minute.
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

    /// What customers and phones do when they are told to.
    pub fn acts(&self) -> &Acts {
        &self.acts
    }

    /// The group whose owner counts the main customer's calls: no other node takes one without it.
    pub fn main_home(&self) -> u16 {
        self.cast.main_home
    }

    /// Has all clients that may ask any node ask this one, or any again.
    pub fn draw_to(&self, node: Option<u64>) {
        self.shared.draw_to(node);
    }

    /// Has all webhook receivers take seconds for what they get, or answer as they are made to again.
    pub fn hold_webhooks(&self, hold: bool) {
        self.hooks.hold(hold);
    }

    /// Waits until every channel is connected and a send was taken through every node, while all goes on. `since` is
    /// when the last fault had ended.
    pub async fn heal(&self, since: At, bound: Duration) -> Liveness {
        rest::heal(&self.shared, &self.cast, since, bound).await
    }

    /// Ends all clients, waits until what they were promised has arrived, or for as long as that may take, and gathers
    /// what the network and the gateway know. The replicas' states are the world's to add.
    ///
    /// # Errors
    /// When a client panicked, or the network or the gateway does not tell what it knows.
    pub async fn stop(self, liveness: Option<Liveness>) -> anyhow::Result<Evidence> {
        self.stop_within(liveness, Duration::MAX).await
    }

    /// As [`Self::stop`], with at most so much patience for what was promised.
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
        // Receivers stay until nothing more is asked, so that nothing fails for want of them.
        drop(self.hooks);
        Ok(Evidence { liveness, ..evidence })
    }
}
