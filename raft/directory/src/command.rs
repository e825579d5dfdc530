//! Commands of the directory's state machine, and their replies.

use model::customer::{Limits, Plan, Quota};
use model::field::Change;
use model::format::{Foreign, Format};
use model::id::{ChannelId, CustomerId, EndpointId, KeyId, NodeId, SessionId, ShardId};
use model::msgpack;
use model::payload::ChatTypeFilter;
use model::seal::MasterKeyId;
use model::time::Timestamp;
use model::webhook::EventFilter;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::authority::AuthorityCommand;
use super::health::HealthNote;
use super::layout::LayoutCommand;
use super::members::{MemberCommand, NodeState};
use super::records::{
    AuditEntry, ChannelRecord, ClusterRecord, CustomerRecord, DisabledReason, Ended, EndpointRecord, KeyRecord,
    NodeRecord, PlacementRecord,
};
use super::secrets::SecretsCommand;
use super::support::{TicketCommand, TicketRecord};
use super::users::{SessionRecord, UserCommand, UserRecord};

/// A command on its way into the log. The proposer chooses the id and the time. A repeat of an applied id gets the same
/// reply and changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proposal {
    /// The format that the command needs.
    pub version: Format,
    pub id: Uuid,
    pub at: Timestamp,
    pub command: Command,
    /// Audit entries that are written with the change if the command is accepted.
    pub audit: Vec<AuditEntry>,
}

impl Proposal {
    pub fn new(command: Command, at: Timestamp, audit: Vec<AuditEntry>) -> Self {
        Self { version: command.format(), id: Uuid::now_v7(), at, command, audit }
    }

    /// Decodes a proposal from the log, or on its way there.
    ///
    /// # Errors
    /// [`Foreign`] when this release does not understand it.
    pub fn read(bytes: &[u8]) -> Result<Self, Foreign> {
        Foreign::judge(msgpack::from_slice(bytes), |proposal: &Self| proposal.version, || msgpack::from_slice(bytes))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Forms the cluster from the registered nodes; rejected once it is formed.
    Form { cluster: ClusterRecord, placement: Vec<PlacementRecord> },
    /// Registers a node; sent by every node at each start.
    RegisterNode(NodeRecord),
    /// Life cycle of nodes.
    Members(MemberCommand),
    /// Placement of shards.
    Layout(LayoutCommand),
    /// Allows the nodes to use this format from now on. `sealed` are the nodes that support it, and on which no older
    /// release can start any more: rejected while there is another member.
    RaiseFormat { format: Format, sealed: Vec<NodeId> },
    /// The shard's group is formed.
    ShardFormed(ShardId),
    /// Replacing the master key, rotating data keys and the key that signs session tokens.
    Secrets(SecretsCommand),
    /// Rotating the cluster's authority.
    Authority(AuthorityCommand),

    /// Creates a customer with its first key.
    CreateCustomer { customer: Box<CustomerRecord>, key: KeyRecord },
    /// Changes fields of a live customer.
    UpdateCustomer { id: CustomerId, change: CustomerChange },
    /// Deletes a customer: nothing of it is valid from now on. If it has many records, [`Command::EndPart`] ends them.
    DeleteCustomer { id: CustomerId },
    /// Ends those of these records that are still live and belong to a deleted channel or customer. After the `last`
    /// part nothing is left, as nothing can be added any more.
    EndPart { with: Ended, keys: Vec<KeyId>, channels: Vec<ChannelId>, sessions: Vec<SessionId>, last: bool },
    /// Removes the remaining records of a deleted customer, at most `most` at a time.
    PurgeCustomer { id: CustomerId, most: usize },

    /// Creates a key; if it names a channel, that must be live.
    CreateKey(KeyRecord),
    /// Renames a key, valid or not.
    RenameKey { customer: CustomerId, id: KeyId, name: String },
    /// Revokes a key; rejected if it has ended.
    RevokeKey { customer: CustomerId, id: KeyId },
    /// Times of last use, collected by a node (resolution of five minutes).
    KeysUsed(Vec<(KeyId, Timestamp)>),

    /// Creates a channel, optionally with a key of its own.
    CreateChannel { channel: ChannelRecord, scoped_key: Option<KeyRecord> },
    /// Changes a channel's name or metadata.
    UpdateChannel { customer: CustomerId, id: ChannelId, name: Option<String>, metadata: Option<String> },
    /// Deletes a channel and ends its keys.
    DeleteChannel { customer: CustomerId, id: ChannelId },

    /// Creates a webhook endpoint.
    CreateEndpoint(EndpointRecord),
    /// Changes fields of an endpoint; enabling or disabling it resets its health.
    UpdateEndpoint { customer: CustomerId, id: EndpointId, change: EndpointChange },
    /// Deletes an endpoint at once.
    DeleteEndpoint { customer: CustomerId, id: EndpointId },
    /// Recent answers of endpoints, as seen by a node (resolution of a few minutes).
    NoteHealth(Vec<HealthNote>),
    /// Disables an endpoint on the gateway's own decision; rejected if it is disabled already.
    DisableEndpoint { id: EndpointId, reason: DisabledReason },

    /// Members and sessions.
    Users(UserCommand),
    /// Support tickets.
    Tickets(TicketCommand),
    /// A client is watching the customer's event stream: owners keep its events until then. The later time wins.
    Streamed { customer: CustomerId, until: Timestamp },

    /// Removes those of these keys and channels that ended (revoked, expired, deleted) before a time; a bounded number.
    #[serde(rename = "ForgetEnded")]
    ExpireEnded { keys: Vec<KeyId>, channels: Vec<ChannelId>, before: Timestamp },

    /// Writes audit entries only, such as failed authentications.
    Audit,
    /// Removes at most `most` audit entries and as many ended sessions from before these times.
    #[serde(rename = "Trim")]
    Expire { audit: Timestamp, sessions: Timestamp, most: usize },
}

impl Command {
    /// Whether the command adds stored data for a customer, which takes disk space. Sessions do not count, because a
    /// member may sign in to delete something.
    pub fn adds(&self) -> bool {
        matches!(
            self,
            Self::CreateCustomer { .. }
                | Self::CreateKey(_)
                | Self::CreateChannel { .. }
                | Self::CreateEndpoint(_)
                | Self::Tickets(TicketCommand::Open { .. } | TicketCommand::Say { .. })
                | Self::Users(UserCommand::SignUp { .. } | UserCommand::Create(_))
        )
    }

