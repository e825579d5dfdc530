//! Signals that tell the process to stop.

use std::io;

use anyhow::Context;
use futures::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM (of a supervisor) and SIGINT (Ctrl-C), and optionally one more signal.
pub struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// Listens for SIGTERM and SIGINT.
    ///
    /// # Errors
    /// Signal handlers cannot be registered.
    pub fn listen() -> anyhow::Result<Self> {
        Self::listen_also(None)
    }

    /// Listens for another signal as well.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn listen_also(other: Option<SignalKind>) -> anyhow::Result<Self> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt()].into_iter().chain(other);
        let signals: io::Result<Vec<Signal>> = kinds.map(signal).collect();
        Ok(Self(signals.context("listening for signals")?))
    }

    pub async fn next(&mut self) {
        select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}
