//! What stands between the gateway and a messaging network.
//!
//! Shaped so that a real driver fits behind it: credentials live in a store that the gateway replicates, inbound items
//! are acknowledged after the gateway's commit only, the gateway mints message ids and may send one again, a send
//! returns when it is taken and its acceptance comes as an event, `kill` stops all bytes at once.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::address::Address;
use model::chat::SyncedChat;
use model::contact::Person;
use model::id::{ChannelId, MessageId, NodeId};
use model::media::{MediaHandle, MediaKind};
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::fence::Fence;
use crate::notice::Notice;
use crate::operation::{Answer, Operation, Refused};

/// A messaging network, reached through one driver.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Starts a session and returns while it opens; what becomes of it arrives in `open.events`.
    ///
    /// # Errors
    /// [`OpenError`] when the session could not even be started; nothing was sent then.
    async fn open(&self, open: OpenSession) -> Result<Arc<dyn Session>, OpenError>;
}

/// What a session needs to open.
pub struct OpenSession {
    pub channel: ChannelId,
    pub node: NodeId,
    /// Checked before opening, before each write, and while idle: the session is cut once it has passed.
    pub fence: Fence,
    pub purpose: Purpose,
    /// The URL of the proxy that all of the session's bytes go through, with its password.
    pub proxy: Option<String>,
    /// The channel's credentials and protocol state.
    pub auth: Arc<dyn AuthStore>,
    /// Where the session reports. Bounded: a driver has at most [`EVENT_WINDOW`] unacknowledged items in it. What finds
    /// it full waits beside it (the simulated driver lets 4,096 events wait), and beyond that the session is ended
    /// rather than waited for.
    pub events: mpsc::Sender<SessionEvent>,
}

/// How many inbound items a session may have out without acknowledgement. Event queues are larger than this.
pub const EVENT_WINDOW: usize = 64;

/// Why a session is opened.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// With the stored credentials.
    Login,
    /// Without any: QR texts and pair codes, then, once paired, login in the same session.
    Pair {
        device_name: String,
        /// Whether the phone is asked for all of its history.
        full_history: bool,
    },
}

/// A live, or opening, connection of one channel.
#[async_trait]
pub trait Session: Send + Sync {
    /// Takes a message under an id that the gateway minted. `Ok` means taken, behind all that were taken before: the driver
    /// writes it as soon as it can, and for its caller it may be out from here on. Acceptance is an event. The same id may be
    /// sent again after a doubt; the network drops repeats.
    async fn send(&self, message: Outbound) -> Result<(), SessionError>;

    /// Writes a question. `Ok` means written; the answer is an event that bears the id and comes after the notices of what
    /// the operation changed. The same id asked again, in a later session too, is answered as the first time, as far as
    /// the network can tell.
    async fn operate(&self, id: Uuid, operation: Operation) -> Result<(), SessionError>;

    /// Stores bytes at the network, to be named in a message that shows them as `kind`. Reads them as they come, never whole.
    async fn upload(
        &self,
        kind: MediaKind,
        mime_type: &str,
        size: u64,
        bytes: ByteStream,
    ) -> Result<Uploaded, MediaError>;

    /// Whether a message may show as `kind` what the network keeps under this handle. A network that derives the keys of
    /// media from its kind keeps the same bytes once a kind.
    fn shows_as(&self, _handle: &MediaHandle, _kind: MediaKind) -> bool {
        true
    }

    /// Fetches bytes that came with a message. They arrive as they are read.
    async fn download(&self, handle: &MediaHandle) -> Result<ByteStream, MediaError>;

    /// Tells the network that an inbound item is safe here. Called after the gateway's commit, never before.
    async fn acknowledge(&self, item: ItemId) -> Result<(), SessionError>;

    /// Asks for a code that the phone's owner types instead of scanning. While pairing only.
    async fn pair_code(&self, phone: &str, display_name: &str) -> Result<PairCode, PairCodeError>;

    /// Unlinks this device at the network. The caller sets the deadline and wipes the credentials in any case.
    async fn logout(&self) -> Result<(), SessionError>;

