//! Which URLs the gateway may call for a customer: the guard against requests into the operator's own network (SSRF).
//!
//! [`judge_url`] checks the text of a URL. If its host is a name, [`judge_ip`] must check every address that the name
//! resolves to, at every attempt, and the connection must go to a checked address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::issue::{IssueCode, Violation};

/// Longest accepted URL, in bytes.
pub const LONGEST_URL: usize = 2048;

/// What a deployment permits besides the public internet over `https`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetPolicy {
    /// Permits `http`; development only.
    pub allow_http: bool,
    /// Permits loopback addresses and `localhost`; development only.
    pub allow_loopback: bool,
    /// Private ranges with receivers on the operator's premises. They never open link-local, metadata, multicast and
    /// reserved addresses. If any range is given, names without a dot and names of internal domains are checked by the
    /// addresses that they resolve to.
    pub allow_cidrs: Vec<IpNet>,
}

impl TargetPolicy {
    /// The policy for production.
    pub fn strict() -> Self {
        Self::default()
    }

    /// The policy of `gateway dev`, where receivers run on the same machine.
    pub fn dev() -> Self {
        Self { allow_http: true, allow_loopback: true, allow_cidrs: Vec::new() }
    }
}

/// A URL that may be called, as far as its text shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub url: Url,
    pub host: TargetHost,
}

/// The host of a [`Target`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetHost {
    /// A checked address, which may be called.
    Address(IpAddr),
    /// A name; every address that it resolves to must still be checked.
    Name(String),
}

/// A refused URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Blocked {
    /// `url_blocked`, `url_scheme`, `format` or `too_long`.
    pub code: IssueCode,
    /// A short reason, for logs and delivery records.
    pub reason: &'static str,
    /// Tells the caller what to change.
    pub message: &'static str,
}

impl From<Blocked> for Violation {
    fn from(blocked: Blocked) -> Self {
        Self::new(blocked.code, blocked.message)
    }
}

fn malformed(reason: &'static str, message: &'static str) -> Blocked {
    Blocked { code: IssueCode::Format, reason, message }
}

fn blocked(reason: &'static str, message: &'static str) -> Blocked {
    Blocked { code: IssueCode::UrlBlocked, reason, message }
}

const NOT_PUBLIC: &str = "must name a host on the public internet";

/// Ports that receivers must not use: the fetch standard's bad ports, and the usual ports of databases, brokers and
/// container engines.
const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 2375, 2376, 3306, 3659,
    4045, 4190, 5060, 5061, 5432, 5672, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9200, 10080,
    11211, 27017,
];

/// Domains of hosts in the local network. A name is internal if it ends with one of them or equals one.
///
/// From `svc` on, they are the domains of container clusters: `redis.shop.svc` and, through the search list of a
/// container, `redis.shop` with the namespaces that every cluster has; then those of Consul, Nomad, Mesos and Docker.
const INTERNAL_DOMAINS: &str = "internal local localdomain lan intranet corp home home.arpa \
    svc pod cluster default kube-system kube-public kube-node-lease consul nomad mesos docker swarm";

/// Metadata services of clouds, and the control planes of container clusters: blocked whatever ranges are open.
const METADATA_NAMES: &str = "metadata.google.internal metadata.goog instance-data.ec2.internal \
    kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local \
    kube-system.svc kube-system.svc.cluster.local";

