//! What a node and the simulator say to each other: length-delimited frames of MessagePack over one TCP connection.
//!
//! A frame is four bytes of length, least significant first, and a body. A node numbers its sessions itself; a number
//! is never used twice on one connection. Media travels in frames of its own ([`transfer`]), which never stand before
//! other frames for longer than one piece takes.

pub mod transfer;

use std::io;

use bytes::{Bytes, BytesMut};
use model::id::{Epoch, MessageId, NodeId};
use model::msgpack;
use model::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use uuid::Uuid;

use self::transfer::{NetworkTransfer, NodeTransfer, TransferNumber};
use crate::driver::{EndReason, Identity, InboundItem, ItemId, Outbound, PairCode};
use crate::operation::{Answer, Operation, Refused};

/// Grows when a frame changes its meaning; both sides come from one build, so a mismatch is a mistake worth naming.
pub const WIRE_VERSION: u16 = 6;

/// Larger frames are refused: nothing that travels here comes near it.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;

/// A node's number for one of its sessions.
pub type SessionNumber = u64;

/// From a node to the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeFrame {
    /// The first frame of a connection. Older connections of the same node are dead by then.
    Hello { version: u16, node: NodeId },
    /// The answer to a ping.
    Pong,
    /// Says through which proxy a session that opens next comes: what a network would see of it, were it not simulated.
    Via { session: SessionNumber, proxy: String },
    /// Logs a session in with stored credentials.
    Login { session: SessionNumber, epoch: Epoch, credentials: Bytes },
    /// Opens a session without credentials, to be linked by a phone.
    Pair { session: SessionNumber, epoch: Epoch, device_name: String, full_history: bool },
    /// Asks for a code to pair by, for a telephone.
    PairCode { session: SessionNumber, phone: String },
    /// The credentials of [`SessionFrame::Credentials`] are safe.
    Stored { session: SessionNumber },
    /// A message to send.
    Send { session: SessionNumber, message: Box<Outbound> },
    /// Answered by [`SessionFrame::Operated`] with the same id.
    Operate { session: SessionNumber, id: Uuid, operation: Box<Operation> },
    /// An inbound item is committed.
    Acknowledge { session: SessionNumber, item: ItemId },
    /// Unlinks the device and ends the session.
    Logout { session: SessionNumber },
    /// Ends a session in order; answered by [`SessionFrame::Closed`].
    Close { session: SessionNumber },
    /// A session was cut: what a closed socket would say, had each session its own.
    Reset { session: SessionNumber },
    /// About media that the session stores or fetches.
    Transfer { session: SessionNumber, transfer: TransferNumber, frame: NodeTransfer },
}

impl NodeFrame {
    pub fn send(session: SessionNumber, message: Outbound) -> Self {
        Self::Send { session, message: Box::new(message) }
    }
}

/// From the network to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NetworkFrame {
    /// The answer to the hello.
    Welcome,
    /// Answered by a pong, so that either side notices when the other is gone.
    Ping,
    /// For one session.
    Session { session: SessionNumber, frame: SessionFrame },
    /// About media; goes beside the sessions' frames, behind none of them and before none for long.
    Transfer { transfer: TransferNumber, frame: NetworkTransfer },
}

/// What the network tells one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SessionFrame {
    /// A QR text to show.
    Qr { raw: String, expires_at: Timestamp, sequence: u8 },
    /// All QR texts were used up; the session has ended.
    QrTimeout,
    /// The pairing is refused; the session has ended.
    PairingRefused { code: u16, text: String },
    /// A code to pair by.
    PairCode(PairCode),
    /// There is no code to pair by.
    PairCodeRefused { code: u16, text: String },
    /// A phone linked the session; to be stored and then answered with [`NodeFrame::Stored`].
    Credentials { identity: Identity, credentials: Bytes },
    /// The device exists; the session may log in.
    Linked,
    /// The session is logged in, as this account.
    LoggedIn(Identity),
    /// A message is taken.
    Accepted {
        id: MessageId,
        at: Timestamp,
        #[serde(default)]
        recipients: Option<u32>,
    },
    /// A message is refused for good.
    Refused { id: MessageId, code: u16, text: String },
    /// The answer to an operation.
    Operated { id: Uuid, result: Result<Box<Answer>, Refused> },
    /// Something to commit and then acknowledge.
    Inbound(Box<InboundItem>),
    /// The session is over; nothing follows.
    Ended(EndReason),
    /// The session has ended in order.
    Closed,
}

