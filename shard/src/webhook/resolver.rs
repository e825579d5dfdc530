//! From a host to the addresses that may be connected to.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use async_trait::async_trait;
use model::target::{Target, TargetHost, TargetPolicy, judge_ip};
use model::webhook::Outcome;
use tokio::sync::Semaphore;

use super::attempt::Failure;

/// The most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 4;

/// Names that are looked up at once. The system's look-up holds a thread for as long as a name server says nothing, whoever has
/// given it up meanwhile: those of everything else must not run out.
static LOOK_UPS: Semaphore = Semaphore::const_new(128);

/// Looks names up. A trait, so that tests can answer with any address.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let turn = LOOK_UPS.acquire().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let look_up = move || {
            let _turn = turn;
            (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
        };
        tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
    }
}

/// The addresses of a target, all of them judged. One forbidden address refuses the name: a name that answers with a
/// public and a private address is an attack or a mistake, and in both cases not ours to sort out.
///
/// The caller must connect to one of these and resolve no second time, else the second answer would go unjudged.
pub(crate) async fn checked_addresses(
    target: &Target,
    policy: &TargetPolicy,
    resolver: &dyn Resolver,
) -> Result<Vec<SocketAddr>, Failure> {
    let port = target.url.port_or_known_default().unwrap_or(443);
    let name = match &target.host {
        // Judged with the URL.
        TargetHost::Address(ip) => return Ok(vec![SocketAddr::new(*ip, port)]),
        TargetHost::Name(name) => name,
    };
    let found = resolver.resolve(name, port).await;
    let mut addresses =
        found.map_err(|error| Failure::new(Outcome::Dns, format!("the name does not resolve: {error}")))?;
    if addresses.is_empty() {
        return Err(Failure::new(Outcome::Dns, "the name has no address"));
    }
    for address in &addresses {
        if let Err(reason) = judge_ip(address.ip(), policy) {
            // The address itself is kept from the customer: it may tell of names that only the operator's network knows.
            return Err(Failure::new(Outcome::Blocked, format!("the name resolves to a forbidden address ({reason})")));
        }
    }
    addresses.truncate(MOST_ADDRESSES);
    Ok(addresses)
}
