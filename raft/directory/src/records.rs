//! Records of the directory; every node holds all of them, in memory and on disk.

use std::collections::BTreeMap;

use model::customer::{Limits, Plan};

use model::format::Format;
use model::id::{AuditId, ChannelId, CustomerId, EndpointId, KeyId, NodeId, SLOT_COUNT, ShardId, Slot};
use model::payload::ChatTypeFilter;
use model::seal::{MasterKeyId, WrappedKey};
use model::time::Timestamp;
use model::webhook::EventFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::health::EndpointHealth;
use super::secrets::{DataKeyRotation, MasterExchange, SessionKey};

/// The cluster itself; written when it is formed, and on changes such as raising the format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterRecord {
    pub cluster_id: Uuid,
    pub shard_count: u16,
    /// Shard of each slot; [`SLOT_COUNT`] entries.
    pub slots: Vec<ShardId>,
    /// Key from which event ids are derived.
    pub deployment_key: SealedKey,
    pub formed_at: Timestamp,
    /// Format of what nodes may store and propose. Not written while a release without it may be a member.
    #[serde(default, skip_serializing_if = "Format::is_first")]
    pub format: Format,
    /// The latest replacement of the master key. Not written before the first one, as for [`Self::format`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<MasterExchange>,
    /// Signs session tokens once it was rotated; before, a key derived from the deployment's does. From format 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<SessionKey>,
    /// The latest rotation of the customers' data keys. From format 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_keys: Option<DataKeyRotation>,
}

impl ClusterRecord {
    /// The master key that must seal everything: the one that seals the deployment's own key.
    pub fn master(&self) -> MasterKeyId {
        self.deployment_key.wrapped_by.master
    }

    /// Assigns slots to shards in turn, so that the shards' numbers of slots differ by at most one.
    pub fn even_slots(shard_count: u16) -> Vec<ShardId> {
        (0..SLOT_COUNT).map(|slot| slot % shard_count + 1).collect()
    }

    pub fn shard_of(&self, slot: Slot) -> ShardId {
        self.slots[usize::from(slot.0)]
    }
}

/// A key of the whole deployment: sealed with a data key that the master key wraps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SealedKey {
    pub wrapped_by: WrappedKey,
    pub sealed: Vec<u8>,
}

/// Stage of a node's life cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Admitted by a token, and not started yet.
    Joining,
    #[default]
    Active,
    /// Keeps its replicas and leads nothing, so that it can stop without an interruption.
    Draining,
    /// Its replicas move to other nodes; then the node is removed.
    Leaving,
}

impl NodeState {
    /// Whether replicas may be placed there permanently.
    pub fn holds_replicas(self) -> bool {
        matches!(self, Self::Active | Self::Draining)
    }

    /// Describes the state and what can be done about it, for error messages.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Joining => "was admitted and never started: start it, or remove it",
            Self::Active => "is in service",
            Self::Draining => "is drained",
            Self::Leaving => {
                "is being removed, and there is no way back: once it is removed, let its machine join again under a \
                 new id (gateway token, gateway join)"
            }
        }
    }

    /// Whether the node may lead.
    pub fn leads(self) -> bool {
        self == Self::Active
    }
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub id: NodeId,
    /// Identity of the data folder: a node that returns with another one is refused.
    pub storage_id: Uuid,
    /// `host:port` of the peer port.
    pub peer: String,
    pub zone: Option<String>,
    /// Share of replicas and leaders, relative to the other nodes.
    pub weight: u32,
    /// Maximum number of sessions on the node.
    pub max_channels: u32,
    pub registered_at: Timestamp,
    #[serde(default)]
    pub state: NodeState,
    /// Weight in the node's configuration at its last start; an operator may have set another weight since.
    #[serde(default)]
    pub configured_weight: u32,
}

/// Placement of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRecord {
    pub shard: ShardId,
    pub replicas: Vec<NodeId>,
    /// The replica that should lead if it can.
    pub leader: NodeId,
    /// Set when the shard's group has committed its first entry. A replica that finds its group empty after that waits
    /// for a leader instead of forming the group again.
    pub formed: bool,
    /// Whether exactly these replicas are voters; false while the shard is being moved to them.
    #[serde(default = "settled")]
    pub settled: bool,
}

/// Default for records from before moves existed.
fn settled() -> bool {
    true
}

/// A customer (tenant).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomerRecord {
    pub id: CustomerId,
    pub name: String,
    pub email: Option<String>,
    pub timezone: String,
    pub plan: Plan,
    pub limits: Limits,
    /// Key that seals this customer's secrets, itself sealed with the master key.
    pub data_key: WrappedKey,
    /// The previous data key, while something may still be sealed with it. From format 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_data_key: Option<Box<WrappedKey>>,
    pub created_at: Timestamp,
    /// Set by a delete: keys and channels have ended, data stays until the end of the grace period.
    pub deleted_at: Option<Timestamp>,
}

/// How an API key was created: with the account, by another key, by a member, or with its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrigin {
    Signup,
    ApiKey,
    Dashboard,
    ChannelCreate,
}