    /// The format that a cluster must have before this is proposed.
    pub fn format(&self) -> Format {
        match self {
            // Release 0.1.0 lacks this command, but it is proposed only once every node has confirmed support.
            Self::RaiseFormat { .. } => Format::FIRST,
            Self::Secrets(command) => command.format(),
            Self::ExpireEnded { .. } | Self::EndPart { .. } | Self::Authority(_) => Format::THIRD,
            Self::Members(MemberCommand::LeaveBehind { .. }) | Self::Users(UserCommand::KeepOwner(_)) => Format::THIRD,
            Self::CreateCustomer { customer, .. } if !customer.limits.storage.is_default() => Format::THIRD,
            Self::UpdateCustomer { change: CustomerChange { limits: Change::To(limits), .. }, .. }
                if !limits.storage.is_default() =>
            {
                Format::THIRD
            }
            _ => Format::FIRST,
        }
    }
}

/// Fields of a customer that an operator changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CustomerChange {
    pub name: Change<String>,
    pub email: Change<Option<String>>,
    pub timezone: Change<String>,
    pub plan: Change<Plan>,
    pub limits: Change<Limits>,
}

/// Fields of an endpoint that its customer changes. `To(None)` removes the secret.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndpointChange {
    pub url: Change<String>,
    pub events: Change<EventFilter>,
    pub secret: Change<Option<Vec<u8>>>,
    pub enabled: Change<bool>,
    pub chat_type_filter: Change<ChatTypeFilter>,
    #[serde(default)]
    pub headers: Change<SealedHeaders>,
}

/// An endpoint's custom headers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SealedHeaders {
    pub names: Vec<String>,
    pub sealed: Option<Vec<u8>>,
}

/// Reply to an accepted command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// No further data.
    Done,
    /// The node as it is now.
    Node(NodeRecord),
    /// The customer as it is now.
    Customer(CustomerRecord),
    /// The key as it is now.
    Key(KeyRecord),
    /// The channel as it is now.
    Channel(ChannelRecord),
    /// The endpoint as it is now.
    Endpoint(EndpointRecord),
    /// The member as it is now.
    User(UserRecord),
    /// The session as it is now.
    Session(SessionRecord),
    /// The ticket as it is now.
    Ticket(Box<TicketRecord>),
    /// Whether there is more to remove.
    #[serde(rename = "Trimmed")]
    Removed { more: bool },
}

