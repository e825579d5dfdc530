//! The addresses of a world: what a workload and the checks need to reach it, without how it runs.

use std::net::{IpAddr, Ipv4Addr};

use reqwest::Client;
use tests::cluster::Dev;
use tests::http::Api;
use tests::simulator::Simulator;
use tokio::sync::watch;

/// Follows a world whose nodes come and go. A workload reads it afresh for each operation.
pub type Maps = watch::Receiver<Map>;

/// The current addresses of a world.
#[derive(Clone, Debug)]
pub struct Map {
    /// The members of the cluster, whether they run or not.
    pub nodes: Vec<Place>,
    /// Base URL of the simulator's control port.
    pub simulator: String,
    pub operator_token: String,
    /// Address on which a webhook receiver must listen for all nodes to reach it.
    pub receivers: IpAddr,
}

/// A node's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub id: u64,
    /// Base URL of the customers' port.
    pub api: String,
    /// Base URL of the operators' port.
    pub ops: String,
    /// Address of the port for other nodes.
    pub peer: String,
}

impl Place {
    /// A client of this node's customer port, with a customer's key.
    pub fn customer(&self, client: &Client, key: &str) -> Api {
        Api::new(client.clone(), &self.api, Some(key))
    }
}

impl Map {
    /// A client of a node's operator port.
    pub fn operator(&self, node: &Place, client: &Client) -> Api {
        Api::new(client.clone(), &node.ops, Some(&self.operator_token))
    }

    pub fn simulator(&self, client: &Client) -> Simulator {
        Simulator::new(client.clone(), &self.simulator)
    }
}

/// A cluster on loopback, as `gateway dev` starts it, to try workloads without faults.
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
