//! What happens when a node cannot go on safely.

use std::sync::Arc;

/// Called with a reason when the node cannot go on safely (its disk failed, say). It has to end the process: a node
/// that limps on would answer from a state that it cannot keep.
pub type Fatal = Arc<dyn Fn(String) + Send + Sync>;

/// Logs the reason and ends the process with code 3.
pub fn exit() -> Fatal {
    Arc::new(|reason| {
        tracing::error!(%reason, "this node stops: it cannot go on safely");
        std::process::exit(3);
    })
}
