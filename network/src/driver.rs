//! What stands between the gateway and a messaging network.
//!
//! Shaped so that a real driver fits behind it: credentials live in a store that the gateway replicates, inbound items
//! are acknowledged after the gateway's commit only, the gateway mints message ids and may send one again, a send
//! returns when it is taken and its acceptance comes as an event, `kill` stops all bytes at once.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::id::{ChannelId, MessageId, NodeId};
use model::media::{MediaHandle, MediaKind};
use model::time::Timestamp;
use tokio::sync::mpsc;
pub use traffic::item::{
    AuthWrite, EVENT_WINDOW, EndReason, Identity, InboundItem, InboundKind, InboundMessage, ItemId, MOST_SYNCED,
    Outbound, PairCode, Receipt, ReceiptStatus, SyncedPart, Uploaded,
};
use uuid::Uuid;

use crate::fence::Fence;
use crate::operation::{Answer, Operation, Refused};

/// A messaging network, reached through one driver.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// The driver's name in the configuration: what one keeps of a channel is of no use to another.
    fn name(&self) -> &'static str;

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

    /// How many bytes all of it takes as it is stored; 0 where nobody counts.
    fn bytes(&self) -> u64 {
        0
    }

    /// Applies a batch at once or not at all; its names and values may take 256 KiB. `Ok` means committed on a quorum.
    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError>;
}

/// The name under which something stands in a restored channel's state: it is older than what the network has seen of the
/// channel since. A driver whose keys must not be used twice begins its sessions anew and deletes the mark. The value is empty,
/// and not to be read.
pub const RESTORED: &str = "w/restored";

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

/// What it means for the session.
impl From<AuthError> for EndReason {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Fenced => Self::Fenced,
            AuthError::Unavailable(why) => Self::Transport(why),
            AuthError::Unreadable(why) => Self::AuthState(why),
        }
    }
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

/// What a session reports, in order. The queue of a session has room for 32 of them from the start, idle or not: what is large
/// and rare is boxed.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// A QR text to show, `sequence` 1 to 6.
    Qr { raw: Box<str>, expires_at: Timestamp, sequence: u8 },
    /// All QR texts were used up; the session has ended.
    QrTimeout,
    /// A phone linked this device, and the credentials are stored on a quorum and acknowledged. Login follows.
    Paired(Box<Identity>),
    /// The network refused the pairing; the session has ended.
    PairingRefused { code: u16, text: String },
    /// The network wants more than a scan before it links this device.
    Passkey(PasskeyStep),
    /// The session is logged in, as this account.
    LoggedIn(Box<Identity>),
    /// The network took a message.
    Accepted {
        id: MessageId,
        at: Timestamp,
        /// To a group: how many members beside the sender will acknowledge it, when the network tells.
        recipients: Option<u32>,
    },
    /// The network refused a message for good.
    Refused { id: MessageId, refused: Box<Refused> },
    /// The answer to an operation.
    Operated { id: Uuid, result: Box<Result<Box<Answer>, Refused>> },
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
