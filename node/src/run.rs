//! `gateway run`: the life of a node. What the operator gave is read and judged; the node listens and looks for its
//! cluster; it serves; it hands its work over and ends.

use crate::assembly;
use crate::config::Config;
use crate::configured::Configured;
use crate::stop::StopSignals;

/// Runs a node until it is told to stop.
///
/// # Errors
/// A [`Refusal`](crate::refusal::Refusal) for what the operator gave; anything else for what the machine did not do.
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
        // Nothing was taken over yet, so there is nothing to transfer.
        () = stop.next() => return Ok(()),
    };
    // The node listens; whether it can serve depends on the others.
    let serving = async {
        if let Err(refusal) = assembly.ready().await {
            return refusal;
        }
        tracing::info!("ready");
        std::future::pending().await
    };
    tokio::select! {
        // The cluster does not let this node in, or the others have taken over all that it did.
        refusal = assembly.excluded() => return Err(refusal.into()),
        // The other nodes run another driver.
        refusal = serving => return Err(refusal.into()),
        () = stop.next() => {}
    }
    // It transfers the leadership of what it owns, answers what it has taken, and closes. A second signal ends it at
    // once; nothing that was answered is lost then either.
    tracing::info!("draining; a second signal ends the process at once");
    tokio::select! {
        () = assembly.stop() => tracing::info!("stopped"),
        () = stop.next() => tracing::warn!("stopped in the middle of draining"),
    }
    Ok(())
}
