//! The client of a request: its address and user agent.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use salvo::Request;
use salvo::http::header::USER_AGENT;

/// The most characters of a user agent that are kept.
const LONGEST_USER_AGENT: usize = 256;

/// Where a request comes from.
#[derive(Clone, Debug)]
pub struct Client {
    pub ip: IpAddr,
    pub user_agent: Option<String>,
}

/// The client of a request. `X-Forwarded-For` is read only from trusted proxies.
pub fn client_of(request: &Request, trusted: &[IpNet]) -> Client {
    // Connections always have an address; any without one would share a bucket.
    let peer = request.remote_addr().ip().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).to_canonical();
    let forwarded = request.headers().get_all("x-forwarded-for");
    let hops: Vec<&str> = forwarded.iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(',')).collect();
    let user_agent = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
    Client {
        ip: behind_proxies(peer, &hops, trusted),
        user_agent: user_agent.map(|text| text.chars().take(LONGEST_USER_AGENT).collect()),
    }
}

/// Walks from the connection's peer towards the client, as long as each hop is a trusted proxy. What an untrusted hop
/// says of the hops before it is ignored.
fn behind_proxies(peer: IpAddr, hops: &[&str], trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |ip: &IpAddr| trusted.iter().any(|net| net.contains(ip));
    let mut client = peer;
    for hop in hops.iter().rev() {
        if !is_trusted(&client) {
            break;
        }
        match parse_hop(hop.trim()) {
            Some(ip) => client = ip,
            None => break,
        }
    }
    client
}

/// Parses an address, with or without a port.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let ip = text.parse::<IpAddr>().ok().or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|addr| addr.ip()));
    ip.map(|ip| ip.to_canonical())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn forwarded_addresses_count_from_trusted_proxies_only() {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let table: &[(&str, &[&str], &str)] = &[
            ("203.0.113.9", &[], "203.0.113.9"),
            ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["198.51.100.1", " 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", &["10.0.0.3", "10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["nonsense"], "10.0.0.1"),
            ("::1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("::1", &["::ffff:198.51.100.1"], "198.51.100.1"),
        ];
        for (peer, hops, client) in table {
            let found = behind_proxies(peer.parse().unwrap(), hops, &trusted);
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{peer} {hops:?}");
        }
    }
}