/// Writes a frame with its length into bytes of its own. Fields are named: what a message does not have is left out,
/// and could not be told from what follows it.
///
/// # Errors
/// A body that cannot be encoded or is larger than [`MAX_FRAME`].
pub fn encode<T: Serialize>(frame: &T) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(&[0_u8; 4]);
    msgpack::append_named(&mut bytes, frame).map_err(io::Error::other)?;
    let length = bytes.len() - 4;
    let prefix = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME);
    let prefix = prefix.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a frame is too large"))?;
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(Bytes::from(bytes))
}

/// Reads frames from one half of a connection.
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(source: R) -> Self {
        Self { source, buffer: BytesMut::with_capacity(64 * 1024) }
    }

    /// The next frame; `None` when the other side closed between two frames. Safe to cancel: what was read stays.
    ///
    /// # Errors
    /// A broken connection, or bytes that are no frame.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        // Frames that are in the buffer already must count, or a flood of them starves the writer beside this reader.
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(body) = self.whole_frame()? {
                return msgpack::from_slice(&body)
                    .map(Some)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
            self.buffer.reserve(16 * 1024);
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    fn whole_frame(&mut self) -> io::Result<Option<BytesMut>> {
        let Some(prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > MAX_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too large"));
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(4 + length);
        Ok(Some(frame.split_off(4)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::driver::{InboundKind, InboundMessage, Receipt, ReceiptStatus};
    use model::address::Address;
    use model::message::{Content, Surroundings};
    use proptest::prelude::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    async fn travels<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(frames: &[T]) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).unwrap().to_vec()).collect();
        let mut reader = FrameReader::new(&bytes[..]);
        for frame in frames {
            assert_eq!(&reader.next::<T>().await.unwrap().unwrap(), frame);
        }
        assert!(reader.next::<T>().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn frames_arrive_as_they_were_sent() {
        let content = Content::Text { text: "grüß dich 🌍".into() };
        travels(&[
            NodeFrame::Hello { version: WIRE_VERSION, node: 3 },
            NodeFrame::Login { session: 1, epoch: 9, credentials: Bytes::from_static(&[0, 255, 7]) },
            NodeFrame::send(
                1,
                Outbound {
                    id: MessageId::mint([1; 18]),
                    to: address("1555@s.example"),
                    content: content.clone(),
                    around: Surroundings::default(),
                },
            ),
            NodeFrame::Acknowledge { session: 1, item: ItemId("a-1".into()) },
        ])
        .await;
        let message = InboundMessage {
            id: MessageId::mint([2; 18]),
            chat: address("77@lid"),
            from: address("77@lid"),
            from_phone: Some(address("1555@s.example")),
            to: address("1666@s.example"),
            push_name: None,
            content,
            // Some of its fields are there and some are not, before and after each other.
            around: Surroundings { forwarded: true, ephemeral_expiration: Some(5), ..Surroundings::default() },
        };
        let receipt = Receipt {
            message_id: MessageId::mint([3; 18]),
            chat: address("1555@s.example"),
            participant: None,
            status: ReceiptStatus::Read,
        };
        let inbound =
            |kind| SessionFrame::Inbound(Box::new(InboundItem { id: ItemId("a-2".into()), at: Timestamp(5), kind }));
        let frames = [
            inbound(InboundKind::Message(message)),
            inbound(InboundKind::Receipt(receipt)),
            SessionFrame::Ended(EndReason::Banned { until: Some(Timestamp(7)) }),
            SessionFrame::Closed,
        ];
        travels(&frames.map(|frame| NetworkFrame::Session { session: 4, frame })).await;
    }

    #[tokio::test]
    async fn a_frame_that_is_too_large_is_refused_before_it_is_read() {
        let bytes = u32::MAX.to_le_bytes();
        assert!(FrameReader::new(&bytes[..]).next::<NodeFrame>().await.is_err());
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut reader = FrameReader::new(&bytes[..]);
                while let Ok(Some(_)) = reader.next::<NodeFrame>().await {}
            });
        }
    }
}
