//! The protocol between a node and the simulator: length-delimited MessagePack frames over one TCP connection.
//!
//! A frame is a 4-byte little-endian length and a body. The node numbers its sessions and never reuses a number on a
//! connection. Media travels in frames of its own ([`transfer`]), which delay other frames by at most one piece.

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

/// Increased when a frame changes its meaning. Both sides come from one build, so a mismatch is an error to report.
pub const WIRE_VERSION: u16 = 6;

/// Larger frames are refused: no frame comes close to this size.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;

/// A node's number for one of its sessions.
pub type SessionNumber = u64;

/// A frame from a node to the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeFrame {
    /// The first frame of a connection. The network closes older connections of the same node.
    Hello { version: u16, node: NodeId },
    /// Answers a ping.
    Pong,
    /// Names the proxy of a session that opens next, in place of the source address that a real network would see.
    Via { session: SessionNumber, proxy: String },
    /// Logs in a session with stored credentials.
    Login { session: SessionNumber, epoch: Epoch, credentials: Bytes },
    /// Opens a session without credentials, for a phone to link.
    Pair { session: SessionNumber, epoch: Epoch, device_name: String, full_history: bool },
    /// Requests a pair code for a phone number.
    PairCode { session: SessionNumber, phone: String },
    /// Confirms that the credentials of [`SessionFrame::Credentials`] are stored.
    Stored { session: SessionNumber },
    /// A message to send.
    Send { session: SessionNumber, message: Box<Outbound> },
    /// Requests an operation; answered by [`SessionFrame::Operated`] with the same id.
    Operate { session: SessionNumber, id: Uuid, operation: Box<Operation> },
    /// Confirms that an inbound item is committed.
    Acknowledge { session: SessionNumber, item: ItemId },
    /// Unlinks the device and ends the session.
    Logout { session: SessionNumber },
    /// Ends a session in order; answered by [`SessionFrame::Closed`].
    Close { session: SessionNumber },
    /// Reports that a session was cut, as a closed socket would if each session had its own.
    Reset { session: SessionNumber },
    /// A frame of a media transfer of the session.
    Transfer { session: SessionNumber, transfer: TransferNumber, frame: NodeTransfer },
}

impl NodeFrame {
    pub fn send(session: SessionNumber, message: Outbound) -> Self {
        Self::Send { session, message: Box::new(message) }
    }
}

/// A frame from the network to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NetworkFrame {
    /// Answers the hello.
    Welcome,
    /// Requests a pong, so that either side notices when the other is gone.
    Ping,
    /// A frame for one session.
    Session { session: SessionNumber, frame: SessionFrame },
    /// A frame of a media transfer, interleaved with session frames: behind none, and ahead of none for long.
    Transfer { transfer: TransferNumber, frame: NetworkTransfer },
}

/// A frame for one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SessionFrame {
    /// A QR text to show.
    Qr { raw: String, expires_at: Timestamp, sequence: u8 },
    /// All QR texts were used up; the session has ended.
    QrTimeout,
    /// The network refused the pairing; the session has ended.
    PairingRefused { code: u16, text: String },
    /// A pair code.
    PairCode(PairCode),
    /// The network refused to issue a pair code.
    PairCodeRefused { code: u16, text: String },
    /// A phone linked the session. The node stores the credentials and then answers with [`NodeFrame::Stored`].
    Credentials { identity: Identity, credentials: Bytes },
    /// The device is registered; the session may log in.
    Linked,
    /// The session is logged in as this account.
    LoggedIn(Identity),
    /// The network accepted a message.
    Accepted {
        id: MessageId,
        at: Timestamp,
        #[serde(default)]
        recipients: Option<u32>,
    },
    /// The network refused a message for good.
    Refused { id: MessageId, code: u16, text: String },
    /// The result of an operation.
    Operated { id: Uuid, result: Result<Box<Answer>, Refused> },
    /// An inbound item to commit and then acknowledge.
    Inbound(Box<InboundItem>),
    /// The session has ended. This is its last frame.
    Ended(EndReason),
    /// Confirms that the session was closed in order.
    Closed,
}

/// Encodes a frame with its length prefix. Field names are written, because absent fields of a message are omitted and
/// positional encoding could not tell which.
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

    /// The next frame; `None` if the peer closed the connection between frames. Cancel-safe: read bytes stay buffered.
    ///
    /// # Errors
    /// A broken connection, or bytes that are not a valid frame.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        // Buffered frames must count against the task's budget, or a flood of them starves the writer.
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
            // Some fields are set and some are omitted, in an alternating order.
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
