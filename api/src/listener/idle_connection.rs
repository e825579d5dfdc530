//! A connection of HTTP: it ends where nothing is ever said on it, and its client hears in the gateway's own words of what
//! the HTTP server refuses before any route could.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use raft::transport::admission::Place;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::refusal;
use super::wire::Wire;

/// Clients open connections ahead of their requests. One that is not used yet has no request that could be in flight,
/// and would hold up the end of the port for as long as requests have; so it reads its end once the port closes, when
/// another one takes its place, or when it has been silent for long.
pub struct IdleConnection {
    wire: Wire,
    place: Place,
    /// Until the first byte was read.
    ending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// What was read since the last answer holds no end of a line: it is still the first line of a request.
    in_first_line: bool,
    /// What is written in place of an answer without a body.
    instead: Option<Instead>,
    /// Something was, and what its client still says is to be read: a connection that is closed with bytes in it is reset, and
    /// the answer is lost.
    lingering: Option<Lingering>,
}

struct Lingering {
    until: Pin<Box<Sleep>>,
    left: usize,
}

/// How much is still read of a request that was refused, and for how long.
const LINGERS: Duration = Duration::from_secs(1);
const LINGERING_BYTES: usize = 1 << 20;

struct Instead {
    bytes: Vec<u8>,
    written: usize,
}

impl IdleConnection {
    pub fn new(wire: Wire, place: Place, patience: Duration, closing: CancellationToken) -> Self {
        let gives_way = place.gives_way().clone();
        let ending = async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = gives_way.cancelled() => {}
                () = tokio::time::sleep(patience) => {}
            }
        };
        Self { wire, place, ending: Some(Box::pin(ending)), in_first_line: true, instead: None, lingering: None }
    }

    fn heard(&mut self, bytes: &[u8]) {
        if self.ending.take().is_some() {
            self.place.proven();
        }
        self.in_first_line &= !bytes.contains(&b'\n');
    }

    /// Writes something else in place of `bytes`, when they are a refusal of the HTTP server's own.
    fn poll_instead(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_none() {
            let in_first_line = std::mem::replace(&mut self.in_first_line, true);
            self.instead = refusal::instead_of(bytes, in_first_line).map(|bytes| Instead { bytes, written: 0 });
        }
        let instead = self.instead.as_mut()?;
        while instead.written < instead.bytes.len() {
            match Pin::new(&mut self.wire).poll_write(cx, &instead.bytes[instead.written..]) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => instead.written += written,
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
        match (Pin::new(&mut this.wire).poll_read(cx, buf), &mut this.ending) {
            (Poll::Pending, Some(ending)) => {
                ready!(ending.as_mut().poll(cx));
                Poll::Ready(Ok(()))
            }
            (Poll::Pending, None) => Poll::Pending,
            (read, _) => {
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
