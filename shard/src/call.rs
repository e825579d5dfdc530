//! What a node asks of the owner of a slot, and what the owner answers: the words that cross nodes.

pub mod bundle;
pub mod deliveries;
pub mod media;
pub mod read;
pub mod request;
pub mod usage;

use std::time::Duration;

use bytes::Bytes;
use model::address::Address;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, DeliveryId, MessageId, RequestId, ShardId};
use model::limit::{AttemptRule, BucketLevel, BucketRule};
use model::message::{Content, MessageKey};
use model::send::SendAround;
use model::status::{Reason, Status};
use model::time::Timestamp;
use network::operation::{Answer as NetworkAnswer, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::bundle::{Export, Exported, Import};
use self::deliveries::{DeliveryRequest, DeliveryResponse};
use self::media::{MediaPage, MediaWork};
use self::read::Read;
use self::request::{Lifecycle, PairCode, StatusHistory};
use self::usage::{UsageRequest, UsageResponse};
use crate::history::deliveries::MessageDeliveries;
use crate::history::{HistoryQuery, Page};
use crate::media::command::MediaRoom;
use crate::media::record::MediaRow;
use crate::records::StatusChange;
use crate::settings::{ChangeSettings, Changed};
use crate::stream::{StreamRequest, StreamResponse, StreamedEvent};

/// A call to the owner of the slot that `subject` hashes to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub version: u8,
    pub request_id: RequestId,
    /// Stays the same when the call is made again because its outcome is unknown.
    pub call_id: Uuid,
    /// What is left of the caller's patience.
    pub budget: Duration,
    pub shard: ShardId,
    #[serde(rename = "ask")]
    pub request: OwnerRequest,
}

/// The format of [`Call`].
pub const CALL_VERSION: u8 = 1;

impl Call {
    /// The router says how much time it has.
    pub fn new(shard: ShardId, request: OwnerRequest, request_id: RequestId) -> Self {
        Self { version: CALL_VERSION, request_id, call_id: Uuid::new_v4(), budget: Duration::ZERO, shard, request }
    }
}

/// What can be asked of the owner of a slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OwnerRequest {
    /// Takes a token from a customer's bucket, at its home.
    TakeCustomer {
        customer: CustomerId,
        rule: BucketRule,
        /// How many more the asking node would hold for a moment.
        #[serde(default)]
        lend: u32,
    },
    /// Gives a customer's token back, because another bucket refused the request.
    RefundCustomer { customer: CustomerId },
    /// Counts an attempt at something, at the home of its subject.
    Attempt { subject: Uuid, rule: AttemptRule },
    /// Gives an attempt back.
    ReturnAttempt { subject: Uuid, rule: AttemptRule },
    /// Looks at a customer's bucket without taking.
    PeekCustomer { customer: CustomerId, rule: BucketRule },
    /// Looks at a channel's bucket without taking.
    PeekChannel { customer: CustomerId, channel: ChannelId, rule: BucketRule },
    /// Takes a token from a channel's bucket and nothing else: for requests that fail before they reach the channel.
    TakeChannel { customer: CustomerId, channel: ChannelId, rule: BucketRule },
    /// Takes a token from the channel's bucket, then does the work.
    Channel { customer: CustomerId, channel: ChannelId, charge: Option<BucketRule>, work: Work },
    /// The statuses of many channels of this shard.
    #[serde(rename = "Lives")]
    ChannelStatuses { channels: Vec<(CustomerId, ChannelId)> },
    /// The deliveries of a message, behind one of them, in each of these channels of this shard that have stored it.
    MessageDeliveries {
        channels: Vec<ChannelId>,
        message: MessageId,
        #[serde(default)]
        after: Option<DeliveryId>,
    },
    /// A page of stored messages of this shard's channels of a customer, ordered.
    History { customer: CustomerId, query: HistoryQuery },
    /// What a customer's streams ask of its home.
    Stream {
        customer: CustomerId,
        #[serde(rename = "ask")]
        request: StreamRequest,
    },
    /// What a home fetches of another shard's events for streams, waiting for one.
    Relay { home: ShardId, after: u64, wait: Duration },
    /// Webhook deliveries of this shard.
    Deliveries(DeliveryRequest),
    /// What a customer has used in this shard.
    Usage(UsageRequest),
    /// About how many bytes of messages and deliveries one account keeps in this shard, or each of those that keep most.
    /// Asked in a cluster whose format knows it.
    MessageBytes { of: Option<CustomerId> },
}

impl OwnerRequest {
    /// Notes that it may have been done before, by an owner that did not answer any more: then what is in its target state already
    /// is no mistake of the caller's. Other work is known again by the ids that it bears.
    pub fn note_repeat(&mut self) {
        match self {
            Self::Channel { work: Work::Operate { again, .. }, .. }
            | Self::Deliveries(DeliveryRequest::Redeliver { again, .. }) => *again = true,
            Self::Channel { work: Work::Media(work), .. } => {
                if let MediaWork::Delete(id) = *work {
                    *work = MediaWork::DeleteAgain(id);
                }
            }
            _ => {}
        }
    }