    /// Stops all bytes at once: after it returns, the session writes nothing and reports nothing.
    fn kill(&self);

    /// Hands over: flushes what is written, closes in order. Returns when the network knows, or at once when it is gone, or
    /// when the network does not answer for long. In any case no login of this session comes to the network after it.
    async fn drain(&self);
}

/// The replicated store of a channel's credentials, bound to one epoch.
///
/// A command of an old epoch is refused by the state machine, so that a late owner cannot overwrite a newer one's state.
#[async_trait]
pub trait AuthStore: Send + Sync {
    /// Reads what is applied here. Ready at once: a driver's client library may rely on nothing else running meanwhile.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError>;

    /// The names that begin with `prefix`, in order, from the one behind `after` on; at most `limit` of them.
    fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String>;

    /// Applies a batch at once or not at all; its names and values may take 256 KiB. `Ok` means committed on a quorum.
    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError>;
}

/// The name under which something stands in a restored channel's state: it is older than what the network has seen of the
/// channel since. A driver whose keys must not be used twice begins its sessions anew and deletes the mark. The value is empty,
/// and not to be read.
pub const RESTORED: &str = "w/restored";

/// One change of a channel's stored state; `None` deletes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuthWrite {
    pub key: String,
    pub value: Option<Vec<u8>>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum AuthError {
    /// The owner has changed; the session must end.
    #[error("the store belongs to a newer owner")]
    Fenced,
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    #[error("the stored state cannot be read: {0}")]
    Unreadable(String),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the fence has passed")]
    Fenced,
    #[error("the network cannot be reached: {0}")]
    Unreachable(String),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    #[error("the fence has passed")]
    Fenced,
    #[error("the session has ended")]
    Ended,
    #[error("the session is not logged in")]
    NotLoggedIn,
    #[error("the network did not answer: {0}")]
    Unreachable(String),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PairCodeError {
    #[error("no pairing runs")]
    NotPairing,
    /// The network's refusal, with its code.
    #[error("the network refused: {code} {text}")]
    Refused { code: u16, text: String },
    #[error("the network did not answer: {0}")]
    Unreachable(String),
}

/// Bytes in pieces of at most [`MEDIA_PIECE`].
pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

/// How many bytes of media travel in one piece.
pub const MEDIA_PIECE: usize = 64 * 1024;

/// Bytes that the network keeps for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    pub handle: MediaHandle,
    pub expires_at: Timestamp,
}

/// Why media could not be stored at the network or fetched from it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MediaError {
    /// The network's refusal, with its code: for good.
    #[error("the network refused: {code} {text}")]
    Refused { code: u16, text: String },
    /// The network no longer has the bytes.
    #[error("the network no longer has the bytes")]
    Gone,
    /// The gateway's own bytes could not be read.
    #[error("the bytes cannot be read: {0}")]
    Source(String),
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outbound {
    pub id: MessageId,
    /// A phone, group or newsletter address, or a LID.
    pub to: Address,
    pub content: Content,
    #[serde(default, skip_serializing_if = "Surroundings::is_empty")]
    pub around: Surroundings,
}

impl Outbound {
    /// What is written for it: a story with a large audience goes out in parts, all under its id, and is accepted when the
    /// network has all of them.
    pub fn in_parts(self) -> Vec<Self> {
        let Self { id, to, content, around } = self;
        let part = |content| Self { id: id.clone(), to: to.clone(), content, around: around.clone() };
        match content {
            Content::Story(story) => {
                story.in_parts().into_iter().map(|story| part(Content::Story(Box::new(story)))).collect()
            }
            content => vec![part(content)],
        }
    }
}

/// A code to type on the phone, `ABCD-1234`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCode {
    pub code: String,
    pub expires_at: Timestamp,
}

/// Who a channel is on the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Digits, no `+`.
    pub phone_number: String,
    pub lid: Option<Address>,
    pub push_name: Option<String>,
}

