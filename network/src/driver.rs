//! What stands between the gateway and a messaging network.
//!
//! Shaped so that a real driver fits behind it: credentials live in a store that the gateway replicates, inbound items
//! are acknowledged after the gateway's commit only, the gateway mints message ids and may send one again, a send
//! returns when it is written and its acceptance comes as an event, `kill` stops all bytes at once.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::id::{ChannelId, MessageId, NodeId};
use model::media::MediaHandle;
use model::time::Timestamp;
use tokio::sync::mpsc;
pub use traffic::item::{
    AuthWrite, EVENT_WINDOW, EndReason, Identity, InboundItem, InboundKind, InboundMessage, ItemId, Outbound, PairCode,
    Receipt, ReceiptStatus, Uploaded,
};
use uuid::Uuid;

use crate::fence::Fence;
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
    /// Writes a message under an id that the gateway minted. `Ok` means written; acceptance is an event.
    /// The same id may be sent again after a doubt; the network drops repeats.
    async fn send(&self, message: Outbound) -> Result<(), SessionError>;

    /// Writes a question. `Ok` means written; the answer is an event that bears the id and comes after the notices of what
    /// the operation changed. The same id asked again, in a later session too, is answered as the first time, as far as
    /// the network can tell.
    async fn operate(&self, id: Uuid, operation: Operation) -> Result<(), SessionError>;

    /// Stores bytes at the network, to be named in a message. Reads them as they come, never whole.
    async fn upload(&self, mime_type: &str, size: u64, bytes: ByteStream) -> Result<Uploaded, MediaError>;

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
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError>;

    /// Applies a batch at once or not at all; it may take about a MiB. `Ok` means committed on a quorum.
    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError>;
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
