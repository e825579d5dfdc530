//! A connection of HTTP: it ends where nothing is ever said on it, and its client hears in the gateway's own words of what
//! the HTTP server refuses before any route could.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use raft::transport::admission::Place;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::first_head::FirstHead;
use super::{Wire, refusal};

/// Clients open connections ahead of their requests. One that is not used yet has no request that could be in flight,
/// and would hold up the end of the port for as long as requests have; so it reads its end once the port closes, when
/// another one takes its place, or when it has been silent for long.
///
/// Once its first request has begun it goes on, whether the port closes or not. It has proven itself when the head of that
/// request is whole: until then it ends when the head takes too long. It gives way to another one until it is known whose it is.
pub struct IdleConnection {
    wire: Wire,
    place: Place,
    /// When it reads its end, unless its client says something.
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Until the first head was read.
    unproven: Option<Unproven>,
    /// What was read since the last answer holds no end of a line: it is still the first line of a request.
    in_first_line: bool,
    /// What is still to be written in place of an answer without a body.
    instead: Option<Bytes>,
    /// Something was, and what its client still says is to be read: a connection that is closed with bytes in it is reset, and
    /// the answer is lost.
    lingering: Option<Lingering>,
}

struct Unproven {
    head: FirstHead,
    /// How long the head may take from its first byte on, until that is read.
    patience: Option<Duration>,
}

struct Lingering {
    until: Pin<Box<Sleep>>,
    left: usize,
}

/// How much is still read of a request that was refused, and for how long.
const LINGERS: Duration = Duration::from_secs(1);
const LINGERING_BYTES: usize = 1 << 20;

impl IdleConnection {
    /// It may be silent for so long before its first byte, and take so long for the head that begins with it.
    pub fn new(wire: Wire, place: Place, silence: Duration, head: Duration, closing: CancellationToken) -> Self {
        let gives_way = place.gives_way().clone();
        let ending = Box::pin(async move {
            let silent = gives_way.run_until_cancelled(tokio::time::sleep(silence));
            closing.run_until_cancelled(silent).await;
        });
        let unproven = Some(Unproven { head: FirstHead::BEGIN, patience: Some(head) });
        Self { wire, place, ending, unproven, in_first_line: true, instead: None, lingering: None }
    }

    fn heard(&mut self, bytes: &[u8]) {
        self.in_first_line &= !bytes.contains(&b'\n');
        let Some(unproven) = self.unproven.as_mut().filter(|_| !bytes.is_empty()) else { return };
        if unproven.head.ends_in(bytes) {
            self.unproven = None;
            self.ending = Box::pin(self.place.gives_way().clone().cancelled_owned());
            self.place.proven();
        } else if let Some(patience) = unproven.patience.take() {
            let gives_way = self.place.gives_way().clone();
            self.ending = Box::pin(async move {
                gives_way.run_until_cancelled(tokio::time::sleep(patience)).await;
            });
        }
    }

    /// Writes something else in place of `bytes`, when they are a refusal of the HTTP server's own.
    fn poll_instead(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_none() {
            let in_first_line = std::mem::replace(&mut self.in_first_line, true);
            self.instead = refusal::instead_of(bytes, in_first_line).map(Bytes::from);
        }
        let instead = self.instead.as_mut()?;
        while !instead.is_empty() {
            match Pin::new(&mut self.wire).poll_write(cx, instead) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => instead.advance(written),
                other => return Some(other),
            }
        }
        self.instead = None;
        let until = Box::pin(tokio::time::sleep(LINGERS));
        self.lingering = Some(Lingering { until, left: LINGERING_BYTES });
        Some(Poll::Ready(Ok(bytes.len())))
    }
}

impl AsyncRead for IdleConnection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        match Pin::new(&mut this.wire).poll_read(cx, buf) {
            Poll::Pending => this.ending.as_mut().poll(cx).map(Ok),
            read => {
                this.heard(&buf.filled()[before..]);
                read
            }
        }
    }
}

