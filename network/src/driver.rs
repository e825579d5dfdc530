//! The interface between the gateway and a messaging network.
//!
//! A real driver must fit behind it: credentials live in a store that the gateway replicates; inbound items are
//! acknowledged only after the gateway's commit; the gateway mints message ids and may send one again; a send returns
//! when it is taken, and its acceptance arrives as an event; `kill` stops all bytes at once.

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

/// A messaging network, reached through a driver.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// The driver's name in the configuration. The state that one driver stores of a channel is useless to another.
    fn name(&self) -> &'static str;

    /// Starts a session and returns while it is still opening; its outcome arrives in `open.events`.
    ///
    /// # Errors
    /// [`OpenError`] when the session could not be started. Nothing was sent in that case.
    async fn open(&self, open: OpenSession) -> Result<Arc<dyn Session>, OpenError>;
}

/// Everything a driver needs to open a session.
pub struct OpenSession {
    pub channel: ChannelId,
    pub node: NodeId,
    /// Checked before opening, before each write, and while idle. The session is cut when it has expired.
    pub fence: Fence,
    pub purpose: Purpose,
    /// The URL, with password, of the proxy for all of the session's bytes.
    pub proxy: Option<String>,
    /// The channel's credentials and protocol state.
    pub auth: Arc<dyn AuthStore>,
    /// Where the session reports. The channel is bounded: a driver has at most [`EVENT_WINDOW`] unacknowledged items in
    /// it. When it is full, events wait in the driver (4,096 in the simulated one); beyond that the driver ends the
    /// session instead of waiting.
    pub events: mpsc::Sender<QueuedEvent>,
}

/// Why a session is opened.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Log in with the stored credentials.
    Login,
    /// Pair without credentials: QR texts and pair codes, then, once paired, login in the same session.
    Pair {
        device_name: String,
        /// Whether to ask the phone for its whole history.
        full_history: bool,
    },
}

/// A connection of one channel, live or opening.
#[async_trait]
pub trait Session: Send + Sync {
    /// Takes a message under an id that the gateway minted. `Ok` means that the message is queued behind all earlier
    /// ones: the driver writes it as soon as it can, and the caller must assume that it may be out. The network's
    /// acceptance arrives as an event. When in doubt, the same id may be sent again; the network drops duplicates.
    async fn send(&self, message: Outbound) -> Result<(), SessionError>;

    /// Writes an operation. `Ok` means written; the answer arrives as an event with the same id, after the notices of
    /// what the operation changed. Repeating an id, in a later session too, yields the first answer, as far as the
    /// network can tell.
    async fn operate(&self, id: Uuid, operation: Operation) -> Result<(), SessionError>;

    /// Streams media to the network, for a message that shows it as `kind`. `bytes` is never held in memory as a whole.
    async fn upload(
        &self,
        kind: MediaKind,
        mime_type: &str,
        size: u64,
        bytes: ByteStream,
    ) -> Result<Uploaded, MediaError>;

    /// Whether a message may show the media behind `handle` as `kind`. A network that derives media keys from the kind
    /// needs the same bytes stored once per kind.
    fn shows_as(&self, _handle: &MediaHandle, _kind: MediaKind) -> bool {
        true
    }

    /// Downloads the media of a message as a stream.
    async fn download(&self, handle: &MediaHandle) -> Result<ByteStream, MediaError>;

    /// Tells the network that the gateway has stored an inbound item. Called after the gateway's commit, never before.
    async fn acknowledge(&self, item: ItemId) -> Result<(), SessionError>;

    /// Requests a code that the phone's owner types instead of scanning a QR code. Valid only while pairing.
    async fn pair_code(&self, phone: &str, display_name: &str) -> Result<PairCode, PairCodeError>;

    /// Unlinks this device at the network. The caller sets the deadline and wipes the credentials whatever the result.
    async fn logout(&self) -> Result<(), SessionError>;

    /// Stops all bytes at once: after this returns, the session writes nothing and reports nothing.
    fn kill(&self);

    /// Closes the session in order before the channel moves to another node: flushes what is queued, then closes.
    /// Returns when the network has confirmed, at once when the network is gone, or after a timeout when it does not
    /// answer. In every case no login of this session reaches the network afterwards.
    async fn drain(&self);
}

/// The replicated store of a channel's credentials, bound to one epoch.
///
/// The state machine refuses commands of an old epoch, so that a late owner cannot overwrite a newer owner's state.
#[async_trait]
pub trait AuthStore: Send + Sync {
    /// Reads the applied state without waiting: a driver's client library may rely on nothing else running meanwhile.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError>;

    /// At most `limit` names that begin with `prefix`, in order, starting after `after`.
    fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String>;

    /// The total stored size in bytes; 0 for a store that does not count.
    fn bytes(&self) -> u64 {
        0
    }

    /// Commits a batch atomically; its names and values may take 256 KiB in total. `Ok` means committed on a quorum.
    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError>;
}

/// The name of a mark in the state of a restored channel: the state is older than what the network has seen of the
/// channel since. A driver whose keys must not be used twice starts its sessions afresh and deletes the mark. Its value
/// is empty and must not be read.
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

/// Maps a failure of the store to the reason for which the session ends.
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

/// Media in pieces of at most [`MEDIA_PIECE`] bytes.
pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

/// The largest piece of media, in bytes.
pub const MEDIA_PIECE: usize = 64 * 1024;

/// Why media could not be uploaded or downloaded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MediaError {
    /// The network refused, with this code; permanent.
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

/// An event as it stands in the queue of a session. Every session, idle or not, allocates room for 32 of them: an event
/// in place of a pointer would take a KiB more.
pub type QueuedEvent = Box<SessionEvent>;

/// What a session reports, in order.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// A QR text to show, with a `sequence` from 1 to 6.
    Qr { raw: Box<str>, expires_at: Timestamp, sequence: u8 },
    /// All QR texts were used up; the session has ended.
    QrTimeout,
    /// A phone linked this device, and the credentials are stored on a quorum and acknowledged. Login follows.
    Paired(Box<Identity>),
    /// The network refused the pairing; the session has ended.
    PairingRefused { code: u16, text: String },
    /// The network requires another step before it links this device.
    Passkey(PasskeyStep),
    /// The session is logged in as this account.
    LoggedIn(Box<Identity>),
    /// The network accepted a message.
    Accepted {
        id: MessageId,
        at: Timestamp,
        /// In a group: how many members other than the sender will acknowledge the message, if the network says.
        recipients: Option<u32>,
    },
    /// The network refused a message for good.
    Refused { id: MessageId, refused: Box<Refused> },
    /// The result of an operation.
    Operated { id: Uuid, result: Box<Result<Box<Answer>, Refused>> },
    /// An inbound item to commit and then acknowledge.
    Inbound(Box<InboundItem>),
    /// The session has ended. This is the last event.
    Ended(EndReason),
}

/// The step that a pairing waits for when a passkey protects the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyStep {
    /// The account's owner has to sign with the passkey.
    Required,
    /// The owner has to confirm on the phone.
    Confirmation,
}
