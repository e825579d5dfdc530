//! The requests that a node sends to the owner of a slot, and the responses: the types that cross nodes.

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

/// A call to the owner of a shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub version: u8,
    pub request_id: RequestId,
    /// Stays the same when the call is repeated because its outcome is unknown.
    pub call_id: Uuid,
    /// The time that is left until the caller's deadline.
    pub budget: Duration,
    pub shard: ShardId,
    #[serde(rename = "ask")]
    pub request: OwnerRequest,
}

/// The format version of [`Call`].
pub const CALL_VERSION: u8 = 1;

impl Call {
    /// Makes a call without a budget; the router sets it at each try.
    pub fn new(shard: ShardId, request: OwnerRequest, request_id: RequestId) -> Self {
        Self { version: CALL_VERSION, request_id, call_id: Uuid::new_v4(), budget: Duration::ZERO, shard, request }
    }
}

/// A request to the owner of a slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OwnerRequest {
    /// Takes a token from a customer's bucket, at its coordinator.
    TakeCustomer {
        customer: CustomerId,
        rule: BucketRule,
        /// The number of further tokens that the calling node would like to hold for a moment.
        #[serde(default)]
        lend: u32,
    },
    /// Returns a customer's token, because another bucket refused the request.
    RefundCustomer { customer: CustomerId },
    /// Counts an attempt, such as a login, at the coordinator of its subject.
    Attempt { subject: Uuid, rule: AttemptRule },
    /// Returns an attempt.
    ReturnAttempt { subject: Uuid, rule: AttemptRule },
    /// Reads the level of a customer's bucket without taking a token.
    PeekCustomer { customer: CustomerId, rule: BucketRule },
    /// Reads the level of a channel's bucket without taking a token.
    PeekChannel { customer: CustomerId, channel: ChannelId, rule: BucketRule },
    /// Only takes a token from a channel's bucket: for requests that fail before they reach the channel.
    TakeChannel { customer: CustomerId, channel: ChannelId, rule: BucketRule },
    /// Takes a token from the channel's bucket, then does the work.
    Channel { customer: CustomerId, channel: ChannelId, charge: Option<BucketRule>, work: Work },
    /// The statuses of many channels of this shard.
    #[serde(rename = "Lives")]
    ChannelStatuses { channels: Vec<(CustomerId, ChannelId)> },
    /// The deliveries of a message, after `after`, in each of these channels of this shard that have stored it.
    MessageDeliveries {
        channels: Vec<ChannelId>,
        message: MessageId,
        #[serde(default)]
        after: Option<DeliveryId>,
    },
    /// An ordered page of stored messages of a customer's channels in this shard.
    History { customer: CustomerId, query: HistoryQuery },
    /// A stream request to the coordinator of a customer.
    Stream {
        customer: CustomerId,
        #[serde(rename = "ask")]
        request: StreamRequest,
    },
    /// The events of this shard after `after` for coordinators in shard `home`; waits up to `wait` for one.
    Relay { home: ShardId, after: u64, wait: Duration },
    /// Webhook deliveries of this shard.
    Deliveries(DeliveryRequest),
    /// The usage of a customer in this shard.
    Usage(UsageRequest),
    /// The approximate number of bytes of messages and deliveries that one account stores in this shard, or each of the
    /// accounts that store the most. Sent only in a cluster whose format supports it.
    MessageBytes { of: Option<CustomerId> },
}

impl OwnerRequest {
    /// Marks the request as a possible repeat of one whose owner did not answer: finding its target state already
    /// reached is then no error of the caller. Other requests are recognized as repeats by the ids that they carry.
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

    /// The account that makes the call, if the call may wait for long: for the network, a client, an event, or its turn
    /// among other reads of its account. `of_channel` returns the account of a channel.
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

/// The account of these channels, if all have the same.
pub(crate) fn account_of(channels: &[(CustomerId, ChannelId)]) -> Option<CustomerId> {
    let (first, _) = channels.first()?;
    channels.iter().all(|(customer, _)| customer == first).then_some(*first)
}

/// Work on one channel.
#[allow(clippy::large_enum_variant, reason = "most values are of the large variant")]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Only the charge and the status.
    #[serde(rename = "Look")]
    GetStatus,
    /// A transition of the status machine.
    Lifecycle(Lifecycle),
    /// The QR text; starts a pairing when the status permits.
    Qr,
    /// A code to pair with, for a phone.
    PairCode(PairCode),
    /// A send of a message.
    Send(Send),
    /// Whether a send to this address, or a story, would be accepted now: checked before its bytes are fetched.
    CheckSend { to: Option<Address> },
    /// The media of a stored message, fetched from the network if its bytes are not stored.
    MessageMedia { message_id: MessageId },
    /// Work on media of the channel.
    Media(MediaWork),
    /// An operation that the network does for the channel. `again` when it may have been requested before under the
    /// same call id: finding its target state already reached is then no error of the caller.
    Operate {
        operation: Box<Operation>,
        #[serde(default)]
        again: bool,
    },
    /// Rows of the projection, in every status.
    Read(Read),
    /// A change of settings, in every status.
    ChangeSettings(ChangeSettings),
    /// The directory has deleted the channel: ends its session and wipes it.
    #[serde(rename = "Forget")]
    DeleteChannel,
    /// Changes of the status, newest first.
    StatusHistory(StatusHistory),
    /// A part of the session of a channel that is stopped. From format 3 on.
    Export(Export),
    /// A step of importing the session of a channel from another cluster. From format 3 on.
    Import(Import),
}

