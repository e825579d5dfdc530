//! An HTTP connection that is closed while its client sends nothing, and that replaces the HTTP server's own refusals
//! by responses in the gateway's format.

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

/// Wraps a connection, and ends it (reads end of file) while it is idle.
///
/// Clients open connections ahead of their requests. A connection that has received nothing has no request in flight,
/// and would delay the port's shutdown by as long as requests may take. So it ends once the port closes, when another
/// connection takes its place, or after a long silence.
///
/// Once its first request has begun, the closing of the port no longer ends it. Until the head of that request is
/// whole, it ends when the head takes too long; then the connection counts as proven. It gives way to other connections
/// until its client is authenticated.
pub struct IdleConnection {
    wire: Wire,
    place: Place,
    /// Completes when the connection must end, unless its client sends something first.
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// `None` once the first head was read.
    unproven: Option<Unproven>,
    /// Whether no line end was read since the last response, so that the request is still in its first line.
    in_first_line: bool,
    /// The rest of the response that replaces the server's own refusal.
    instead: Option<Bytes>,
    /// Set after a refusal was replaced, to read what the client still sends. Closing a socket with unread bytes resets
    /// it, and the response is lost.
    lingering: Option<Lingering>,
}

struct Unproven {
    head: FirstHead,
    /// How long the head may take from its first byte on. Taken when that byte is read.
    patience: Option<Duration>,
}

struct Lingering {
    until: Pin<Box<Sleep>>,
    left: usize,
}

/// How long, and how many bytes, the rest of a refused request is read.
const LINGERS: Duration = Duration::from_secs(1);
const LINGERING_BYTES: usize = 1 << 20;

impl IdleConnection {
    /// `silence` is how long the connection may stay silent before its first byte; `head` is how long the first head
    /// may take from that byte on.
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

    /// Writes the gateway's response in place of `bytes` if they are a refusal of the HTTP server's own.
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
        // The server's own refusals are written in a single slice: a head without a body.
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
    /// The preface and the empty SETTINGS frame that an HTTP/2 client sends before its first request.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    /// A port that admits one connection per address.
    fn port() -> Arc<Port> {
        Port::new("test", Admission { most: 8, most_per_address: 1 })
    }

    fn place(port: &Arc<Port>) -> Option<Place> {
        port.admit([192, 0, 2, 1].into(), false)
    }

    /// Both ends of a new connection.
    async fn connected(port: &Arc<Port>, head: Duration, closing: &CancellationToken) -> (TcpStream, IdleConnection) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (served, _) = listener.accept().await.unwrap();
        let mut place = place(port).unwrap();
        place.named(client.local_addr().unwrap());
        (client, IdleConnection::new(Wire::Left(served), place, LONG, head, closing.clone()))
    }

    /// Sends bytes and waits until the server's end has read them all.
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
