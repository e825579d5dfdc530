//! Limits of the connections to a port: in total, and per address.
//!
//! When a port is full, an unidentified connection is evicted for a new one: the oldest of the same address or, at the
//! total limit, of the address that has the most of them. Connections that have not sent a request are evicted first,
//! then those whose requests do not identify the client. So a flood of connections displaces itself, silent or not, and
//! a client that has shown a credential keeps its place. An account keeps as many connections as one address may have;
//! any beyond that, from however many addresses, are treated as unidentified.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::CustomerId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::telemetry;

/// Limits of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admission {
    pub most: usize,
    /// Limit per IPv4 address or IPv6 /64 network. Does not apply to trusted load balancers.
    pub most_per_address: usize,
}

impl Default for Admission {
    fn default() -> Self {
        Self { most: 16_384, most_per_address: 1_024 }
    }
}

/// Connections of one port.
pub struct Port {
    name: &'static str,
    rules: Admission,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: usize,
    next: u64,
    by_address: HashMap<IpAddr, OfAddress>,
    /// Network and number of each connection whose client address is known ([`Place::named`]).
    by_client: HashMap<SocketAddr, (IpAddr, u64)>,
    /// Account of each connection that keeps its place because of it, and their number per account.
    account_of: HashMap<u64, CustomerId>,
    of_account: HashMap<CustomerId, usize>,
    /// When a connection was last refused because the port was full.
    refused_at: Option<Instant>,
}

#[derive(Default)]
struct OfAddress {
    open: usize,
    /// Connections that have proven nothing yet, oldest first, each with the token that closes it.
    unproven: BTreeMap<u64, CancellationToken>,
    /// Connections that have sent a request but are not identified, likewise.
    strangers: BTreeMap<u64, CancellationToken>,
}

impl OfAddress {
    fn remove(&mut self, number: u64) {
        self.unproven.remove(&number);
        self.strangers.remove(&number);
    }
}

impl State {
    /// Evicts the oldest connection of an address that may be evicted. Its place is free at once.
    fn displace(&mut self, address: IpAddr) -> bool {
        let Some(of) = self.by_address.get_mut(&address) else { return false };
        let Some((_, connection)) = of.unproven.pop_first().or_else(|| of.strangers.pop_first()) else { return false };
        connection.cancel();
        of.open -= 1;
        self.open -= 1;
        true
    }

    /// The address with the most connections that may be evicted.
    fn most_crowded(&self) -> Option<IpAddr> {
        let crowded = self.by_address.iter().max_by_key(|(_, of)| of.unproven.len() + of.strangers.len());
        crowded.map(|(address, _)| *address)
    }
}