/// A send whose body is validated as far as possible without the channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Send {
    /// Minted where the request arrived, so that a repeat at another owner is the same send.
    pub message_id: MessageId,
    pub to: Address,
    pub body: SendBody,
    #[serde(default)]
    pub around: Box<SendAround>,
    pub client_ref: Option<String>,
    /// The space that the account's quota leaves for the send's bytes.
    #[serde(default)]
    pub media_room: Option<Box<MediaRoom>>,
}

/// The content of a send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SendBody {
    /// Content without bytes.
    Content(Content),
    /// Content with bytes, which are stored already; their row is committed with the message.
    Media { content: Content, media: Box<MediaRow> },
    /// The content of a stored message of the channel.
    Forward(MessageKey),
}

/// The payload of an answer, if it is of the expected kind; any other kind is a defect.
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
    /// This node is not the owner, not yet or no longer; try again.
    #[serde(rename = "NotOwner")]
    NotLeader,
    /// The level of the channel's bucket, if it was charged, and the result.
    Result { channel_level: Option<BucketLevel>, result: Result<OwnerResponse, CallError> },
}

/// The response of the owner of a slot to an [`OwnerRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OwnerResponse {
    /// There is nothing to return.
    Nothing,
    /// A bucket after the charge; `taken` is false if it was empty.
    Bucket {
        level: BucketLevel,
        taken: bool,
        /// The number of further tokens that were taken for the calling node to hold.
        #[serde(default)]
        lent: u32,
    },
    /// Seconds until the next attempt is possible, if this one was refused.
    Attempt { retry_after: Option<u32> },
    /// The present status of the channel.
    #[serde(rename = "Live")]
    ChannelStatus(ChannelStatus),
    /// The present statuses of channels.
    #[serde(rename = "Lives")]
    ChannelStatuses(Vec<(ChannelId, ChannelStatus)>),
    /// A QR text to pair with.
    Qr(QrCode),
    /// A code to pair with.
    PairCode(PairingCode),
    /// The send is committed.
    Sent(Sent),
    /// The response of the network.
    Operated(Box<NetworkAnswer>),
    /// A row of the projection as stored.
    Row(Option<Bytes>),
    /// Rows of the projection.
    Rows(Vec<Bytes>),
    /// Rows of the projection, and the id of the last row that was examined when the search was given up.
    Page { rows: Vec<Bytes>, stopped_at: Option<String> },
    /// The present settings.
    Settings(Changed),
    /// A page of rows, and the number of rows in all.
    Counted { rows: Vec<Bytes>, count: usize },
    /// A page of messages.
    History(Page),
    /// The deliveries of a message, by channel.
    MessageDeliveries(Vec<MessageDeliveries>),
    /// The answer to a [`StreamRequest`].
    Stream(StreamResponse),
    /// Events with their positions in the log.
    Relayed(Vec<(u64, StreamedEvent)>),
    /// `None` if the media does not exist.
    Media(Option<Box<MediaRow>>),
    /// A page of media.
    MediaPage(MediaPage),
    /// The answer to a [`DeliveryRequest`].
    Deliveries(DeliveryResponse),
    /// The answer to a [`UsageRequest`].
    Usage(UsageResponse),
    /// Accounts with the bytes that each stores.
    MessageBytes(Vec<(CustomerId, u64)>),
    /// Each status change with the version that it made.
    StatusHistory(Vec<(u64, StatusChange)>),
    /// A part of a channel's session.
    Exported(Box<Exported>),
    /// The version of the channel, with which the import continues.
    Imported { version: u64 },
}

/// The most channels whose statuses one request asks for. An account may have 250,000 channels, and one response with
/// all of them would delay everything else on its connection.
pub(crate) const STATUSES_AT_ONCE: usize = 10_000;

/// The status of a channel as the owner of its shard knows it, with its details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelStatus {
    pub status: Status,
    pub reason: Reason,
    pub phone_number: Option<String>,
    pub last_seen_at: Option<Timestamp>,
    /// When any of the fields above last changed.
    pub updated_at: Option<Timestamp>,
    /// The owner that answers, for operators.
    pub node: u64,
    pub epoch: u64,
    pub shard: ShardId,
}

/// A QR text; the picture is made where it is requested.
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

/// Response to a send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SentMessage")]
pub struct Sent {
    pub message_id: MessageId,
    pub client_ref: Option<String>,
    /// `sent` if the network has accepted the message, `queued` if it has not yet.
    pub status: SentStatus,
    /// Address of the recipient.
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
        // The second round tests a second repeat: an owner may die after another one did.
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
        // Sends wait for this request: an account that has used up its permits must not bypass its quota by that.
        assert_eq!(account(OwnerRequest::Usage(UsageRequest::MediaKept { customer })), None);
    }
}
