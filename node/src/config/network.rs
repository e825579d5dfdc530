//! `[network]`: the network that channels use, and the settings of its driver.

use model::address::Suffixes;
use serde::{Deserialize, Serialize};

use super::HostPort;

/// Each suffix with the configuration key that sets it.
pub fn suffixes_by_key(Suffixes { phone, group, newsletter }: Suffixes) -> [(&'static str, String); 3] {
    [("network.phone_suffix", phone), ("network.group_suffix", group), ("network.newsletter_suffix", newsletter)]
}

/// `[network]`: the messaging network behind the gateway.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    #[serde(default)]
    pub driver: Driver,
    /// Network port of the simulator. The real network needs no address.
    pub address: Option<HostPort>,
    /// Control port of the simulator, as `http://127.0.0.1:8090`: with it, the console offers a simulated phone that
    /// scans codes.
    pub phones: Option<String>,
    /// Suffixes of addresses; by default those of the driver's network.
    pub phone_suffix: Option<String>,
    pub group_suffix: Option<String>,
    pub newsletter_suffix: Option<String>,
    /// How many sessions a node that takes over channels starts per second.
    pub session_starts_per_second: Option<u32>,
    pub whatsapp: Option<Whatsapp>,
}

impl Network {
    /// A node that takes over all channels of another one has a thousand sessions back within a second.
    pub const SESSION_STARTS_PER_SECOND: u32 = 1_200;

    /// The real network may take more logins from one address for an attack.
    pub const REAL_STARTS_PER_SECOND: u32 = 50;

    /// The configuration with the driver's defaults filled in.
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

    /// The configured suffixes, by default those of the driver's network.
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

/// `[network.whatsapp]`: settings of the driver for the real network.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Whatsapp {
    /// Threads for sessions; 0 means half the cores.
    pub threads: usize,
    /// Client version to report, as `2.3000.N`. If empty, the version built into the release is reported, and the
    /// newest one once the network rejects that.
    pub version: String,
    /// Maximum number of sessions on this node.
    pub sessions_max: usize,
    /// Chat port of the test network, `ws://` on loopback.
    #[cfg(feature = "testnet")]
    pub endpoint: Option<String>,
    /// Media port of the test network, `http://` on loopback. Sessions use the media host that the network names, which
    /// must be on loopback.
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
    /// Suffixes of addresses on this driver's network.
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