/// An API key. The key itself is never stored, only its SHA-256.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub id: KeyId,
    pub customer_id: CustomerId,
    pub name: String,
    pub prefix: String,
    #[serde(with = "hash_bytes")]
    pub hash: [u8; 32],
    pub channel_id: Option<ChannelId>,
    pub scopes: Vec<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub created_by: KeyOrigin,
    pub created_by_key_id: Option<KeyId>,
}

impl KeyRecord {
    /// When it was revoked, or otherwise when it expires.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.revoked_at.or(self.expires_at)
    }
}

/// A webhook endpoint of a customer: URL, events and secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointRecord {
    pub id: EndpointId,
    pub customer_id: CustomerId,
    pub channel_id: Option<ChannelId>,
    pub url: String,
    pub events: EventFilter,
    pub enabled: bool,
    /// The custom signing secret, sealed with the customer's data key.
    pub secret: Option<Vec<u8>>,
    pub chat_type_filter: ChatTypeFilter,
    pub disabled_reason: Option<DisabledReason>,
    /// Names of the custom headers; the values are sealed, because they may be credentials.
    #[serde(default)]
    pub header_names: Vec<String>,
    /// Names and values as a JSON list of pairs, sealed with the customer's data key.
    #[serde(default)]
    pub sealed_headers: Option<Vec<u8>>,
    #[serde(default)]
    pub health: EndpointHealth,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Why the gateway disabled an endpoint: it answered 410 (`gone`), or it kept failing (`failing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    Gone,
    Failing,
}

/// What the whole cluster must know of a channel. Its status, number and times of use are in its shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelRecord {
    pub id: ChannelId,
    pub customer_id: CustomerId,
    pub name: String,
    /// JSON text of the free-form object.
    pub metadata: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// A deleted channel is hidden everywhere except in the deliveries that it left.
    pub deleted_at: Option<Timestamp>,
}

impl ChannelRecord {
    pub fn slot(&self) -> Slot {
        Slot::of_channel(self.id)
    }
}

/// Action of the audit entry that the last part of a backup writes; the age of backups is derived from it.
pub const BACKUP_TAKEN: &str = "backup.taken";

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub id: AuditId,
    /// `None` if no customer can be named, as for a failed authentication with an unknown key.
    pub customer_id: Option<CustomerId>,
    pub action: String,
    pub actor: AuditActor,
    pub target: Option<AuditTarget>,
    pub ip: Option<String>,
    pub user_agent: Option<String>,
    pub request_id: Option<String>,
    pub success: bool,
    pub created_at: Timestamp,
    /// Details of the action, such as the error code of a failed authentication.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl AuditEntry {
    /// A successful action outside of a request, so without IP, user agent and request id.
    pub fn done(id: AuditId, action: &str, actor: AuditActor, target: AuditTarget, created_at: Timestamp) -> Self {
        let (action, target, success) = (action.to_owned(), Some(target), true);
        let (customer_id, ip, user_agent, request_id, details) = (None, None, None, None, BTreeMap::new());
        Self { id, customer_id, action, actor, target, ip, user_agent, request_id, success, created_at, details }
    }
}

/// Who performed the action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditActor {
    /// Type: `api_key`, `session`, `operator`, `join_token`, `system` or `unknown`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Id of the key, member or node, or name of the operator; `null` if none is known.
    pub id: Option<String>,
    /// First 12 characters of the key, safe to show; absent if no key was used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prefix: Option<String>,
    /// E-mail address of the member; absent if none is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub email: Option<String>,
}

impl AuditActor {
    pub fn of_kind(kind: &str) -> Self {
        Self { kind: kind.to_owned(), id: None, prefix: None, email: None }
    }

    /// An API key.
    pub fn key(key: &KeyRecord) -> Self {
        Self { id: Some(key.id.to_string()), prefix: Some(key.prefix.clone()), ..Self::of_kind("api_key") }
    }

    /// A member, by the member's id or a session's subject.
    pub fn member(id: impl ToString, email: &str) -> Self {
        Self { id: Some(id.to_string()), email: Some(email.to_owned()), ..Self::of_kind("session") }
    }
}

/// Object of the action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTarget {
    /// Type of the object, such as `api_key`.
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
    /// Name of the object at that time; it remains when the object is deleted.
    pub label: String,
}

impl AuditTarget {
    pub fn new(kind: &str, id: impl ToString, label: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), id: id.to_string(), label: label.into() }
    }
}

/// Serializes a hash as one binary string instead of 32 numbers.
pub(super) mod hash_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(hash)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let bytes = bytes::Bytes::deserialize(deserializer)?;
        bytes.as_ref().try_into().map_err(|_| D::Error::custom("a hash has 32 bytes"))
    }
}

/// A customer whose events are kept for its event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedRecord {
    pub customer: CustomerId,
    /// Until when, unless a stream renews it.
    pub until: Timestamp,
}

/// Number of records and audit entries in one update: about 100 KiB.
pub const PORTION: usize = 200;

/// A deleted object with which keys end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ended {
    Channel(ChannelId),
    Customer(CustomerId),
}

impl Ended {
    pub fn includes(self, key: &KeyRecord) -> bool {
        match self {
            Self::Channel(channel) => key.channel_id == Some(channel),
            Self::Customer(customer) => key.customer_id == customer,
        }
    }
}
