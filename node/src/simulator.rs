//! `gateway simulator`: the network simulator with its control API.

use std::net::SocketAddr;

use network::simulator::Simulator;

/// Runs the simulator until the process is told to stop.
///
/// # Errors
/// An address that is not a loopback one, or is taken.
pub async fn run(control: SocketAddr, network: SocketAddr, qr_time_scale: f64) -> anyhow::Result<()> {
    anyhow::ensure!(control.ip().is_loopback(), "the simulator's control API listens on loopback only, not on {control}");
    let _simulator = Simulator::start(network, qr_time_scale).await?;
    Ok(())
}