/// Checks the text of a URL.
pub fn judge_url(text: &str, policy: &TargetPolicy) -> Result<Target, Blocked> {
    if text.len() > LONGEST_URL {
        let message = "at most 2048 bytes";
        return Err(Blocked { code: IssueCode::TooLong, reason: "length", message });
    }
    // The parser drops or converts these silently; the logs of receiver and gateway would name different URLs.
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(malformed("raw control/space/backslash", "must not contain spaces, control characters or \\"));
    }
    let url = Url::parse(text).map_err(|_| malformed("parse", "must be a URL such as https://example.com/hook"))?;
    let scheme_fits = url.scheme() == "https" || (url.scheme() == "http" && policy.allow_http);
    if !scheme_fits {
        let message =
            if policy.allow_http { "must start with https:// or http://" } else { "must start with https://" };
        return Err(Blocked { code: IssueCode::UrlScheme, reason: "scheme", message });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(malformed("userinfo", "must not contain a user name or a password"));
    }
    if url.fragment().is_some() {
        return Err(malformed("fragment", "must not contain a # part"));
    }
    let host = match url.host().ok_or_else(|| malformed("parse", "must name a host"))? {
        Host::Ipv4(ip) => judged_address(ip.into(), policy)?,
        Host::Ipv6(ip) => judged_address(ip.into(), policy)?,
        Host::Domain(name) => judged_name(name, policy)?,
    };
    // Both schemes have a default port, so the port is never absent.
    if url.port_or_known_default().is_none_or(|port| BAD_PORTS.contains(&port)) {
        return Err(blocked("port", "must use a port that is meant for web servers"));
    }
    Ok(Target { url, host })
}

/// A proxy for a channel's connections, acceptable as far as its URL shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The URL, including its password if it has one.
    pub url: String,
    /// The URL with [`MASK`] in place of the password.
    pub shown: String,
}

/// Shown in place of a password.
pub const MASK: &str = "***";

impl Proxy {
    /// Whether the URL is a masked one, as shown by a read, so that the password is not known.
    pub fn is_masked(&self) -> bool {
        self.url == self.shown && self.shown.contains(&format!(":{MASK}@"))
    }
}

/// Checks the URL of a proxy: `http`, `https` or `socks5`, a host that may be called, and optional credentials. The
/// connecting code must check the addresses that a name resolves to.
pub fn judge_proxy(text: &str, policy: &TargetPolicy) -> Result<Proxy, Blocked> {
    let malformed = || malformed("parse", "must be a URL such as socks5://user:password@proxy.example.com:1080");
    let (scheme, rest) = text.split_once("://").ok_or_else(malformed)?;
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https" | "socks5") {
        let message = "must start with http://, https:// or socks5://";
        return Err(Blocked { code: IssueCode::UrlScheme, reason: "scheme", message });
    }
    // The parser handles hosts only for web schemes, and hides the default ports of those.
    let port = Url::parse(&format!("socks5://{rest}")).map_err(|_| malformed())?.port();
    let as_web = Url::parse(&format!("https://{rest}")).map_err(|_| malformed())?;
    let mut bare = as_web.clone();
    if bare.set_username("").and_then(|()| bare.set_password(None)).is_err() || bare.path() != "/" {
        return Err(malformed());
    }
    if bare.query().is_some() || bare.fragment().is_some() {
        return Err(malformed());
    }
    let strict = TargetPolicy { allow_http: false, ..policy.clone() };
    let host = judge_url(bare.as_str(), &strict)?.url.host_str().unwrap_or_default().to_owned();
    let with = |password: Option<&str>| {
        let user = match (as_web.username(), password) {
            ("", None) => String::new(),
            (user, None) => format!("{user}@"),
            (user, Some(password)) => format!("{user}:{password}@"),
        };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{user}{host}{port}")
    };
    Ok(Proxy { url: with(as_web.password()), shown: with(as_web.password().map(|_| MASK)) })
}

fn judged_address(ip: IpAddr, policy: &TargetPolicy) -> Result<TargetHost, Blocked> {
    judge_ip(ip, policy).map(|()| TargetHost::Address(ip)).map_err(|reason| blocked(reason, NOT_PUBLIC))
}

fn judged_name(name: &str, policy: &TargetPolicy) -> Result<TargetHost, Blocked> {
    // The parser has lowered the case. A dot at the end denotes the DNS root and changes nothing.
    let bare = name.strip_suffix('.').unwrap_or(name);
    let within = |domain: &str| bare.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let resolve = || Ok(TargetHost::Name(name.to_owned()));
    if bare.split('.').any(str::is_empty) {
        return Err(malformed("parse", "must name a host"));
    }
    if METADATA_NAMES.split_ascii_whitespace().any(within) {
        return Err(blocked("suffix", NOT_PUBLIC));
    }
    if within("localhost") {
        let reason = if bare.contains('.') { "suffix" } else { "single-label" };
        return if policy.allow_loopback { resolve() } else { Err(blocked(reason, NOT_PUBLIC)) };
    }
    if policy.allow_cidrs.is_empty() {
        if !bare.contains('.') {
            return Err(blocked("single-label", NOT_PUBLIC));
        }
        if INTERNAL_DOMAINS.split_ascii_whitespace().any(within) {
            return Err(blocked("suffix", NOT_PUBLIC));
        }
    }
    resolve()
}

