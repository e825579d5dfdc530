//! The signals that tell a process to end.

use std::io;

use anyhow::Context;
use futures::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM of a supervisor, or Ctrl-C; and where it is asked for, others.
pub struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// # Errors
    /// When the process cannot hear signals.
    pub fn listen() -> anyhow::Result<Self> {
        Self::listen_also(None)
    }

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
