//! `gateway run`: the lifecycle of a node. It checks what the operator provided, listens and finds its cluster, serves,
//! then transfers its leaderships and ends.

use crate::assembly;
use crate::config::Config;
use crate::configured::Configured;
use crate::stop::StopSignals;

/// Runs a node until it is told to stop.
///
/// # Errors
/// A [`Refusal`](crate::refusal::Refusal) when the operator must change something; any other error when the machine
/// fails.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let mut stop = StopSignals::listen()?;
    let configured = Configured::prepare(config)?;
    tracing::info!(
        node = configured.config.node.id,
        cluster = %configured.config.cluster.cluster_id,
        version = env!("CARGO_PKG_VERSION"),
        data_dir = %configured.folder.path.display(),
        "starting"
    );
    let assembly = tokio::select! {
        assembled = assembly::assemble(configured) => assembled?,
        // The node owns nothing yet, so there is nothing to transfer.
        () = stop.next() => return Ok(()),
    };
    // The node listens; whether it can serve depends on the other nodes.
    let serving = async {
        if let Err(refusal) = assembly.ready().await {
            return refusal;
        }
        tracing::info!("ready");
        std::future::pending().await
    };
    tokio::select! {
        // The cluster rejected this node, for example because it was removed.
        refusal = assembly.excluded() => return Err(refusal.into()),
        // The other nodes run another driver.
        refusal = serving => return Err(refusal.into()),
        () = stop.next() => {}
    }
    // The node transfers its leaderships, answers the requests that it accepted, and closes. A second signal ends it at
    // once, which loses nothing that was acknowledged.
    tracing::info!("draining; a second signal ends the process at once");
    tokio::select! {
        () = assembly.stop() => tracing::info!("stopped"),
        () = stop.next() => tracing::warn!("stopped in the middle of draining"),
    }
    Ok(())
}
