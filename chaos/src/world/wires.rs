//! The network between the nodes: a network namespace for each, joined by a bridge; cuts and loss with nftables.
//!
//! The bridge's own address is the host's; the simulator, the receivers and clients of the nodes use it. The
//! [undertaker](super::undertaker) removes everything by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::commands::{feed, run};

/// Error message for a system on which no world can be made.
pub const NEEDED: &str =
    "a chaos world needs root, network namespaces, bridges and nftables (packages iproute2 and nftables)";

/// Last byte of the host's address. A node's is its place.
const HOST: u8 = 254;

/// Prefix of the subnets of worlds that run at the same time: 10.213.0.0/24 and the following ones.
const NETWORK: [u8; 2] = [10, 213];

/// Longest time for which packets wait in the queue of a bandwidth limit.
const QUEUE: &str = "600ms";

/// Source or destination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum End {
    /// A node, by its place.
    Place(u8),
    /// The messaging network. Other traffic of the host, such as requests to nodes and webhooks, is not affected.
    Simulator,
}

/// Packet loss in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cut {
    pub from: End,
    pub to: End,
    /// Percentage of packets lost.
    pub lost: u8,
}

impl Cut {
    /// Drops all packets from one end to the other.
    pub fn whole(from: End, to: End) -> Self {
        Self { from, to, lost: 100 }
    }
}

/// Identifies cuts that begin and end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutId(u64);

/// The network of one world.
#[derive(Debug)]
pub struct Wires {
    name: String,
    subnet: u8,
    simulator_port: u16,
    places: BTreeSet<u8>,
    cuts: BTreeMap<CutId, Vec<Cut>>,
    narrowed: BTreeSet<u8>,
    made: u64,
}

impl Wires {
    /// Creates the bridge.
    ///
    /// # Errors
    /// When the system does not permit it; the message says what is needed.
    pub fn lay(name: &str, subnet: u8, simulator_port: u16) -> anyhow::Result<Self> {
        let wires = Self {
            name: name.to_owned(),
            subnet,
            simulator_port,
            places: BTreeSet::new(),
            cuts: BTreeMap::new(),
            narrowed: BTreeSet::new(),
            made: 0,
        };
        run("nft", &["--version"]).context(NEEDED)?;
        run("ip", &["link", "add", name, "type", "bridge"]).context(NEEDED)?;
        run("ip", &["addr", "add", &format!("{}/24", wires.host()), "dev", name])?;
        run("ip", &["link", "set", name, "up"])?;
        Ok(wires)
    }

    /// The host's address on the bridge.
    pub fn host(&self) -> Ipv4Addr {
        self.address(HOST)
    }

    /// The subnet of the bridge, in CIDR notation.
    pub fn range(&self) -> String {
        format!("{}/24", self.address(0))
    }

    /// The address of a place.
    pub fn address(&self, place: u8) -> Ipv4Addr {
        Ipv4Addr::new(NETWORK[0], NETWORK[1], self.subnet, place)
    }

    /// The network namespace of a place.
    pub fn namespace(&self, place: u8) -> String {
        format!("{}-{place}", self.name)
    }

    /// Creates the namespace of a place, and joins it to the bridge.
    ///
    /// # Errors
    /// When a system command fails.
    pub fn add(&mut self, place: u8) -> anyhow::Result<()> {
        let (namespace, outer) = (self.namespace(place), format!("{}v{place}", self.name));
        let address = format!("{}/24", self.address(place));
        run("ip", &["netns", "add", &namespace])?;
        self.places.insert(place);
        run("ip", &["link", "add", &outer, "type", "veth", "peer", "name", "eth0", "netns", &namespace])?;
        run("ip", &["link", "set", &outer, "master", &self.name, "up"])?;
        let inside = |args: &[&str]| run("ip", &[&["-n", namespace.as_str()], args].concat());
        inside(&["link", "set", "lo", "up"])?;
        inside(&["addr", "add", &address, "dev", "eth0"])?;
        inside(&["link", "set", "eth0", "up"])
    }

    /// Drops packets from now on.
    ///
    /// # Errors
    /// When a system command fails; nothing is cut then.
    pub fn cut(&mut self, cuts: Vec<Cut>) -> anyhow::Result<CutId> {
        self.made += 1;
        let id = CutId(self.made);
        let touched = touched(&cuts);
        self.cuts.insert(id, cuts);
        if let Err(error) = self.apply(&touched) {
            self.cuts.remove(&id);
            self.apply(&touched)?;
            return Err(error);
        }
        Ok(id)
    }

    /// Ends a cut.
    ///
    /// # Errors
    /// When a system command fails.
    pub fn mend(&mut self, id: CutId) -> anyhow::Result<()> {
        let touched = self.cuts.remove(&id).map(|cuts| touched(&cuts)).unwrap_or_default();
        self.apply(&touched)
    }

