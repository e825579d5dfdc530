//! Contacts as the interface shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::time::Timestamp;

/// A contact as the interface shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contact {
    /// The phone address, where it is known; else the LID.
    pub id: Address,
    pub lid: Option<Address>,
    /// The name in the address book; otherwise the person's own name for itself.
    pub name: Option<String>,
    /// The name of the business, verified by the network.
    pub business_name: Option<String>,
    pub about: Option<String>,
    #[schemars(extend("format" = "uri"))]
    pub picture_url: Option<String>,
    /// Whether it is a business account.
    pub is_business: bool,
    /// Whether the channel has blocked it.
    pub is_blocked: bool,
    /// Unix seconds.
    pub last_seen_at: Option<i64>,
}

impl Contact {
    /// A contact of which only the address is known.
    pub fn unknown(id: Address) -> Self {
        Self {
            id,
            lid: None,
            name: None,
            business_name: None,
            about: None,
            picture_url: None,
            is_business: false,
            is_blocked: false,
            last_seen_at: None,
        }
    }
}

/// What the network reports about a person when asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The address that the network uses for the person towards this channel.
    pub id: Address,
    pub lid: Option<Address>,
    /// The name in the channel's own address book.
    pub saved_name: Option<String>,
    pub push_name: Option<String>,
    pub business_name: Option<String>,
    pub about: Option<String>,
    pub is_business: bool,
    /// Present if the person shows the picture to the channel.
    pub picture_url: Option<String>,
    /// Unix seconds; present if the person shows it to the channel.
    pub last_seen_at: Option<i64>,
}

/// Which phone address a linked-device address stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LIDPair")]
pub struct LidPair {
    pub lid: Address,
    /// The phone address.
    pub phone_jid: Address,
}

/// A pair, and since when the channel knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KnownLIDPair")]
pub struct KnownLidPair {
    pub lid: Address,
    /// The phone address.
    pub phone_jid: Address,
    /// When the two were first known to belong together.
    pub first_seen_at: Timestamp,
}

impl KnownLidPair {
    pub fn pair(self) -> LidPair {
        LidPair { lid: self.lid, phone_jid: self.phone_jid }
    }
}

/// Whether a number is registered with the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContactCheck {
    /// The digits as they were asked for.
    pub input: String,
    /// Whether the number is registered.
    pub exists: bool,
    /// The address, when the number is registered.
    pub id: Option<Address>,
    pub lid: Option<Address>,
    /// Whether it is a business account.
    pub is_business: bool,
}

/// A group that a contact and the channel are in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommonGroup {
    pub id: Address,
    pub subject: String,
}