impl Port {
    pub fn new(name: &'static str, rules: Admission) -> Arc<Self> {
        telemetry::describe_port(name);
        Arc::new(Self { name, rules, state: Mutex::default() })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether a connection was refused for lack of a place within this time.
    pub fn refused_within(&self, time: Duration) -> bool {
        self.state.lock().refused_at.is_some_and(|at| at.elapsed() < time)
    }

    /// Admits a connection; `None` if it must be closed. A load balancer stands for many clients, so it is limited only
    /// by the total.
    pub fn admit(self: &Arc<Self>, from: IpAddr, is_balancer: bool) -> Option<Place> {
        let address = network_of(from);
        let mut state = self.state.lock();
        let of_address = state.by_address.get(&address).map_or(0, |of| of.open);
        let has_room = if !is_balancer && of_address >= self.rules.most_per_address {
            state.displace(address)
        } else if state.open >= self.rules.most {
            state.most_crowded().is_some_and(|crowded| state.displace(crowded))
        } else {
            true
        };
        if !has_room {
            state.refused_at = Some(Instant::now());
            telemetry::connection_refused(self.name);
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.open += 1;
        telemetry::connections(self.name, state.open);
        let gives_way = CancellationToken::new();
        let of = state.by_address.entry(address).or_default();
        of.open += 1;
        of.unproven.insert(number, gives_way.clone());
        Some(Place { port: self.clone(), address, number, client: None, gives_way })
    }

    /// Marks a client's connection as identified: it keeps its place from now on, unless its account has too many.
    pub fn recognised(&self, client: SocketAddr, account: Option<CustomerId>) {
        let mut state = self.state.lock();
        let Some((address, number)) = state.by_client.get(&client).copied() else { return };
        // True for every request on a connection after the first.
        if state.account_of.contains_key(&number) {
            return;
        }
        if let Some(account) = account {
            let kept = state.of_account.entry(account).or_default();
            if *kept >= self.rules.most_per_address {
                return;
            }
            *kept += 1;
            state.account_of.insert(number, account);
        }
        if let Some(of) = state.by_address.get_mut(&address) {
            of.remove(number);
        }
    }
}

/// One connection's place; it is free again when this is dropped.
pub struct Place {
    port: Arc<Port>,
    address: IpAddr,
    number: u64,
    client: Option<SocketAddr>,
    gives_way: CancellationToken,
}

impl Place {
    /// Cancelled when the connection is evicted.
    pub fn gives_way(&self) -> &CancellationToken {
        &self.gives_way
    }

    /// Sets the client address that [`Port::recognised`] refers to.
    pub fn named(&mut self, client: SocketAddr) {
        self.client = Some(client);
        self.port.state.lock().by_client.insert(client, (self.address, self.number));
    }

    /// Marks the connection as having sent a request: silent connections are evicted before it.
    pub fn proven(&self) {
        let mut state = self.port.state.lock();
        if let Some(of) = state.by_address.get_mut(&self.address)
            && let Some(gives_way) = of.unproven.remove(&self.number)
        {
            of.strangers.insert(self.number, gives_way);
        }
    }

    /// Marks the connection as identified: it keeps its place from now on.
    pub fn recognised(&self) {
        let mut state = self.port.state.lock();
        if let Some(of) = state.by_address.get_mut(&self.address) {
            of.remove(self.number);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.port.state.lock();
        // An evicted connection has freed its place already, and was cancelled under the same lock.
        let has_left = self.gives_way.is_cancelled();
        if !has_left {
            state.open -= 1;
            telemetry::connections(self.port.name, state.open);
        }
        if let Some(of) = state.by_address.get_mut(&self.address) {
            if !has_left {
                of.open -= 1;
                of.remove(self.number);
            }
            if of.open == 0 {
                state.by_address.remove(&self.address);
            }
        }
        if let Some(account) = state.account_of.remove(&self.number)
            && let Some(kept) = state.of_account.get_mut(&account)
        {
            *kept -= 1;
            if *kept == 0 {
                state.of_account.remove(&account);
            }
        }
        // Another connection, with another number, may use this address and port by now.
        if let Some(client) = self.client
            && state.by_client.get(&client).is_some_and(|(_, number)| *number == self.number)
        {
            state.by_client.remove(&client);
        }
    }
}

/// The addresses that one client controls: an IPv4 address, or the /64 network that a provider assigns to one customer.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn port(most: usize, most_per_address: usize) -> Arc<Port> {
        Port::new("test", Admission { most, most_per_address })
    }

    fn from(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn at_the_limit_of_an_address_its_oldest_unproven_connection_gives_way() {
        let port = port(10, 2);
        let first = port.admit(from(1), false).unwrap();
        let second = port.admit(from(1), false).unwrap();
        let third = port.admit(from(1), false).unwrap();
        let way = |place: &Place| place.gives_way().is_cancelled();
        assert_eq!((way(&first), way(&second), way(&third)), (true, false, false));
        second.recognised();
        third.recognised();
        assert!(!port.refused_within(Duration::from_secs(60)));
        assert!(port.admit(from(1), false).is_none(), "both are in use");
        assert!(port.refused_within(Duration::from_secs(60)));
        assert!(port.admit(from(2), false).is_some(), "another address has its own");
        assert!(port.admit(from(1), true).is_some(), "a balancer stands for many");
        drop(second);
        assert!(port.admit(from(1), false).is_some());
    }

    #[test]
    fn at_the_limit_in_all_the_most_crowded_address_gives_way() {
        let port = port(4, 3);
        let crowd: Vec<_> = (0..3).map(|_| port.admit(from(1), false).unwrap()).collect();
        let other = port.admit(from(2), false).unwrap();
        let one_more = port.admit(from(3), false).unwrap();
        assert!(crowd[0].gives_way().is_cancelled() && !other.gives_way().is_cancelled());
        for place in crowd.iter().chain([&other, &one_more]) {
            place.recognised();
        }
        assert!(port.admit(from(4), false).is_none());
        drop((crowd, other));
        let state = port.state.lock();
        assert_eq!((state.open, state.by_address.len()), (1, 1), "nothing is kept of those who are gone");
    }

    #[test]
    fn who_sends_a_request_and_shows_nothing_gives_way_after_the_silent_and_who_is_known_does_not() {
        let port = port(3, 3);
        let mut crowd: Vec<_> = (0..3).map(|_| port.admit(from(1), false).unwrap()).collect();
        crowd.iter().take(2).for_each(Place::proven);
        let client = SocketAddr::new(from(1), 4711);
        crowd[0].named(client);
        port.recognised(client, None);
        let mut known = Vec::new();
        for gone in [[false, false, true], [false, true, true]] {
            let comes = port.admit(from(2 + known.len() as u8), false).unwrap();
            comes.recognised();
            known.push(comes);
            assert_eq!(crowd.iter().map(|place| place.gives_way().is_cancelled()).collect::<Vec<_>>(), gone);
        }
        assert!(port.admit(from(4), false).is_none(), "all are known");
        drop(crowd);
        assert!(port.admit(from(4), false).is_some() && port.state.lock().by_client.is_empty());
    }

    #[test]
    fn an_account_keeps_as_many_places_as_an_address_may_have_and_its_others_give_way() {
        let port = port(3, 2);
        let account = CustomerId::random();
        let crowd: Vec<_> = (1..=3)
            .map(|number| {
                let mut place = port.admit(from(number), false).unwrap();
                let client = SocketAddr::new(from(number), 4711);
                place.named(client);
                place.proven();
                // Recognised at each of its requests.
                (0..3).for_each(|_| port.recognised(client, Some(account)));
                place
            })
            .collect();
        let other = port.admit(from(4), false).unwrap();
        other.recognised();
        assert_eq!([0, 1, 2].map(|place: usize| crowd[place].gives_way().is_cancelled()), [false, false, true]);
        assert!(port.admit(from(5), false).is_none(), "two are kept");
        drop(crowd);
        let state = port.state.lock();
        assert_eq!((state.open, state.of_account.len(), state.account_of.len()), (1, 0, 0));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let table =
            [("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"), ("::ffff:192.0.2.7", "192.0.2.7"), ("192.0.2.7", "192.0.2.7")];
        for (address, network) in table {
            assert_eq!(network_of(address.parse().unwrap()), network.parse::<IpAddr>().unwrap());
        }
    }
}
