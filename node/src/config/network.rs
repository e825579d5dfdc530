//! `[network]`: which network the channels are on, and how its driver speaks to it.

use model::address::Suffixes;
use serde::{Deserialize, Serialize};

use super::HostPort;

/// Each suffix beside the key that sets it.
pub fn suffixes_by_key(Suffixes { phone, group, newsletter }: Suffixes) -> [(&'static str, String); 3] {
    [("network.phone_suffix", phone), ("network.group_suffix", group), ("network.newsletter_suffix", newsletter)]
}

/// `[network]`: the messaging network behind the gateway.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    #[serde(default)]
    pub driver: Driver,
    /// The simulator's network port. The real network needs none.
    pub address: Option<HostPort>,
    /// The simulator's control port, as `http://127.0.0.1:8090`: the console then offers a phone that scans.
    pub phones: Option<String>,
    /// The suffixes of addresses; those of the driver's network where they are not given.
    pub phone_suffix: Option<String>,
    pub group_suffix: Option<String>,
    pub newsletter_suffix: Option<String>,
    /// How fast a node that takes over channels logs them in.
    pub session_starts_per_second: Option<u32>,
    pub whatsapp: Option<Whatsapp>,
}

impl Network {
    /// A node that takes over all channels of another, as happens by chance, has a thousand sessions back within a second.
    pub const SESSION_STARTS_PER_SECOND: u32 = 1_200;

    /// More log-ins from one address may look like an attack to the real network.
    pub const REAL_STARTS_PER_SECOND: u32 = 50;

    /// With what the driver's network is by itself, where nothing else is given.
    pub fn settled(self) -> Self {
        let Suffixes { phone, group, newsletter } = self.suffixes();
        Self {
            phone_suffix: Some(phone),
            group_suffix: Some(group),
            newsletter_suffix: Some(newsletter),
            session_starts_per_second: Some(self.session_starts()),
            ..self
        }
    }

    pub fn session_starts(&self) -> u32 {
        self.session_starts_per_second.unwrap_or(match self.driver {
            Driver::Simulated => Self::SESSION_STARTS_PER_SECOND,
            Driver::Whatsapp => Self::REAL_STARTS_PER_SECOND,
        })
    }

    /// The suffixes of the driver's network, and where others are given, those.
    pub fn suffixes(&self) -> Suffixes {
        let usual = self.driver.suffixes();
        let given = |given: &Option<String>, usual| given.clone().unwrap_or(usual);
        Suffixes {
            phone: given(&self.phone_suffix, usual.phone),
            group: given(&self.group_suffix, usual.group),
            newsletter: given(&self.newsletter_suffix, usual.newsletter),
        }
    }
}

/// `[network.whatsapp]`: how a node speaks to the real network.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Whatsapp {
    /// Threads that carry sessions; 0 takes half the cores.
    pub threads: usize,
    /// The version of the network's own client that this one says it is, as `2.3000.N`; empty takes that of the release, and the
    /// newest once the network refuses it.
    pub version: String,
    /// Sessions of this node at most.
    pub sessions_max: usize,
    /// The test network's chat port, `ws://` on loopback.
    #[cfg(feature = "testnet")]
    pub endpoint: Option<String>,
    /// The test network's media port, `http://` on loopback. Sessions go where the network says that its media is, on loopback alone.
    #[cfg(feature = "testnet")]
    pub media_endpoint: Option<String>,
}

impl Default for Whatsapp {
    fn default() -> Self {
        Self {
            threads: 0,
            version: String::new(),
            sessions_max: 2_000,
            #[cfg(feature = "testnet")]
            endpoint: None,
            #[cfg(feature = "testnet")]
            media_endpoint: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    #[default]
    Simulated,
    /// The real network. In builds with the feature `whatsapp` alone.
    Whatsapp,
}

impl Driver {
    /// The suffixes of its network's addresses.
    pub fn suffixes(self) -> Suffixes {
        match self {
            Self::Simulated => Suffixes::simulated(),
            Self::Whatsapp => Suffixes {
                phone: "s.whatsapp.net".to_owned(),
                group: "g.us".to_owned(),
                newsletter: "newsletter".to_owned(),
            },
        }
    }
}
