//! The frames that wait for one client. Bounded, so that a slow client costs no more than its queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The most frames and bytes that wait for a client.
const MOST_FRAMES: usize = 1000;
const MOST_BYTES: usize = 1024 * 1024;

/// Frames are passed to the connection together, up to this many bytes.
const CHUNK: usize = 64 * 1024;

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    ended: bool,
    pushed_at: Option<Instant>,
}

/// The queue of one client. The feed pushes frames, the response's body takes them.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    pushed: Notify,
    taken: Notify,
    /// Cancelled when nobody reads any more.
    gone: CancellationToken,
}

impl Queue {
    /// Adds a frame even if the queue is full. For frames that [`Queue::room`] paces, and for the last frame.
    pub fn push(&self, frame: Bytes) {
        let mut waiting = self.waiting.lock();
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame);
        waiting.pushed_at = Some(Instant::now());
        drop(waiting);
        self.pushed.notify_one();
    }

    /// Adds a frame if there is room; an empty queue always has room. Returns whether it was added.
    pub fn offer(&self, frame: Bytes) -> bool {
        let full = {
            let waiting = self.waiting.lock();
            let full = waiting.frames.len() >= MOST_FRAMES || waiting.bytes + frame.len() > MOST_BYTES;
            full && !waiting.frames.is_empty()
        };
        if !full {
            self.push(frame);
        }
        !full
    }

    /// Marks the end of the stream after the waiting frames.
    pub fn end(&self) {
        self.waiting.lock().ended = true;
        self.pushed.notify_one();
    }

    /// Waits until half of the queue is free; `false` if that takes longer than `within`.
    pub async fn room(&self, within: Duration) -> bool {
        let free = async {
            loop {
                let taken = self.taken.notified();
                let free = {
                    let waiting = self.waiting.lock();
                    waiting.frames.len() <= MOST_FRAMES / 2 && waiting.bytes <= MOST_BYTES / 2
                };
                if free {
                    return;
                }
                taken.await;
            }
        };
        tokio::time::timeout(within, free).await.is_ok()
    }

    /// How long nothing was pushed; `None` while frames wait.
    pub fn silent_for(&self) -> Option<Duration> {
        let waiting = self.waiting.lock();
        if waiting.frames.is_empty() { Some(waiting.pushed_at.map_or(Duration::MAX, |at| at.elapsed())) } else { None }
    }

    /// Returns when the client has gone, or has read everything of an ended stream.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                if let Some(frame) = waiting.frames.pop_front() {
                    let mut chunk = BytesMut::from(&frame[..]);
                    while waiting.frames.front().is_some_and(|next| chunk.len() + next.len() <= CHUNK)
                        && let Some(next) = waiting.frames.pop_front()
                    {
                        chunk.extend_from_slice(&next);
                    }
                    waiting.bytes -= chunk.len();
                    drop(waiting);
                    self.taken.notify_one();
                    return Some(chunk.freeze());
                }
                if waiting.ended {
                    return None;
                }
            }
            self.pushed.notified().await;
        }
    }
}

/// The reading end. Dropped with the connection, which tells the feed that the client has gone.
struct Reader(Arc<Queue>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.gone.cancel();
    }
}

/// The body of the response.
pub fn body(queue: Arc<Queue>) -> impl Stream<Item = Bytes> + Send {
    futures::stream::unfold(Reader(queue), |reader| async move {
        let chunk = reader.0.next().await?;
        Some((chunk, reader))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    #[tokio::test]
    async fn frames_come_in_order_and_the_end_after_them() {
        let queue = Arc::new(Queue::default());
        queue.push(Bytes::from_static(b"one "));
        queue.push(Bytes::from_static(b"two"));
        queue.end();
        let chunks: Vec<Bytes> = body(queue.clone()).collect().await;
        assert_eq!(chunks.concat(), b"one two");
        queue.gone().await;
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_fills_its_queue_and_no_more() {
        let queue = Arc::new(Queue::default());
        let taken = (0..2000).take_while(|_| queue.offer(Bytes::from_static(b"x"))).count();
        assert_eq!(taken, MOST_FRAMES);
        assert!(!queue.room(Duration::from_millis(1)).await);

        let large = Queue::default();
        let frame = || Bytes::from(vec![0; 300 * 1024]);
        assert_eq!((0..10).take_while(|_| large.offer(frame())).count(), 3);
        assert!(large.next().await.is_some() && large.next().await.is_some());
        assert!(large.room(Duration::from_millis(1)).await);
        let largest = Queue::default();
        assert!(largest.offer(Bytes::from(vec![0; 2 * MOST_BYTES])), "one frame always has place");
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_is_noticed() {
        let queue = Arc::new(Queue::default());
        let reading = body(queue.clone());
        assert_eq!(queue.silent_for(), Some(Duration::MAX));
        drop(reading);
        queue.gone().await;
    }
}