    /// The account whose call this is, where it may wait for long: for the network, for a client, for an event, or for its turn among
    /// what else its account reads. `of_channel` tells whose a channel is.
    pub fn account(&self, of_channel: impl FnOnce(ChannelId) -> Option<CustomerId>) -> Option<CustomerId> {
        match self {
            Self::Channel { customer, .. } | Self::History { customer, .. } | Self::Stream { customer, .. } => {
                Some(*customer)
            }
            Self::Deliveries(request) => request.account(),
            Self::Usage(request) => request.account(),
            Self::ChannelStatuses { channels } => account_of(channels),
            Self::MessageDeliveries { channels, .. } => of_channel(*channels.first()?),
            _ => None,
        }
    }
}

/// The account that all of these channels belong to.
pub(crate) fn account_of(channels: &[(CustomerId, ChannelId)]) -> Option<CustomerId> {
    let (first, _) = channels.first()?;
    channels.iter().all(|(customer, _)| customer == first).then_some(*first)
}

/// Work on one channel.
#[allow(clippy::large_enum_variant, reason = "most values are of the large variant")]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Nothing but the charge and the status.
    #[serde(rename = "Look")]
    GetStatus,
    /// A step of the status machine.
    Lifecycle(Lifecycle),
    /// The QR text, starting a pairing when the status permits.
    Qr,
    /// A code to pair by, for a telephone.
    PairCode(PairCode),
    /// A message.
    Send(Send),
    /// Whether a send to this address, or a story, would be taken now: asked before its bytes are fetched.
    CheckSend { to: Option<Address> },
    /// The media of a stored message, fetched from the network when its bytes are not here.
    MessageMedia { message_id: MessageId },
    /// Media of the channel.
    Media(MediaWork),
    /// Something that the network does for the channel. `again` when it may have been asked before under the same call
    /// id: then what is in its target state already is no mistake of the caller's.
    Operate {
        operation: Box<Operation>,
        #[serde(default)]
        again: bool,
    },
    /// Rows of the projection, in every status.
    Read(Read),
    /// Other settings, in every status.
    ChangeSettings(ChangeSettings),
    /// The directory has deleted the channel: end its session and wipe it.
    #[serde(rename = "Forget")]
    DeleteChannel,
    /// Changes of the status, the newest first.
    StatusHistory(StatusHistory),
    /// A part of the session of a channel that rests. From format 3 on.
    Export(Export),
    /// A step of storing the session of another cluster's channel. From format 3 on.
    Import(Import),
}

/// A send, checked as far as the body goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Send {
    /// Minted where the request arrived, so that asking another owner again is the same send.
    pub message_id: MessageId,
    pub to: Address,
    pub body: SendBody,
    #[serde(default)]
    pub around: Box<SendAround>,
    pub client_ref: Option<String>,
    /// What the account's quota leaves for the bytes of it.
    #[serde(default)]
    pub media_room: Option<Box<MediaRoom>>,
}

/// What a send says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SendBody {
    /// Content that has no bytes.
    Content(Content),
    /// Content with bytes, which are kept already; the row of them comes to be with the message's.
    Media { content: Content, media: Box<MediaRow> },
    /// What a stored message of the channel says.
    Forward(MessageKey),
}

/// What was asked for, if an answer is of its kind. What is of another is a defect.
macro_rules! of_kind {
    ($answer:expr, $response:pat => $got:expr) => {
        match $answer {
            $crate::call::Answer::Result { result: Ok($response), .. } => Ok($got),
            $crate::call::Answer::Result { result: Err(error), .. } => Err(error),
            _ => Err(CallError::internal_error()),
        }
    };
}

pub(crate) use of_kind;

impl SendBody {
    pub fn is_story(&self) -> bool {
        match self {
            Self::Content(content) | Self::Media { content, .. } => content.is_story(),
            Self::Forward(_) => false,
        }
    }
}

/// The owner's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Not (any longer, or yet) the owner; ask again.
    #[serde(rename = "NotOwner")]
    NotLeader,
    /// The level of the channel's bucket, when it was charged, and the result.
    Result { channel_level: Option<BucketLevel>, result: Result<OwnerResponse, CallError> },
}

