//! Identifiers. Each is a type of its own, so that a channel is never taken for a customer.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::digest::{fnv, mac};
use crate::time::Timestamp;

/// Declares a uuid-backed identifier.
macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new identifier that sorts by time of creation (uuid version 7).
            #[allow(clippy::new_without_default, reason = "a random value is no default")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// A new identifier that does not reveal its time of creation (uuid version 4).
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }

            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        crate::words::schema_of!($name: { "type": "string", "format": "uuid" });

        impl FromStr for $name {
            type Err = uuid::Error;
            /// Accepts the hyphenated form only, which is what the interface documents; neither braces nor a URN.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(|id: Hyphenated| Self(id.into_uuid()))
            }
        }
    )*};
}

uuid_id! {
    /// A channel: one paired connection to the messaging network.
    ChannelId;
    /// A customer (tenant); everything belongs to one.
    CustomerId;
    /// An API key record.
    KeyId;
    /// A webhook endpoint.
    EndpointId;
    /// A webhook delivery: one per endpoint and event.
    DeliveryId;
    /// A stored message row.
    RowId;
    /// Stored bytes of a message or an upload.
    MediaId;
    /// An entry of the audit log.
    AuditId;
    /// A member of an account, who logs in.
    UserId;
    /// One login of a member, and all tokens that were refreshed from it.
    SessionId;
    /// A support ticket.
    TicketId;
    /// A message of a support ticket.
    TicketMessageId;
}

impl DeliveryId {
    /// A new identifier that starts with the time `at`, so that deliveries sort by the time they were created.
    pub fn made_at(at: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(at.0).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// The lower bound of the deliveries created at `at` or later: sorts before them and after every earlier one.
    pub fn first_at(at: Timestamp) -> Self {
        let mut bytes = [0; 16];
        let millis = at.0.clamp(0, (1 << 48) - 1).to_be_bytes();
        bytes[..6].copy_from_slice(&millis[2..]);
        Self::from_bytes(bytes)
    }

    /// When the delivery was created, read from its identifier.
    pub fn time(&self) -> Timestamp {
        let mut millis = [0; 8];
        millis[2..].copy_from_slice(&self.as_bytes()[..6]);
        Timestamp(i64::from_be_bytes(millis))
    }
}

/// A cluster node. The directory allocates the number and never reuses it for another node.
pub type NodeId = u64;

/// A Raft group that holds channels: 1..=16 by default. Group 0 is the directory.
pub type ShardId = u16;

/// The Raft term of a shard's leader: the fencing token for everything that an owner does outside Raft.
pub type Epoch = u64;

/// How many slots channels and customers hash to. Fixed for the life of a cluster format.
pub const SLOT_COUNT: u16 = 1024;

/// One of [`SLOT_COUNT`] hash slots; a table in the directory maps slots to shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u16);

impl Slot {
    /// The slot of a channel.
    pub fn of_channel(id: ChannelId) -> Self {
        Self::of_bytes(id.as_bytes())
    }

    /// The slot of a customer. Its owner coordinates the customer's token bucket and stream count.
    pub fn of_customer(id: CustomerId) -> Self {
        Self::of_bytes(id.as_bytes())
    }

    /// FNV-1a folded to ten bits.
    fn of_bytes(bytes: &[u8; 16]) -> Self {
        let hash = fnv(*bytes);
        Self(((hash ^ (hash >> 32)) % u64::from(SLOT_COUNT)) as u16)
    }
}

/// Id of the message in the network; `3EB0` and 36 upper-case hex characters if the gateway created it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct MessageId(pub String);

impl MessageId {
    /// Mints an id from 18 random bytes.
    pub fn mint(random: [u8; 18]) -> Self {
        Self(format!("3EB0{}", hex::encode_upper(random)))
    }

    /// The id of a message that the gateway writes by itself. The same cause on a channel, `because_of`, always yields
    /// the same id, so that the message is written once, whichever node finds it due.
    pub fn derived(deployment_key: &[u8], channel: ChannelId, because_of: &str) -> Self {
        let digest = mac(deployment_key, &[channel.as_bytes(), because_of.as_bytes()]);
        Self::mint(std::array::from_fn(|place| digest[place]))
    }
}

crate::words::texts!(MessageId, RequestId);

/// The id of one HTTP request: the caller's `X-Request-Id` when it is well-formed, otherwise a minted one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub String);

impl RequestId {
    pub fn mint() -> Self {
        Self(format!("req_{}", Uuid::now_v7().simple()))
    }

    /// Accepts the caller's id when it has 8 to 64 characters of `[A-Za-z0-9_-]`.
    pub fn from_caller(text: &str) -> Option<Self> {
        let well_formed =
            (8..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        well_formed.then(|| Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_read_as_it_is_shown_and_in_no_other_form() {
        let id = ChannelId::new();
        let (shown, bare) = (id.to_string(), id.0.simple().to_string());
        assert_eq!(shown.parse::<ChannelId>(), Ok(id));
        assert_eq!(shown.to_uppercase().parse::<ChannelId>(), Ok(id));
        for other in [bare, format!("{{{shown}}}"), format!("urn:uuid:{shown}"), format!("{shown} "), String::new()] {
            assert!(other.parse::<ChannelId>().is_err(), "{other}");
        }
    }

    #[test]
    fn deliveries_sort_by_the_time_at_which_they_were_made() {
        let at = Timestamp(1_767_225_600_118);
        for random in [[0; 10], [255; 10]] {
            let made = DeliveryId::made_at(at, random);
            assert!(DeliveryId::first_at(at) <= made && made < DeliveryId::first_at(Timestamp(at.0 + 1)));
        }
    }

    #[test]
    fn a_minted_message_id_is_3eb0_and_36_upper_case_hex_characters() {
        let id = MessageId::mint([0xAB; 18]);
        assert_eq!(id.0.len(), 40);
        assert!(id.0.starts_with("3EB0"));
        assert!(id.0.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)));
    }

    #[test]
    fn slots_are_spread_and_stable() {
        let mut seen = std::collections::HashSet::new();
        for n in 0..20_000_u128 {
            seen.insert(Slot::of_channel(ChannelId(Uuid::from_u128(n * 7919))));
        }
        assert_eq!(seen.len(), usize::from(SLOT_COUNT));
        assert_eq!(Slot::of_channel(ChannelId(Uuid::nil())), Slot::of_channel(ChannelId(Uuid::nil())));
    }

    #[test]
    fn a_request_id_of_the_caller_is_kept_only_when_well_formed() {
        assert!(RequestId::from_caller("abcd-EFG_1").is_some());
        assert!(RequestId::from_caller("short").is_none());
        assert!(RequestId::from_caller("has space in it").is_none());
        assert!(RequestId::from_caller(&"x".repeat(65)).is_none());
    }
}
