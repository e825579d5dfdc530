//! Contacts as the interface shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::time::Timestamp;

/// A contact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contact {
    /// The phone address if known, otherwise the linked-device address.
    pub id: Address,
    pub lid: Option<Address>,
    /// Name in the address book, otherwise the name that the contact uses; `null` if neither is known.
    pub name: Option<String>,
    /// Name of the business, verified by the network; `null` if there is none.
    pub business_name: Option<String>,
    pub about: Option<String>,
    #[schemars(extend("format" = "uri"))]
    pub picture_url: Option<String>,
    /// Whether the contact is a business account.
    pub is_business: bool,
    /// Whether the channel has blocked the contact.
    pub is_blocked: bool,
    /// Time when the contact was last online, in Unix seconds; `null` if unknown.
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

/// A linked-device address, and the phone address of the same account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LIDPair")]
pub struct LidPair {
    pub lid: Address,
    /// The phone address.
    pub phone_jid: Address,
}

/// A linked-device address with its phone address, and since when the channel knows the pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KnownLIDPair")]
pub struct KnownLidPair {
    pub lid: Address,
    /// The phone address.
    pub phone_jid: Address,
    /// Time when the pair first became known to the channel.
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
    /// The digits as requested.
    pub input: String,
    /// Whether the number is registered.
    pub exists: bool,
    /// Address of the number; `null` if it is not registered.
    pub id: Option<Address>,
    pub lid: Option<Address>,
    /// Whether the number belongs to a business account.
    pub is_business: bool,
}

/// A group that a contact and the channel are in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommonGroup {
    pub id: Address,
    pub subject: String,
}
