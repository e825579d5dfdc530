//! Resolves a host to the addresses that may be connected to.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use async_trait::async_trait;
use model::id::CustomerId;
use model::target::{Target, TargetHost, TargetPolicy, judge_ip};
use model::webhook::Outcome;
use raft::supervise;

use super::attempt::Failure;
use crate::shares::Shares;

/// The most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 4;

/// The most concurrent look-ups. A look-up of the operating system occupies a thread as long as the name server does
/// not answer, even after its caller has given up; look-ups must not exhaust the threads of everything else.
const MOST_LOOK_UPS: usize = 128;

/// The most concurrent look-ups of one account, which chooses the names and can choose ones whose servers never answer.
const MOST_OF_ONE: usize = 12;

/// Looks up names, each for an account. A trait, so that tests can return any address.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    async fn resolve(&self, account: CustomerId, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the operating system.
pub struct SystemResolver {
    turns: Shares,
    look_up: fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::with(|host, port| (host, port).to_socket_addrs().map(Iterator::collect))
    }
}

impl SystemResolver {
    fn with(look_up: fn(&str, u16) -> io::Result<Vec<SocketAddr>>) -> Self {
        Self { turns: Shares::new(MOST_LOOK_UPS, MOST_OF_ONE), look_up }
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, account: CustomerId, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let turn = self.turns.take(account).await;
        let (host, look_up) = (host.to_owned(), self.look_up);
        let looking = move || {
            let _turn = turn;
            look_up(&host, port)
        };
        supervise::on_thread(looking).await.map_err(io::Error::other)?
    }
}

/// The addresses of a target, all of them checked. One forbidden address refuses the name: a name that resolves to both
/// a public and a private address is an attack or a mistake.
///
/// The caller must connect to one of these addresses, as the result of a second look-up would be unchecked.
pub(crate) async fn checked_addresses(
    account: CustomerId,
    target: &Target,
    policy: &TargetPolicy,
    resolver: &dyn Resolver,
) -> Result<Vec<SocketAddr>, Failure> {
    let port = target.url.port_or_known_default().unwrap_or(443);
    let name = match &target.host {
        // An address was checked with the URL.
        TargetHost::Address(ip) => return Ok(vec![SocketAddr::new(*ip, port)]),
        TargetHost::Name(name) => name,
    };
    let found = resolver.resolve(account, name, port).await;
    let mut addresses =
        found.map_err(|error| Failure::new(Outcome::Dns, format!("the name does not resolve: {error}")))?;
    if addresses.is_empty() {
        return Err(Failure::new(Outcome::Dns, "the name has no address"));
    }
    for address in &addresses {
        if let Err(reason) = judge_ip(address.ip(), policy) {
            // The address is hidden from the customer: it could reveal names that only the operator's network knows.
            return Err(Failure::new(Outcome::Blocked, format!("the name resolves to a forbidden address ({reason})")));
        }
    }
    addresses.truncate(MOST_ADDRESSES);
    Ok(addresses)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::time::Duration;

    use parking_lot::{Condvar, Mutex};

    use super::*;

    /// The number of look-ups that wait for a silent server, and whether it has answered.
    static WAITING: Mutex<(usize, bool)> = Mutex::new((0, false));
    static CHANGED: Condvar = Condvar::new();

    fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut waiting = WAITING.lock();
        if host == "silent.example" {
            waiting.0 += 1;
            CHANGED.notify_all();
            CHANGED.wait_while(&mut waiting, |waiting| !waiting.1);
        }
        Ok(vec![SocketAddr::from(([203, 0, 113, 7], port))])
    }

    #[tokio::test]
    async fn an_account_whose_name_servers_say_nothing_delays_no_other_even_when_it_has_given_its_look_ups_up() {
        let resolver = SystemResolver::with(look_up);
        let (loud, quiet) = (CustomerId::random(), CustomerId::random());
        let silent = (0..2 * MOST_LOOK_UPS).map(|_| resolver.resolve(loud, "silent.example", 443));
        let given_up = tokio::time::timeout(Duration::from_millis(50), futures::future::join_all(silent)).await;
        assert!(given_up.is_err());
        tokio::task::spawn_blocking(|| CHANGED.wait_while(&mut WAITING.lock(), |waiting| waiting.0 < MOST_OF_ONE))
            .await
            .unwrap();
        assert!(resolver.turns.try_take(loud).is_none(), "their threads still wait");
        assert_eq!(resolver.resolve(quiet, "well.example", 443).await.unwrap().len(), 1);
        assert_eq!(WAITING.lock().0, MOST_OF_ONE);
        WAITING.lock().1 = true;
        CHANGED.notify_all();
        resolver.resolve(loud, "silent.example", 443).await.unwrap();
    }
}
