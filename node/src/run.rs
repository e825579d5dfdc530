//! `gateway run`: the life of a node, as types that turn into each other.
//!
//! [`Configured`] has read and judged everything that the operator gave, and holds the data folder. [`Started`] listens
//! and looks for its cluster. [`Ready`] serves. [`Draining`] hands its work over and ends. Each step consumes the one
//! before, so that nothing can be served before it is there, or after it is gone.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::assembly::{self, Assembly};
use crate::config::Config;
use crate::configured::Configured;
use crate::refusal::Refusal;

/// Runs a node until it is told to stop.
///
/// # Errors
/// A [`Refusal`] for what the operator gave; anything else for what the machine did not do.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let mut stop = StopSignals::listen()?;
    let configured = Configured::prepare(config)?;
    let started = tokio::select! {
        started = Started::of(configured) => started?,
        // Nothing was taken over yet, so there is nothing to hand over.
        () = stop.next() => return Ok(()),
    };
    let draining = match started.until_ready(&mut stop).await {
        Awaited::Ready(ready) => ready.serve_until(&mut stop).await?,
        Awaited::Stopped(draining) => draining,
        Awaited::Excluded(refusal) => return Err(refusal.into()),
    };
    draining.finish(&mut stop).await;
    Ok(())
}

/// SIGTERM of a supervisor, or Ctrl-C.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The node listens; whether it can serve depends on the others.
pub struct Started {
    assembly: Assembly,
}

/// What ended the wait for the cluster.
pub enum Awaited {
    Ready(Ready),
    Stopped(Draining),
    /// The cluster does not let this node in, or is on another network.
    Excluded(Refusal),
}

impl Started {
    /// Opens the ports and the stores, and takes up the place in the cluster.
    ///
    /// # Errors
    /// What could not be opened.
    async fn of(configured: Configured) -> anyhow::Result<Self> {
        tracing::info!(
            node = configured.config.node.id,
            cluster = %configured.config.cluster.cluster_id,
            version = env!("CARGO_PKG_VERSION"),
            data_dir = %configured.folder.path.display(),
            "starting"
        );
        Ok(Self { assembly: assembly::assemble(configured).await? })
    }

    async fn until_ready(self, stop: &mut StopSignals) -> Awaited {
        tokio::select! {
            refusal = self.assembly.excluded() => Awaited::Excluded(refusal),
            ready = self.assembly.ready() => match ready {
                Ok(()) => {
                    tracing::info!("ready");
                    Awaited::Ready(Ready { assembly: self.assembly })
                }
                Err(refusal) => Awaited::Excluded(refusal),
            },
            () = stop.next() => Awaited::Stopped(Draining { assembly: self.assembly }),
        }
    }
}

/// The node serves.
pub struct Ready {
    assembly: Assembly,
}

impl Ready {
    async fn serve_until(self, stop: &mut StopSignals) -> Result<Draining, Refusal> {
        tokio::select! {
            // The others have taken over all that it did.
            refusal = self.assembly.excluded() => return Err(refusal),
            () = stop.next() => {}
        }
        Ok(Draining { assembly: self.assembly })
    }
}

/// The node was told to stop: it hands over what it owns, answers what it has taken, and closes.
pub struct Draining {
    assembly: Assembly,
}

impl Draining {
    /// A second signal ends it at once; nothing that was answered is lost then either.
    async fn finish(self, stop: &mut StopSignals) {
        tracing::info!("draining; a second signal ends the process at once");
        tokio::select! {
            () = self.assembly.stop() => tracing::info!("stopped"),
            () = stop.next() => tracing::warn!("stopped in the middle of draining"),
        }
    }
}
