//! Encoding between two peers: frames of messages.
//!
//! ```text
//! frame    length u32 of what follows | version u8 | messages...
//! message  kind u8 | id u64 | service u16 | length u32 | body
//! ```
//!
//! All messages that are ready share one frame, such as the heartbeats of all groups, or a burst of calls.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Version of the frame; a peer that does not support it closes the connection.
const VERSION: u8 = 1;
/// A longer frame is damaged, or an attack. Limits messages too.
pub(super) const MAX_FRAME: usize = 64 << 20;
const MESSAGE_HEAD: usize = 15;
/// Growth of a read buffer, and the free space it should have before a read.
const BUFFER: usize = 16 << 10;
const ROOM: usize = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request = 0,
    Response = 1,
    /// The request was not handled; the body says why.
    Refusal = 2,
    Ping = 3,
    Pong = 4,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Request, Self::Response, Self::Refusal, Self::Ping, Self::Pong];
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Matches an answer to its request. Chosen by the requester.
    pub(super) id: u64,
    pub(super) service: u16,
    pub(super) body: Bytes,
}

#[derive(Debug, Error)]
pub(super) enum FrameError {
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("a frame of version {0} is not known to this node")]
    Version(u8),
    #[error("a frame is damaged")]
    Damaged,
}

/// Writes a message outside of frames: its length and its bytes.
pub(super) async fn write_alone(stream: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> std::io::Result<()> {
    let too_long = |_| std::io::Error::other("too long");
    let length = u32::try_from(body.len()).map_err(too_long)?;
    stream.write_all(&[&length.to_be_bytes(), body].concat()).await?;
    stream.flush().await
}

/// Reads a message of [`write_alone`] of at most `most` bytes.
pub(super) async fn read_alone(stream: &mut (impl AsyncRead + Unpin), most: u32) -> std::io::Result<Bytes> {
    let length = stream.read_u32().await?;
    if length > most {
        return Err(std::io::Error::other(format!("{length} bytes are too many")));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).await?;
    Ok(body.into())
}

/// Starts a frame in an empty buffer.
pub(super) fn begin(frame: &mut BytesMut) {
    frame.put_u32(0);
    frame.put_u8(VERSION);
}

pub(super) fn push(frame: &mut BytesMut, message: &Message) {
    frame.reserve(MESSAGE_HEAD + message.body.len());
    frame.put_u8(message.kind as u8);
    frame.put_u64(message.id);
    frame.put_u16(message.service);
    frame.put_u32(message.body.len() as u32);
    frame.put_slice(&message.body);
}

/// Fills in the frame's length.
pub(super) fn end(frame: &mut BytesMut) {
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
}

/// Size of a message in a frame.
pub(super) fn size(message: &Message) -> usize {
    MESSAGE_HEAD + message.body.len()
}

/// Reads the next frame; bytes after it stay in the buffer. Calls `goes_on` whenever part of a frame has arrived.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    mut goes_on: impl FnMut(),
) -> Result<Bytes, FrameError> {
    loop {
        if buffer.len() >= 4 {
            let length = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
            if length == 0 || length > MAX_FRAME {
                return Err(FrameError::Damaged);
            }
            if buffer.len() >= 4 + length {
                buffer.advance(4);
                let mut frame = buffer.split_to(length).freeze();
                return match frame.get_u8() {
                    VERSION => Ok(frame),
                    other => Err(FrameError::Version(other)),
                };
            }
            goes_on();
            buffer.reserve(4 + length - buffer.len());
        } else if buffer.capacity() - buffer.len() < ROOM {
            buffer.reserve(BUFFER);
        }
        match stream.read_buf(buffer).await {
            Ok(0) => return Err(FrameError::Closed),
            // A process that is killed does not close TLS properly; a truncated frame is dropped either way.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(FrameError::Closed),
            read => read?,
        };
    }
}

/// Takes the next message from a frame; its body shares the frame's bytes.
pub(super) fn next(frame: &mut Bytes) -> Option<Result<Message, FrameError>> {
    if frame.is_empty() {
        return None;
    }
    if frame.len() < MESSAGE_HEAD {
        return Some(Err(FrameError::Damaged));
    }
    let number = frame.get_u8();
    let Some(kind) = Kind::ALL.into_iter().find(|kind| *kind as u8 == number) else {
        return Some(Err(FrameError::Damaged));
    };
    let (id, service, length) = (frame.get_u64(), frame.get_u16(), frame.get_u32() as usize);
    if frame.len() < length {
        return Some(Err(FrameError::Damaged));
    }
    Some(Ok(Message { kind, id, service, body: frame.split_to(length) }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn messages_come_out_of_a_frame_as_they_went_in_whatever_the_pieces() {
        let mut frame = BytesMut::new();
        begin(&mut frame);
        for id in 0..3 {
            push(&mut frame, &Message { kind: Kind::Request, id, service: 7, body: Bytes::from(vec![1; id as usize]) });
        }
        end(&mut frame);
        let mut stream = in_pieces(&frame);
        let mut buffer = BytesMut::new();
        let mut frame = read(&mut stream, &mut buffer, || {}).await.unwrap();
        let mut lengths = Vec::new();
        while let Some(message) = next(&mut frame) {
            let message = message.unwrap();
            assert_eq!((message.kind, message.service), (Kind::Request, 7));
            lengths.push(message.body.len());
        }
        assert_eq!(lengths, [0, 1, 2]);
        assert!(matches!(read(&mut stream, &mut buffer, || {}).await, Err(FrameError::Closed)));
    }

    /// A stream that yields a few bytes at a time.
    fn in_pieces(bytes: &[u8]) -> impl AsyncRead + Unpin + use<> {
        struct Pieces(Bytes);
        impl AsyncRead for Pieces {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                out: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let count = self.0.len().min(3).min(out.remaining());
                out.put_slice(&self.0.split_to(count));
                std::task::Poll::Ready(Ok(()))
            }
        }
        Pieces(Bytes::copy_from_slice(bytes))
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut frame = Bytes::from(bytes);
            while let Some(Ok(_)) = next(&mut frame) {}
        }
    }
}
