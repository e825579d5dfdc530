//! Handler for the case that a node cannot continue safely.

use std::sync::Arc;

/// Called with the reason when the node cannot continue safely, for example after a disk error. It has to end the
/// process: otherwise the node would answer from a state that it cannot keep.
pub type Fatal = Arc<dyn Fn(String) + Send + Sync>;

/// Logs the reason and ends the process with code 3.
pub fn exit() -> Fatal {
    Arc::new(|reason| {
        tracing::error!(%reason, "this node stops: it cannot go on safely");
        std::process::exit(3);
    })
}
