//! Where everything of a world is: what a workload and a judge need to reach it, and nothing of how it runs.

use std::net::{IpAddr, Ipv4Addr};

use reqwest::Client;
use tests::cluster::Dev;
use tests::http::Api;
use tests::simulator::Simulator;
use tokio::sync::watch;

/// Follows a world whose nodes come and go: a workload asks it anew for each operation.
pub type Maps = watch::Receiver<Map>;

/// The world as it is now.
#[derive(Clone, Debug)]
pub struct Map {
    /// The members of the cluster, whether they run or not.
    pub nodes: Vec<Place>,
    /// Base URL of the simulator's control port.
    pub simulator: String,
    pub operator_token: String,
    /// Where a webhook receiver has to listen so that every node reaches it.
    pub receivers: IpAddr,
}

/// A node, as its callers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub id: u64,
    /// Base URL of the customers' port.
    pub api: String,
    /// Base URL of the operators' port.
    pub ops: String,
    /// Address of the other nodes' port.
    pub peer: String,
}

impl Place {
    /// A customer with a key at this node.
    pub fn customer(&self, client: &Client, key: &str) -> Api {
        Api::new(client.clone(), &self.api, Some(key))
    }
}

impl Map {
    /// The operator at a node.
    pub fn operator(&self, node: &Place, client: &Client) -> Api {
        Api::new(client.clone(), &node.ops, Some(&self.operator_token))
    }

    pub fn simulator(&self, client: &Client) -> Simulator {
        Simulator::new(client.clone(), &self.simulator)
    }
}

/// A cluster on loopback, as `gateway dev` starts it: for workloads that are tried without faults.
impl From<&Dev> for Map {
    fn from(dev: &Dev) -> Self {
        let place = |node: &tests::cluster::Node| Place {
            id: node.id,
            api: node.api.clone(),
            ops: node.ops.clone(),
            peer: node.peer.clone(),
        };
        Self {
            nodes: dev.nodes.iter().map(place).collect(),
            simulator: dev.simulator.clone(),
            operator_token: dev.operator_token.clone(),
            receivers: IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}