/// Whether the policy can open a forbidden range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opens {
    Never,
    /// Opened by `allow_cidrs`.
    ByRange,
    /// Opened by `allow_cidrs` or by `allow_loopback`.
    Loopback,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(a: u16, b: u16, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), bits)
}

/// IPv4 ranges that are not public unicast: IANA's special-purpose registry, and services of clouds.
const FORBIDDEN_V4: &[(Ipv4Net, &str, Opens)] = &[
    (v4(0, 0, 0, 0, 8), "this-net", Opens::Never),
    (v4(10, 0, 0, 0, 8), "rfc1918", Opens::ByRange),
    (v4(100, 64, 0, 0, 10), "cgnat", Opens::ByRange),
    (v4(127, 0, 0, 0, 8), "loopback", Opens::Loopback),
    (v4(168, 63, 129, 16, 32), "azure-wireserver", Opens::Never),
    (v4(169, 254, 0, 0, 16), "link-local/metadata", Opens::Never),
    (v4(172, 16, 0, 0, 12), "rfc1918", Opens::ByRange),
    (v4(192, 0, 0, 0, 24), "ietf", Opens::Never),
    (v4(192, 0, 2, 0, 24), "doc", Opens::Never),
    (v4(192, 31, 196, 0, 24), "as112", Opens::Never),
    (v4(192, 52, 193, 0, 24), "amt", Opens::Never),
    (v4(192, 88, 99, 0, 24), "6to4-relay", Opens::Never),
    (v4(192, 168, 0, 0, 16), "rfc1918", Opens::ByRange),
    (v4(192, 175, 48, 0, 24), "as112", Opens::Never),
    (v4(198, 18, 0, 0, 15), "bench", Opens::ByRange),
    (v4(198, 51, 100, 0, 24), "doc", Opens::Never),
    (v4(203, 0, 113, 0, 24), "doc", Opens::Never),
    (v4(224, 0, 0, 0, 4), "multicast", Opens::Never),
    (v4(240, 0, 0, 0, 4), "reserved", Opens::Never),
];

/// Ranges inside 2000::/3 that are not public unicast. They include the forms that embed an IPv4 address, which would
/// otherwise bypass [`FORBIDDEN_V4`].
const FORBIDDEN_V6: &[(Ipv6Net, &str)] = &[
    (v6(0x2001, 0, 23), "ietf/teredo/orchid"),
    (v6(0x2001, 0xdb8, 32), "doc"),
    (v6(0x2002, 0, 16), "6to4"),
    (v6(0x3fff, 0, 20), "doc"),
];

const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);
const UNIQUE_LOCAL_V6: Ipv6Net = v6(0xfc00, 0, 7);

/// The metadata service of AWS, inside the unique local range.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Checks the address of a connection; the error is a short name of the forbidden range.
pub fn judge_ip(ip: IpAddr, policy: &TargetPolicy) -> Result<(), &'static str> {
    let Some((reason, opens)) = forbidden(ip) else { return Ok(()) };
    let in_ranges = || policy.allow_cidrs.iter().any(|range| range.contains(&ip));
    let open = match opens {
        Opens::Never => false,
        Opens::ByRange => in_ranges(),
        Opens::Loopback => policy.allow_loopback || in_ranges(),
    };
    if open { Ok(()) } else { Err(reason) }
}