    /// Limits the bandwidth of what a place sends: packets wait in a queue, and are dropped when it is full.
    ///
    /// # Errors
    /// When a system command fails.
    pub fn narrow(&mut self, place: u8, kbit: u32) -> anyhow::Result<()> {
        let rate = format!("{kbit}kbit");
        let queue = ["root", "tbf", "rate", &rate, "burst", "3000", "latency", QUEUE];
        self.narrowed.insert(place);
        run("tc", &[&["-n", &self.namespace(place), "qdisc", "replace", "dev", "eth0"], &queue[..]].concat())
    }

    /// Removes the bandwidth limit of a place.
    ///
    /// # Errors
    /// When a system command fails.
    pub fn widen(&mut self, place: u8) -> anyhow::Result<()> {
        if self.narrowed.remove(&place) {
            run("tc", &["-n", &self.namespace(place), "qdisc", "del", "dev", "eth0", "root"])?;
        }
        Ok(())
    }

    /// Ends all cuts and bandwidth limits.
    ///
    /// # Errors
    /// When a system command fails.
    pub fn mend_all(&mut self) -> anyhow::Result<()> {
        for place in std::mem::take(&mut self.narrowed) {
            self.narrowed.insert(place);
            self.widen(place)?;
        }
        self.cuts.clear();
        self.apply(&self.places)
    }

    /// Puts the rules of places in force, each place's set atomically.
    fn apply(&self, places: &BTreeSet<u8>) -> anyhow::Result<()> {
        for place in places.intersection(&self.places) {
            let rules = self.rules(*place);
            feed("ip", &["netns", "exec", &self.namespace(*place), "nft", "-f", "-"], &rules)?;
        }
        Ok(())
    }

    /// The nftables rules of a namespace: packets of peers are dropped on arrival, the simulator's in both directions.
    fn rules(&self, place: u8) -> String {
        let (mut arriving, mut leaving) = (String::new(), String::new());
        for cut in self.cuts.values().flatten() {
            let verdict = match cut.lost {
                100.. => "drop".to_owned(),
                lost => format!("numgen random mod 100 < {lost} drop"),
            };
            let (host, port) = (self.host(), self.simulator_port);
            // Writing to a `String` cannot fail.
            let _ = match (cut.from, cut.to) {
                (End::Place(from), End::Place(to)) if to == place => {
                    writeln!(arriving, "ip saddr {} {verdict}", self.address(from))
                }
                (End::Simulator, End::Place(to)) if to == place => {
                    writeln!(arriving, "ip saddr {host} tcp sport {port} {verdict}")
                }
                (End::Place(from), End::Simulator) if from == place => {
                    writeln!(leaving, "ip daddr {host} tcp dport {port} {verdict}")
                }
                _ => Ok(()),
            };
        }
        format!(
            "add table inet chaos\ndelete table inet chaos\ntable inet chaos {{\n\
             chain arriving {{\ntype filter hook input priority 0; policy accept;\n{arriving}}}\n\
             chain leaving {{\ntype filter hook output priority 0; policy accept;\n{leaving}}}\n}}\n"
        )
    }
}

/// The places whose rules the cuts affect.
fn touched(cuts: &[Cut]) -> BTreeSet<u8> {
    let places = cuts.iter().flat_map(|cut| [cut.from, cut.to]);
    places.filter_map(|end| if let End::Place(place) = end { Some(place) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wires(cuts: Vec<Cut>) -> Wires {
        Wires {
            name: "gwc-unmade".to_owned(),
            subnet: 7,
            simulator_port: 9091,
            places: [1, 2].into(),
            cuts: [(CutId(1), cuts)].into(),
            narrowed: BTreeSet::new(),
            made: 1,
        }
    }

    #[test]
    fn peers_are_cut_off_where_they_arrive_and_the_simulator_where_the_node_is() {
        let cuts = vec![
            Cut::whole(End::Place(1), End::Place(2)),
            Cut { from: End::Place(2), to: End::Simulator, lost: 20 },
            Cut::whole(End::Simulator, End::Place(2)),
        ];
        assert_eq!(touched(&cuts), [1, 2].into());
        let wires = wires(cuts);
        let (one, two) = (wires.rules(1), wires.rules(2));
        assert!(!one.contains("drop"), "{one}");
        let (arriving, leaving) = two.split_once("chain leaving").unwrap_or_default();
        assert!(arriving.contains("ip saddr 10.213.7.1 drop"), "{two}");
        assert!(arriving.contains("ip saddr 10.213.7.254 tcp sport 9091 drop"), "{two}");
        assert!(leaving.contains("ip daddr 10.213.7.254 tcp dport 9091 numgen random mod 100 < 20 drop"), "{two}");
    }
}
