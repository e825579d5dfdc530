//! Ports of a development cluster, and the check that they are free.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use model::id::NodeId;

use crate::config::Driver;
use crate::refusal::Refusal;

/// The ports of one cluster, relative to a base port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    pub base: u16,
}

impl Ports {
    pub fn api(self, node: NodeId) -> SocketAddr {
        self.at(u16::try_from(node).unwrap_or(u16::MAX))
    }

    pub fn ops(self, node: NodeId) -> SocketAddr {
        self.at(u16::try_from(node).unwrap_or(u16::MAX).saturating_add(100))
    }

    pub fn peer(self, node: NodeId) -> SocketAddr {
        self.at(u16::try_from(node).unwrap_or(u16::MAX).saturating_add(200))
    }

    /// Control API of the simulator or the test network.
    pub fn network_control(self) -> SocketAddr {
        self.at(90)
    }

    /// Port of the network for nodes.
    pub fn network(self) -> SocketAddr {
        self.at(91)
    }

    /// Webhook receiver of the demo.
    pub fn demo_receiver(self) -> SocketAddr {
        self.at(92)
    }

    /// Media port of the test network; the simulator has none.
    pub fn test_media(self) -> SocketAddr {
        self.at(93)
    }

    fn at(self, offset: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.base.saturating_add(offset))
    }

    pub fn of_node(self, node: NodeId) -> [(String, SocketAddr); 3] {
        [
            (format!("node {node}'s API"), self.api(node)),
            (format!("node {node}'s operator port"), self.ops(node)),
            (format!("node {node}'s peer port"), self.peer(node)),
        ]
    }

    pub fn of_network(self, network: Driver) -> Vec<(String, SocketAddr)> {
        let (name, media) = match network {
            Driver::Simulated => ("simulator", None),
            Driver::Whatsapp => ("test network", Some(self.test_media())),
        };
        let media = media.map(|media| ("media", media));
        let ports = [("control", self.network_control()), ("network", self.network())];
        ports.into_iter().chain(media).map(|(what, port)| (format!("the {name}'s {what} port"), port)).collect()
    }
}

/// Makes sure that no other process listens on these ports, before anything is started.
///
/// # Errors
/// A [`Refusal`] that names the first occupied port.
pub fn ensure_free(ports: impl IntoIterator<Item = (String, SocketAddr)>) -> Result<(), Refusal> {
    for (whose, address) in ports {
        // std's listeners set SO_REUSEADDR, so that lingering connections of an earlier run do not occupy the port.
        TcpListener::bind(address).map_err(|error| {
            let problem = format!("cannot be {whose}: {error}");
            Refusal::new(format!("port {}", address.port()), problem, "free it, or choose another --base-port")
        })?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn ports_are_counted_from_the_base() {
        let ports = Ports { base: 8000 };
        assert_eq!(ports.api(1).to_string(), "127.0.0.1:8001");
        assert_eq!(ports.ops(2).to_string(), "127.0.0.1:8102");
        assert_eq!(ports.peer(3).to_string(), "127.0.0.1:8203");
        assert_eq!((ports.network_control().port(), ports.network().port()), (8090, 8091));
        assert_eq!(ports.test_media().port(), 8093);
        assert_eq!(ports.of_network(Driver::Simulated).len(), 2);
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let refusal = ensure_free([("node 1's API".to_owned(), address)]).unwrap_err();
        assert!(refusal.to_string().contains(&format!("port {}", address.port())), "{refusal}");
        drop(taken);
        ensure_free([("node 1's API".to_owned(), address)]).unwrap();
    }
}