/// What the owner of a slot answers to an [`OwnerRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OwnerResponse {
    /// There is nothing to tell.
    Nothing,
    /// A bucket after the charge; `taken` is false when it was empty.
    Bucket {
        level: BucketLevel,
        taken: bool,
        /// Taken beside it, for the asking node to hold.
        #[serde(default)]
        lent: u32,
    },
    /// Seconds until another attempt is possible, when this one was not.
    Attempt { retry_after: Option<u32> },
    /// The channel as it is now.
    #[serde(rename = "Live")]
    ChannelStatus(ChannelStatus),
    /// Channels as they are now.
    #[serde(rename = "Lives")]
    ChannelStatuses(Vec<(ChannelId, ChannelStatus)>),
    /// A QR text to pair by.
    Qr(QrCode),
    /// A code to pair by.
    PairCode(PairingCode),
    /// The send is committed.
    Sent(Sent),
    /// What the network answered.
    Operated(Box<NetworkAnswer>),
    /// A row of the projection as it is stored.
    Row(Option<Bytes>),
    /// Rows of the projection.
    Rows(Vec<Bytes>),
    /// Rows of the projection, and the id of the last that was looked at where looking for more of them was given up.
    Page { rows: Vec<Bytes>, stopped_at: Option<String> },
    /// The settings as they are now.
    Settings(Changed),
    /// A page of rows, and how many there are in all.
    Counted { rows: Vec<Bytes>, count: usize },
    /// A page of messages.
    History(Page),
    /// The deliveries of a message, by channel.
    MessageDeliveries(Vec<MessageDeliveries>),
    /// The answer to a [`StreamRequest`].
    Stream(StreamResponse),
    /// Events with their places in the log.
    Relayed(Vec<(u64, StreamedEvent)>),
    /// `None` for media that does not exist.
    Media(Option<Box<MediaRow>>),
    /// A page of media.
    MediaPage(MediaPage),
    /// The answer to a [`DeliveryRequest`].
    Deliveries(DeliveryResponse),
    /// The answer to a [`UsageRequest`].
    Usage(UsageResponse),
    /// Accounts with what they keep.
    MessageBytes(Vec<(CustomerId, u64)>),
    /// Each with the version that it made.
    StatusHistory(Vec<(u64, StatusChange)>),
    /// A part of a channel's session.
    Exported(Box<Exported>),
    /// The version of the channel, by which the import goes on.
    Imported { version: u64 },
}

/// Channels whose statuses are asked for at once. An account may have a quarter of a million, and what one answer says
/// of all of them would stand before all else on its connection.
pub(crate) const STATUSES_AT_ONCE: usize = 10_000;

/// The status of a channel as the owner of its shard has it, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelStatus {
    pub status: Status,
    pub reason: Reason,
    pub phone_number: Option<String>,
    pub last_seen_at: Option<Timestamp>,
    /// When any of it last changed.
    pub updated_at: Option<Timestamp>,
    /// The owner that answers, for operators.
    pub node: u64,
    pub epoch: u64,
    pub shard: ShardId,
}

/// A QR text; the picture is made where it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QrCode {
    pub raw: String,
    pub expires_at: Timestamp,
    pub sequence: u8,
}

/// A code to type into the phone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairingCode {
    pub code: String,
    pub expires_at: Timestamp,
}

/// The answer to a send, and where it goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SentMessage")]
pub struct Sent {
    pub message_id: MessageId,
    pub client_ref: Option<String>,
    /// `sent` when the network has accepted it, `queued` when that is still to come.
    pub status: SentStatus,
    pub to: Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SentStatus {
    Sent,
    Queued,
}

#[cfg(test)]
mod tests {
    use model::id::{EndpointId, MediaId};

    use super::*;
    use crate::usage::Hour;

    #[test]
    fn a_call_that_is_made_again_says_so_where_its_target_state_would_be_a_mistake() {
        let (customer, channel, media, id) =
            (CustomerId::random(), ChannelId::random(), MediaId::new(), DeliveryId::random());
        let work = Work::Media(MediaWork::Delete(media));
        let mut delete = OwnerRequest::Channel { customer, channel, charge: None, work };
        let mut redeliver = OwnerRequest::Deliveries(DeliveryRequest::Redeliver { customer, id, again: false });
        // Once more, too: an owner may die behind another one.
        for _ in 0..2 {
            delete.note_repeat();
            redeliver.note_repeat();
        }
        assert!(
            matches!(delete, OwnerRequest::Channel { work: Work::Media(MediaWork::DeleteAgain(id)), .. } if id == media)
        );
        assert!(matches!(redeliver, OwnerRequest::Deliveries(DeliveryRequest::Redeliver { again: true, .. })));
    }

    #[test]
    fn what_waits_for_its_accounts_turn_to_read_counts_as_that_accounts() {
        let (customer, other, channel) = (CustomerId::random(), CustomerId::random(), ChannelId::random());
        let account = |request: OwnerRequest| request.account(|asked| (asked == channel).then_some(customer));
        let endpoint = EndpointId::random();
        let figures = DeliveryRequest::Figures { customer, endpoint, since: Timestamp(0) };
        assert_eq!(account(OwnerRequest::Deliveries(figures)), Some(customer));
        let hours = UsageRequest::Hours { customer, from: Hour(0), to: Hour(1) };
        assert_eq!(account(OwnerRequest::Usage(hours)), Some(customer));
        let message = MessageId::mint([0; 18]);
        let channels = vec![channel];
        assert_eq!(account(OwnerRequest::MessageDeliveries { channels, message, after: None }), Some(customer));
        let statuses = |whose| OwnerRequest::ChannelStatuses { channels: vec![(customer, channel), (whose, channel)] };
        assert_eq!(account(statuses(customer)), Some(customer));
        assert_eq!(account(statuses(other)), None, "an operator looks at the channels of all");
        // Sends wait for it, and an account that has used up its places must not pass its quota by that.
        assert_eq!(account(OwnerRequest::Usage(UsageRequest::MediaKept { customer })), None);
    }
}