/// Why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    #[error("the cluster exists already")]
    AlreadyFormed,
    #[error("the cluster does not exist yet")]
    NotFormed,
    #[error(
        "node {node} is known with another data folder (storage id {known}); an emptied or foreign folder cannot \
         replace it"
    )]
    ForeignStorage { node: NodeId, known: Uuid },
    #[error("node {0} is no member of this cluster; let it join with a token (gateway token, gateway join)")]
    NodeUnknown(NodeId),
    #[error("node {0} was removed from this cluster; let it join under a new id (gateway token, gateway join)")]
    NodeRemoved(NodeId),
    #[error("node {0} is the last one that can hold replicas")]
    LastNode(NodeId),
    #[error("node {node} {}", .state.in_words())]
    NodeState { node: NodeId, state: NodeState },
    #[error("a cluster has at most {limit} nodes")]
    NodeLimit { limit: u32 },
    #[error(
        "node {node} has the address {address}; a node that leaves keeps it until it is removed (gateway node remove \
         --wait)"
    )]
    AddressTaken { node: NodeId, address: String },
    #[error("the token is not known")]
    TokenUnknown,
    #[error("the token was used by another node")]
    TokenUsed,
    #[error("the token expired at {0}")]
    TokenExpired(Timestamp),
    #[error(
        "a change of the layout is under way: wait for it with gateway layout watch, or cancel the waiting moves with \
         gateway layout cancel"
    )]
    LayoutRuns,
    #[error("the layout has changed since")]
    LayoutStale,
    #[error("the change of the layout is over")]
    LayoutOver,
    #[error("it is encrypted under another master key than the cluster's, {0}")]
    OtherMasterKey(MasterKeyId),
    #[error("an exchange of the master key is under way: data keys are still encrypted under the former one")]
    ExchangeRuns,
    #[error("no exchange of the master key is under way")]
    ExchangeOver,
    #[error("the cluster does not have its authority's key: set peer.ca_key_file on one of its nodes")]
    NoAuthority,
    #[error("the cluster's authority is being rotated: gateway secrets status shows what it waits for")]
    AuthorityRotates,
    #[error("the rotation of the cluster's authority is at another step")]
    AuthorityStep,
    #[error("node {0} has not reached this step")]
    NodeBehind(NodeId),
    #[error("a rotation of the data keys is under way: gateway secrets status shows the progress")]
    DataKeysRotate,
    #[error("the rotation of the data keys is at another step")]
    DataKeysStep,
    #[error("session tokens of the key before are good until {0}: rotate it again after that")]
    SessionKeyOverlaps(Timestamp),
    #[error("no such customer")]
    CustomerNotFound,
    #[error("the customer is not deleted")]
    CustomerLives,
    #[error("what ends with it was not deleted, or is gone")]
    NotDeleted,
    #[error("no such key")]
    KeyNotFound,
    #[error("the key is revoked already")]
    KeyRevoked,
    #[error("no such channel")]
    ChannelNotFound,
    #[error("no such endpoint")]
    EndpointNotFound,
    #[error("the endpoint is disabled already")]
    EndpointDisabled,
    #[error("the plan's channel limit is reached: {current} of {limit}")]
    ChannelLimit { limit: u32, current: u32 },
    #[error("an account has at most {limit} endpoints")]
    EndpointLimit { limit: u32 },
    #[error("the URLs of the account's endpoints are too long together")]
    UrlsTooLong,
    #[error("the plan allows {limit} {}; {used} are in use", .quota.noun())]
    Quota { quota: Quota, limit: u64, used: u64 },
    #[error("no such member")]
    UserNotFound,
    #[error("the e-mail address belongs to a member already")]
    EmailTaken,
    #[error("an account has at most {limit} members")]
    UserLimit { limit: u32 },
    #[error("an account must have an owner: make another member its owner first")]
    LastOwner,
    #[error("the token is not the one that was sent last, or has expired")]
    VerificationUnknown,
    #[error("no such session")]
    SessionNotFound,
    #[error("the session is over")]
    SessionOver,
    #[error("the session has moved on to another token")]
    SessionMoved,
    #[error("no such ticket")]
    TicketNotFound,
    #[error("the ticket is closed: open another one")]
    TicketClosed,
    #[error("the ticket has that status already")]
    TicketUnchanged,
    #[error("a ticket has at most {limit} messages: open another one")]
    TicketFull { limit: u32 },
    #[error("an account opens at most {limit} tickets a day")]
    TicketLimit { limit: u32 },
    #[error("node {0} has not said that it understands the new format: start it with this release, or remove it")]
    NotSealed(NodeId),
    #[error("the command has a newer version ({0}) than the node that leads the directory understands")]
    UnknownVersion(u8),
    #[error("the command cannot be read")]
    Unreadable,
}
