//! `gateway simulator`: the network simulator with its control API.
//!
//! The API is thin: [`routes`] parses a request, calls the simulator's method, and returns its result.

mod routes;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use network::simulator::faults::check_time_scale;
use network::simulator::store::StoreError;
use network::simulator::{Simulator, StartError};
use salvo::Server;
use salvo::conn::Acceptor;
use salvo::conn::tcp::TcpAcceptor;
use tokio::net::TcpListener;

use crate::cli::SimulatorArgs;
use crate::refusal::{Refusal, ensure};
use crate::stop::StopSignals;

/// How long running requests may take once the simulator is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Runs the simulator until the process is told to stop.
///
/// # Errors
/// A [`Refusal`] when the control address is not a loopback address, an address is in use, the data folder cannot be
/// used, or the time scale is invalid.
pub async fn run(args: SimulatorArgs) -> anyhow::Result<()> {
    let SimulatorArgs { control, network, data, qr_time_scale } = args;
    let remedy = "it has no authentication, so name a loopback address such as 127.0.0.1:8090";
    ensure(control.ip().is_loopback(), format!("--control {control}"), "is not a loopback address", remedy)?;
    check_time_scale(qr_time_scale)
        .map_err(|problem| Refusal::new(format!("--qr-time-scale {qr_time_scale}"), problem, "choose another"))?;
    let listener = TcpListener::bind(control).await.map_err(|error| cannot_listen("--control", control, &error))?;
    let acceptor = TcpAcceptor::try_from(listener).map_err(|error| cannot_listen("--control", control, &error))?;
    let control = acceptor.local_addr()?;
    let listening = |error: &io::Error| cannot_listen("--network", network, error);
    let (simulator, keeper) = match &data {
        None => {
            let started = Simulator::start(network, control, qr_time_scale).await;
            (started.map_err(|error| listening(&error))?, None)
        }
        Some(folder) => {
            let started = Simulator::start_in(folder, network, control, qr_time_scale).await;
            let (simulator, keeper) = started.map_err(|error| match error {
                StartError::Listen(error) => listening(&error),
                StartError::Store(error) => cannot_keep(&error),
            })?;
            (simulator, Some(keeper))
        }
    };
    tracing::info!(%control, network = %simulator.network_address(), "the simulator runs");
    serve(acceptor, &simulator).await?;
    simulator.shutdown().await;
    if let Some(keeper) = keeper {
        keeper.finish().await.context("the last state could not be written; the next start finds an older one")?;
    }
    Ok(())
}

fn cannot_keep(error: &StoreError) -> Refusal {
    let (path, remedy) = match error {
        StoreError::Io(path, _) => (path, "name a folder that can be written to"),
        StoreError::InUse(path) => (path, "stop the other one, or name another folder"),
        StoreError::Newer { path, .. } => (path, "start a newer release, or name another folder"),
        StoreError::Damaged { path, .. } => (path, "put a copy back, or remove the folder to forget all phones"),
    };
    Refusal::new(format!("--data ({})", path.display()), error, remedy)
}

fn cannot_listen(flag: &str, address: SocketAddr, error: &io::Error) -> Refusal {
    let remedy = "stop what uses the port, or choose another";
    Refusal::new(format!("{flag} {address}"), format!("cannot be listened on: {error}"), remedy)
}

async fn serve(acceptor: impl Acceptor, simulator: &Simulator) -> anyhow::Result<()> {
    let server = Server::new(acceptor);
    let handle = server.handle();
    let mut signals = StopSignals::listen()?;
    let stop = async {
        signals.next().await;
        handle.stop_graceful(STOP_WITHIN);
        // `try_serve` returns when the connections are closed, which ends the select below.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = server.try_serve(routes::router(simulator)) => served.context("the simulator's control API broke"),
        () = stop => Ok(()),
    }
}
