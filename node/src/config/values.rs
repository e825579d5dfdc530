//! Types of configuration values: hidden secrets, and durations and addresses as people write them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use raft::host::Timing as Intervals;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Host;

/// Defines sections in which every key is optional; the default is next to the key.
macro_rules! sections {
    ($($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $key:ident: $type:ty = $usual:expr,)+ })+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, Serialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$says])* pub $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $usual,)+ }
            }
        }
    )+};
}

pub(super) use sections;

/// A string that must not be logged: `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A duration such as `10s`, `5m` or `1h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct HumanDuration(#[serde(with = "humantime_serde")] pub Duration);

impl HumanDuration {
    pub const fn of_seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

/// `host:port`, where the host is a name or an address (IPv6 in brackets). Names are resolved when they are dialled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Whether the host is a wildcard address such as `0.0.0.0`, which other machines cannot connect to.
    pub fn is_unspecified(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("\"{text}\" is not host:port");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || port == 0 || bare_ipv6 || host.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl<'de> Deserialize<'de> for HostPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for HostPort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Raft's heartbeat and election timeouts; the same on every node of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// For one data center: failover takes about half a second.
    #[default]
    Lan,
    /// For several data centers.
    Wan,
    Custom(CustomTiming),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CustomTiming {
    pub heartbeat: HumanDuration,
    pub election_min: HumanDuration,
    pub election_max: HumanDuration,
}

impl Timing {
    pub fn intervals(self) -> Intervals {
        match self {
            Self::Lan => Intervals::LAN,
            Self::Wan => Intervals::WAN,
            Self::Custom(CustomTiming { heartbeat, election_min, election_max }) => {
                Intervals { heartbeat: heartbeat.0, election_min: election_min.0, election_max: election_max.0 }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Timing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Implemented by hand, because the errors of `untagged` name neither the key nor the expected values.
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Timing;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"lan\", \"wan\" or { heartbeat, election_min, election_max }")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Timing, E> {
                match name {
                    "lan" => Ok(Timing::Lan),
                    "wan" => Ok(Timing::Wan),
                    _ => Err(E::invalid_value(de::Unexpected::Str(name), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Timing, A::Error> {
                CustomTiming::deserialize(de::value::MapAccessDeserializer::new(map)).map(Timing::Custom)
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}

impl Serialize for Timing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Lan => serializer.serialize_str("lan"),
            Self::Wan => serializer.serialize_str("wan"),
            Self::Custom(custom) => custom.serialize(serializer),
        }
    }
}

/// Whether a URL's host is this machine.
pub fn is_loopback(host: Host<&str>) -> bool {
    match host {
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
        Host::Domain(name) => name == "localhost",
    }
}