fn forbidden(ip: IpAddr) -> Option<(&'static str, Opens)> {
    match ip {
        IpAddr::V4(ip) => {
            FORBIDDEN_V4.iter().find(|(range, ..)| range.contains(&ip)).map(|(_, reason, opens)| (*reason, *opens))
        }
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => Some(("v4-mapped", Opens::Never)),
        IpAddr::V6(ip) if !GLOBAL_V6.contains(&ip) => {
            let opens = match ip {
                Ipv6Addr::LOCALHOST => Opens::Loopback,
                METADATA_V6 => Opens::Never,
                _ if UNIQUE_LOCAL_V6.contains(&ip) => Opens::ByRange,
                _ => Opens::Never,
            };
            Some(("not 2000::/3", opens))
        }
        IpAddr::V6(ip) => {
            FORBIDDEN_V6.iter().find(|(range, _)| range.contains(&ip)).map(|(_, reason)| (*reason, Opens::Never))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VECTORS: &str = include_str!("../vectors/ssrf.tsv");

    #[test]
    fn every_vector_gets_its_verdict_and_its_reason() {
        let policy = TargetPolicy::strict();
        let mut rows = 0;
        for line in VECTORS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let [url, verdict, reason] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
            let url = url.replace("\\n", "\n").replace("\\t", "\t");
            match judge_url(&url, &policy) {
                Err(blocked) => {
                    assert_eq!(verdict, "reject", "{line:?}");
                    assert!(reason.contains(blocked.reason), "{line:?} got {blocked}");
                }
                Ok(Target { host: TargetHost::Address(ip), .. }) => {
                    assert_eq!((verdict, reason), ("accept", ip.to_string().as_str()), "{line:?}");
                }
                Ok(Target { host: TargetHost::Name(name), .. }) => {
                    assert_eq!((verdict, reason), ("resolve", name.as_str()), "{line:?}");
                }
            }
            rows += 1;
        }
        assert_eq!(rows, 85);
    }

    #[test]
    fn each_refusal_has_its_issue_code() {
        let policy = TargetPolicy::strict();
        let long = format!("https://good.com/{}", "x".repeat(2048));
        let table = [
            ("https://10.0.0.1/", IssueCode::UrlBlocked),
            ("https://redis/", IssueCode::UrlBlocked),
            ("https://good.com:6379/", IssueCode::UrlBlocked),
            ("http://good.com/", IssueCode::UrlScheme),
            ("ftp://good.com/", IssueCode::UrlScheme),
            ("https://user:pass@good.com/", IssueCode::Format),
            ("https://good.com/#part", IssueCode::Format),
            ("good.com", IssueCode::Format),
            ("https://foo..com/", IssueCode::Format),
            ("", IssueCode::Format),
            (&long, IssueCode::TooLong),
        ];
        for (url, code) in table {
            assert_eq!(judge_url(url, &policy).unwrap_err().code, code, "{url}");
        }
        assert!(judge_url(&long[..2048], &policy).is_ok());
        let wide = format!("https://good.com/{}", "é".repeat(1015));
        assert!(judge_url(&wide, &policy).is_ok());
        assert_eq!(judge_url(&(wide + "é"), &policy).unwrap_err().code, IssueCode::TooLong);
    }

    #[test]
    fn names_are_judged_with_and_without_the_dot_of_the_root() {
        let policy = TargetPolicy::strict();
        for url in
            ["https://localhost./", "https://foo.local./", "https://redis./", "https://METADATA.google.internal./"]
        {
            assert_eq!(judge_url(url, &policy).unwrap_err().code, IssueCode::UrlBlocked, "{url}");
        }
        for url in ["https://mylocal.com/", "https://notlocalhost.com/", "https://local.com./"] {
            assert!(judge_url(url, &policy).is_ok(), "{url}");
        }
    }

    #[test]
    fn names_of_a_cluster_of_containers_are_no_receivers() {
        let strict = TargetPolicy::strict();
        let ranges = TargetPolicy { allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()], ..TargetPolicy::strict() };
        // Columns: allowed on the public internet, allowed if the operator opens private ranges.
        let table = [
            ("redis.shop.svc", false, true),
            ("redis.shop.svc.cluster.local.", false, true),
            ("10-1-2-3.shop.pod", false, true),
            ("redis.default", false, true),
            ("kube-dns.kube-system", false, true),
            ("db.service.consul", false, true),
            ("tasks.web.swarm", false, true),
            ("kubernetes.default", false, false),
            ("KUBERNETES.default.svc", false, false),
            ("kubernetes.default.svc.cluster.local", false, false),
            ("kube-dns.kube-system.svc.cluster.local", false, false),
            ("svc.example.com", true, true),
            ("mysvc.com", true, true),
            ("kubernetes.io", true, true),
        ];
        for (name, public, private) in table {
            let url = format!("https://{name}/hook");
            let judged = [&strict, &ranges].map(|policy| judge_url(&url, policy).is_ok());
            assert_eq!(judged, [public, private], "{name}");
        }
    }

    #[test]
    fn development_opens_loopback_and_http_and_nothing_else() {
        let policy = TargetPolicy::dev();
        for url in ["http://127.0.0.1:9000/hook", "http://localhost:9000/", "http://[::1]:9000/", "https://good.com/"] {
            assert!(judge_url(url, &policy).is_ok(), "{url}");
        }
        for url in [
            "http://10.0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0/",
            "http://127.0.0.1:6379/",
            "http://redis/",
        ] {
            assert!(judge_url(url, &policy).is_err(), "{url}");
        }
    }

    #[test]
    fn ranges_of_the_operator_open_private_addresses_and_never_metadata() {
        let allow_cidrs = vec!["10.1.0.0/16".parse().unwrap(), "0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let policy = TargetPolicy { allow_cidrs: allow_cidrs[..1].to_vec(), ..TargetPolicy::strict() };
        assert!(judge_url("https://10.1.2.3/", &policy).is_ok());
        assert!(judge_url("https://10.2.2.3/", &policy).is_err());
        assert!(judge_url("https://receiver.internal/", &policy).is_ok());
        assert!(judge_url("https://metadata.google.internal/", &policy).is_err());
        let policy = TargetPolicy { allow_cidrs, ..TargetPolicy::strict() };
        for ip in ["10.0.0.1", "127.0.0.1", "100.64.0.1", "::1", "fd00::1"] {
            assert!(judge_ip(ip.parse().unwrap(), &policy).is_ok(), "{ip}");
        }
        for ip in [
            "169.254.169.254",
            "168.63.129.16",
            "0.0.0.0",
            "224.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "2002:7f00:1::",
        ] {
            assert!(judge_ip(ip.parse().unwrap(), &policy).is_err(), "{ip}");
        }
    }

    proptest! {
        /// An IPv4 address has the same verdict in every notation.
        #[test]
        fn disguised_addresses_are_judged_as_the_plain_one(bits in any::<u32>()) {
            let policy = TargetPolicy::strict();
            let ip = Ipv4Addr::from_bits(bits);
            let plain = judge_ip(ip.into(), &policy).is_ok();
            let [a, b, c, d] = ip.octets();
            for url in [
                format!("https://{ip}/"),
                format!("https://{bits}/"),
                format!("https://{bits:#x}/"),
                format!("https://0{bits:o}/"),
                format!("https://{a}.{b}.{}/", u32::from(c) * 256 + u32::from(d)),
                format!("https://{a:#x}.0{b:o}.{c}.{d}./"),
            ] {
                prop_assert_eq!(judge_url(&url, &policy).is_ok(), plain, "{}", url);
            }
        }

        /// IPv6 forms that embed a forbidden IPv4 address are refused.
        #[test]
        fn wrapped_addresses_are_refused(bits in any::<u32>()) {
            let policy = TargetPolicy::strict();
            let (high, low) = ((bits >> 16) as u16, bits as u16);
            for ip in [
                Ipv4Addr::from_bits(bits).to_ipv6_mapped(),
                Ipv4Addr::from_bits(bits).to_ipv6_compatible(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, 1, 2, 3, 4, !high, !low),
            ] {
                prop_assert!(judge_ip(ip.into(), &policy).is_err(), "{}", ip);
            }
        }

        #[test]
        fn judging_never_panics(text in "(https?:)?/{0,3}\\PC{0,40}") {
            let _ = judge_url(&text, &TargetPolicy::strict());
            let _ = judge_url(&text, &TargetPolicy::dev());
        }
    }
}