impl AsyncWrite for IdleConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match this.poll_instead(cx, bytes) {
            Some(written) => written,
            None => Pin::new(&mut this.wire).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut whole = slices.iter().filter(|slice| !slice.is_empty());
        // A refusal of the server's own is a head and nothing else.
        if let (Some(head), None) = (whole.next(), whole.next())
            && let Some(written) = this.poll_instead(cx, head)
        {
            return written;
        }
        this.in_first_line = true;
        Pin::new(&mut this.wire).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.wire).poll_shutdown(cx))?;
        let Some(lingering) = &mut this.lingering else { return Poll::Ready(Ok(())) };
        let mut thrown_away = [0; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut thrown_away);
            let read = Pin::new(&mut this.wire).poll_read(cx, &mut buf);
            let length = buf.filled().len();
            match read {
                Poll::Ready(Ok(())) if length > 0 && lingering.left > 0 => {
                    lingering.left = lingering.left.saturating_sub(length);
                }
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return lingering.until.as_mut().poll(cx).map(Ok),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::Arc;

    use raft::transport::admission::{Admission, Port};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(600);
    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    /// What a client of HTTP/2 says before its first request.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    /// A port that has one place for an address.
    fn port() -> Arc<Port> {
        Port::new("test", Admission { most: 8, most_per_address: 1 })
    }

    fn place(port: &Arc<Port>) -> Option<Place> {
        port.admit([192, 0, 2, 1].into(), false)
    }

    /// A connection from both of its ends.
    async fn connected(port: &Arc<Port>, head: Duration, closing: &CancellationToken) -> (TcpStream, IdleConnection) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (served, _) = listener.accept().await.unwrap();
        let mut place = place(port).unwrap();
        place.named(client.local_addr().unwrap());
        (client, IdleConnection::new(Wire::Left(served), place, LONG, head, closing.clone()))
    }

    /// Says something, and has it read to its last byte.
    async fn said(client: &mut TcpStream, served: &mut IdleConnection, bytes: &[u8]) {
        client.write_all(bytes).await.unwrap();
        served.read_exact(&mut vec![0; bytes.len()]).await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_keeps_its_place_once_it_is_known_whose_it_is_and_gives_way_before() {
        let closing = CancellationToken::new();
        for begun in [&b""[..], b"G", &HEAD[..HEAD.len() - 1], PREFACE, HEAD] {
            let port = port();
            let (mut client, mut served) = connected(&port, LONG, &closing).await;
            said(&mut client, &mut served, begun).await;
            assert!(place(&port).is_some(), "{begun:?} is nobody's");
            assert_eq!(served.read(&mut [0; 16]).await.unwrap(), 0, "{begun:?}");
        }
        let port = port();
        let (mut client, mut served) = connected(&port, LONG, &closing).await;
        let (first, rest) = HEAD.split_at(HEAD.len() - 1);
        said(&mut client, &mut served, first).await;
        said(&mut client, &mut served, rest).await;
        port.recognised(client.local_addr().unwrap(), None);
        assert!(place(&port).is_none(), "it is in use");
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_to_its_end_has_its_time_and_a_whole_one_ends_that() {
        let closing = CancellationToken::new();
        for begun in [&HEAD[..HEAD.len() - 1], PREFACE] {
            let (mut client, mut served) = connected(&port(), Duration::from_millis(1), &closing).await;
            said(&mut client, &mut served, begun).await;
            assert_eq!(served.read(&mut [0; 16]).await.unwrap(), 0, "{begun:?}");
        }
        let (mut client, mut served) = connected(&port(), Duration::from_millis(1), &closing).await;
        said(&mut client, &mut served, HEAD).await;
        assert!(served.unproven.is_none(), "nothing ends it any more");
    }

    #[tokio::test]
    async fn when_the_port_closes_silent_connections_end_and_requests_that_have_begun_do_not() {
        let closing = CancellationToken::new();
        let (_client, mut silent) = connected(&port(), LONG, &closing).await;
        let (mut client, mut begun) = connected(&port(), LONG, &closing).await;
        said(&mut client, &mut begun, b"G").await;
        closing.cancel();
        assert_eq!(silent.read(&mut [0; 16]).await.unwrap(), 0);
        said(&mut client, &mut begun, &HEAD[1..]).await;
    }
}
