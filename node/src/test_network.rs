//! `gateway test-network`: the real network's protocol on loopback, with phones controlled by tests and people.

use testnet::{Config, TestNet};

use crate::cli::TestNetworkArgs;
use crate::refusal::Refusal;
use crate::stop::StopSignals;

/// Runs the test network until the process is told to stop. Nothing is stored.
///
/// # Errors
/// A [`Refusal`] when an address is not a loopback address or is in use.
pub async fn run(args: TestNetworkArgs) -> anyhow::Result<()> {
    let TestNetworkArgs { control, chat, media, qr_time_scale } = args;
    let mut stop = StopSignals::listen()?;
    let started = TestNet::start(Config { control, chat, media, qr_time_scale }).await;
    let network = started.map_err(|error| {
        let ports = format!("--control {control} --chat {chat} --media {media}");
        Refusal::new(ports, error, "stop what uses a port, or choose others of this machine")
    })?;
    tracing::info!(control = %network.control_address(), chat = %network.chat_address(), "the test network runs");
    stop.next().await;
    network.shutdown().await;
    Ok(())
}
