//! Reads what is left of a request's body before the response is sent. Most HTTP/1.1 clients send a whole request
//! before they read, and the next request after it. If the connection were closed there, they would lose the response
//! or the next request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use salvo::http::header::EXPECT;
use salvo::http::{ReqBody, Version};
use salvo::hyper::body::{Body, Frame, SizeHint};
use salvo::{BoxedError, Request};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::body::DISCARDED_BYTES;

/// How long after the head of a request its response waits for the unwanted rest of the body.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits for the next chunk. Some clients send nothing before they have a response.
const PIECE_PATIENCE: Duration = Duration::from_secs(1);

/// Receives the unread rest of a request's body from its handler.
pub struct Unread {
    rest: oneshot::Receiver<Rest>,
    until: Instant,
}

/// A body that was not read to its end.
struct Rest {
    body: ReqBody,
    arrived: u64,
}

impl Unread {
    /// Wraps the body of a request, so that an unread rest comes back. `None` where no rest is possible or does no harm
    /// (as over HTTP/2), and for clients that wait for `100 Continue` before they send the body.
    pub fn of(request: &mut Request) -> Option<Self> {
        let is_alone = request.version() <= Version::HTTP_11;
        if !is_alone || request.body().is_end_stream() || request.headers().contains_key(EXPECT) {
            return None;
        }
        let (back, rest) = oneshot::channel();
        let lent = Lent { body: request.take_body(), arrived: 0, has_ended: false, back: Some(back) };
        *request.body_mut() = ReqBody::Boxed { inner: Box::pin(lent), fuse_config: None };
        Some(Self { rest, until: Instant::now() + PATIENCE })
    }

    /// Reads and discards what the handler has not read. Returns `false` when that is too much or arrives too slowly;
    /// the connection must then be closed.
    pub async fn discard(mut self) -> bool {
        let Ok(Rest { mut body, mut arrived }) = self.rest.try_recv() else { return true };
        while arrived.saturating_add(Body::size_hint(&body).lower()) <= DISCARDED_BYTES {
            let until = self.until.min(Instant::now() + PIECE_PATIENCE);
            match timeout_at(until, body.next()).await {
                Ok(Some(Ok(frame))) => arrived += length(&frame),
                Ok(None) => return true,
                Ok(Some(Err(_))) | Err(_) => return false,
            }
        }
        false
    }
}

/// A body whose unread rest is sent back when the handler drops it.
struct Lent {
    body: ReqBody,
    arrived: u64,
    has_ended: bool,
    back: Option<oneshot::Sender<Rest>>,
}

impl Body for Lent {
    type Data = Bytes;
    type Error = BoxedError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Body::poll_frame(Pin::new(&mut this.body), cx));
        match &frame {
            Some(Ok(frame)) => this.arrived += length(frame),
            Some(Err(_)) | None => this.has_ended = true,
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BoxedError::from)))
    }

    fn is_end_stream(&self) -> bool {
        Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.body)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.has_ended || Body::is_end_stream(&self.body) {
            return;
        }
        if let Some(back) = self.back.take() {
            // The receiver is gone if the request was cancelled.
            let _ = back.send(Rest { body: std::mem::take(&mut self.body), arrived: self.arrived });
        }
    }
}

fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn request(body: ReqBody) -> Request {
        let mut request = Request::new();
        *request.body_mut() = body;
        request
    }

    /// A body of this many chunks of 1 MiB.
    struct Pieces(usize);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = BoxedError;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxedError>>> {
            let this = self.get_mut();
            let Some(left) = this.0.checked_sub(1) else { return Poll::Ready(None) };
            this.0 = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; 1 << 20])))))
        }
    }

    /// Whether the connection can be kept after a handler has read `read` of the chunks.
    async fn goes_on(pieces: usize, read: usize) -> bool {
        let mut request = request(ReqBody::Boxed { inner: Box::pin(Pieces(pieces)), fuse_config: None });
        let unread = Unread::of(&mut request).unwrap();
        let mut body = request.take_body();
        for _ in 0..read {
            body.next().await;
        }
        drop(body);
        unread.discard().await
    }

    #[tokio::test]
    async fn what_a_handler_leaves_of_a_body_is_read_up_to_a_bound() {
        for (pieces, read) in [(3, 0), (3, 2), (3, 4), (16, 0), (16, 9)] {
            assert!(goes_on(pieces, read).await, "{read} of {pieces} were read");
        }
        for (pieces, read) in [(17, 0), (17, 17), (40, 20)] {
            assert!(!goes_on(pieces, read).await, "{read} of {pieces} were read");
        }
        assert!(Unread::of(&mut request(ReqBody::None)).is_none());
        let mut asking = request(ReqBody::Once(Bytes::from_static(b"{}")));
        asking.headers_mut().insert(EXPECT, "100-continue".parse().unwrap());
        assert!(Unread::of(&mut asking).is_none(), "it has sent none of it yet");
    }
}
