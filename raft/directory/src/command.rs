//! What can be asked of the directory's state machine, and what it answers.

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

/// A command on its way into the log. The proposer mints the id and the times; a repeat of an id that was applied
/// answers as the first did and changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proposal {
    /// The format that its command needs.
    pub version: Format,
    pub id: Uuid,
    pub at: Timestamp,
    pub command: Command,
    /// Written with the change, when it is accepted.
    pub audit: Vec<AuditEntry>,
}

impl Proposal {
    pub fn new(command: Command, at: Timestamp, audit: Vec<AuditEntry>) -> Self {
        Self { version: command.format(), id: Uuid::now_v7(), at, command, audit }
    }

    /// Reads one out of the log, or on its way there.
    ///
    /// # Errors
    /// [`Foreign`] when this release does not understand it.
    pub fn read(bytes: &[u8]) -> Result<Self, Foreign> {
        Foreign::judge(msgpack::from_slice(bytes), |proposal: &Self| proposal.version, || msgpack::from_slice(bytes))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Makes the cluster of the nodes that have registered; refused once it exists.
    Form { cluster: ClusterRecord, placement: Vec<PlacementRecord> },
    /// A node says who it is at each start.
    RegisterNode(NodeRecord),
    /// The lives of nodes.
    Members(MemberCommand),
    /// Where shards are to be.
    Layout(LayoutCommand),
    /// From now on nodes may use what this format brings. `sealed` are the nodes that understand it and that no older
    /// release can start any more: refused while another node is a member.
    RaiseFormat { format: Format, sealed: Vec<NodeId> },
    /// The group of a shard exists.
    ShardFormed(ShardId),
    /// The exchange of the master key, and of what signs session tokens.
    Secrets(SecretsCommand),
    /// The rotation of the cluster's authority.
    Authority(AuthorityCommand),

    /// A customer with its first key.
    CreateCustomer { customer: Box<CustomerRecord>, key: KeyRecord },
    /// What is set of a live customer.
    UpdateCustomer { id: CustomerId, change: CustomerChange },
    /// Nothing of the customer counts from now on. Of an account with much, the records end by [`Command::EndPart`].
    DeleteCustomer { id: CustomerId },
    /// Ends a part of what ended with something that was deleted: those of these that live still. Nothing is left to end
    /// after the `last` one, as nothing can come to it any more.
    EndPart { with: Ended, keys: Vec<KeyId>, channels: Vec<ChannelId>, sessions: Vec<SessionId>, last: bool },
    /// Removes what is left of a deleted customer, a bounded number of records at a time.
    PurgeCustomer { id: CustomerId, most: usize },

    /// A key, of a live channel where it names one.
    CreateKey(KeyRecord),
    /// Another name for a key, whether it is good or not.
    RenameKey { customer: CustomerId, id: KeyId, name: String },
    /// Ends a key; refused when it has ended.
    RevokeKey { customer: CustomerId, id: KeyId },
    /// Times of last use, gathered by a node (five minutes' resolution).
    KeysUsed(Vec<(KeyId, Timestamp)>),

    /// A channel, with a key of its own where one is asked for.
    CreateChannel { channel: ChannelRecord, scoped_key: Option<KeyRecord> },
    /// Another name, or other metadata.
    UpdateChannel { customer: CustomerId, id: ChannelId, name: Option<String>, metadata: Option<String> },
    /// Deletes a channel and ends its keys.
    DeleteChannel { customer: CustomerId, id: ChannelId },

    /// A webhook endpoint.
    CreateEndpoint(EndpointRecord),
    /// What is set of an endpoint; to enable or disable it clears its health.
    UpdateEndpoint { customer: CustomerId, id: EndpointId, change: EndpointChange },
    /// Deletes an endpoint at once.
    DeleteEndpoint { customer: CustomerId, id: EndpointId },
    /// How endpoints have answered, as a node has seen it (a few minutes' resolution).
    NoteHealth(Vec<HealthNote>),
    /// The gateway disables an endpoint by itself; refused when it is disabled already.
    DisableEndpoint { id: EndpointId, reason: DisabledReason },

    /// Members and sessions.
    Users(UserCommand),
    /// Support tickets.
    Tickets(TicketCommand),
    /// Somebody watches the event stream of a customer: until then, owners keep its events for it. The later time wins.
    Streamed { customer: CustomerId, until: Timestamp },

    /// Removes keys that were revoked or expired, and channels that were deleted, before a time: those of these that
    /// were. A bounded number at a time.
    #[serde(rename = "ForgetEnded")]
    ExpireEnded { keys: Vec<KeyId>, channels: Vec<ChannelId>, before: Timestamp },

    /// Audit entries alone, such as failed authentications.
    Audit,
    /// Removes a bounded number of audit entries and of ended sessions from before these times.
    #[serde(rename = "Trim")]
    Expire { audit: Timestamp, sessions: Timestamp, most: usize },
}

impl Command {
    /// Whether it keeps something more for a customer, which takes room on the disks. A session is none of it: who signs in
    /// may want to delete.
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

    /// The format that a cluster must have before this is proposed to it.
    pub fn format(&self) -> Format {
        match self {
            // Release 0.1.0 knows the first ones; this one is proposed once every node has said that it understands it.
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

/// Fields of an endpoint that its customer changes. No secret is `To(None)`.
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

/// An endpoint's headers of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SealedHeaders {
    pub names: Vec<String>,
    pub sealed: Option<Vec<u8>>,
}

/// The answer to an accepted command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// There is nothing to tell.
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

/// Why a command changed nothing.
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
