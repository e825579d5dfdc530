//! A connection that ends with the port as long as nothing was said on it.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::wire::Wire;

/// Clients open connections ahead of their requests. One that is not used yet has no request that could be in flight,
/// and would hold up the end of the port for as long as requests have; so it reads its end once the port closes.
pub struct Unspoken {
    wire: Wire,
    /// Until the first byte was read.
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Unspoken {
    pub fn new(wire: Wire, closing: CancellationToken) -> Self {
        Self { wire, closing: Some(Box::pin(closing.cancelled_owned())) }
    }
}

impl AsyncRead for Unspoken {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.wire).poll_read(cx, buf);
        match (&mut this.closing, read) {
            (Some(closing), Poll::Pending) => closing.as_mut().poll(cx).map(Ok),
            (_, read) => {
                this.closing = None;
                read
            }
        }
    }
}

impl AsyncWrite for Unspoken {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().wire).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().wire).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(cx)
    }
}