/// What a session reports, in order. The queue of a session has room for 32 of them from the start, idle or not: what is large
/// and rare is boxed.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// A QR text to show, `sequence` 1 to 6.
    Qr {
        raw: Box<str>,
        expires_at: Timestamp,
        sequence: u8,
    },
    /// All QR texts were used up; the session has ended.
    QrTimeout,
    /// A phone linked this device, and the credentials are stored on a quorum and acknowledged. Login follows.
    Paired(Box<Identity>),
    /// The network refused the pairing; the session has ended.
    PairingRefused {
        code: u16,
        text: String,
    },
    /// The network wants more than a scan before it links this device.
    Passkey(PasskeyStep),
    LoggedIn(Box<Identity>),
    /// The network took a message.
    Accepted {
        id: MessageId,
        at: Timestamp,
        /// To a group: how many members beside the sender will acknowledge it, when the network tells.
        recipients: Option<u32>,
    },
    /// The network refused a message for good.
    Refused {
        id: MessageId,
        refused: Box<Refused>,
    },
    /// The answer to an operation.
    Operated {
        id: Uuid,
        result: Box<Result<Box<Answer>, Refused>>,
    },
    /// Something to commit and then acknowledge.
    Inbound(Box<InboundItem>),
    /// The session is over; nothing follows.
    Ended(EndReason),
}

const _: () = assert!(size_of::<SessionEvent>() <= 40, "a hundred thousand idle sessions hold 32 of them each");

/// What a pairing waits for, where the account is protected by a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyStep {
    /// The account's owner is to sign with the passkey.
    Required,
    /// The phone's owner is to confirm.
    Confirmation,
}

/// Why a session ended, or could not log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// The transport failed, or the network closed without a verdict.
    Transport(String),
    /// Another connection of the same device took the stream.
    Replaced,
    /// A newer owner's login ended this one, or the fence passed.
    Fenced,
    /// The device was unlinked on the phone.
    Unlinked,
    /// The network calls the session invalid; the credentials are worthless.
    Invalidated,
    /// The number is banned.
    Banned { until: Option<Timestamp> },
    /// The network refuses this client's version.
    ClientOutdated,
    /// The credentials could not be read or stored.
    AuthState(String),
}

/// The network's own name of an item, to acknowledge it by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub String);

/// An item that the network keeps, and sends again at the next login, until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundItem {
    pub id: ItemId,
    /// The network's time of the item.
    pub at: Timestamp,
    pub kind: InboundKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InboundKind {
    Message(InboundMessage),
    /// What the channel's own phone wrote (`source: device`): `from` is the channel, `to` and `chat` the conversation.
    OwnMessage(InboundMessage),
    Receipt(Receipt),
    /// The phone address behind a LID became known.
    LidDisclosed {
        lid: Address,
        phone: Address,
    },
    Notice(Box<Notice>),
    /// A part of what the account has had from before.
    Synced(Box<SyncedPart>),
}

/// Chats and people of the account, at most [`MOST_SYNCED`] of both together: what the answers to
/// [`ChatOperation::List`](crate::operation::chats::ChatOperation::List) and
/// [`ContactOperation::List`](crate::operation::contacts::ContactOperation::List) bring, from a network that tells it by
/// itself. It makes no events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncedPart {
    pub chats: Vec<SyncedChat>,
    pub people: Vec<Person>,
}

/// How many chats and people one part brings at most.
pub const MOST_SYNCED: usize = 100;

/// A message for a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    pub id: MessageId,
    /// The conversation: the peer's address in a direct chat (as `from`), else the group or newsletter.
    pub chat: Address,
    /// The author as the network gave it: a phone address or a LID.
    pub from: Address,
    /// The author's phone address, when the network gave it beside a LID.
    pub from_phone: Option<Address>,
    /// The channel's own address in a direct chat; the group in a group.
    pub to: Address,
    pub push_name: Option<String>,
    pub content: Content,
    #[serde(default, skip_serializing_if = "Surroundings::is_empty")]
    pub around: Surroundings,
}

/// A receipt for a message that this channel sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub message_id: MessageId,
    /// The conversation in which the message stands.
    pub chat: Address,
    /// The group member that acknowledges; `None` in a direct chat.
    pub participant: Option<Address>,
    pub status: ReceiptStatus,
}

/// In the order in which a receiver gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptStatus {
    Delivered,
    Read,
    Played,
}
