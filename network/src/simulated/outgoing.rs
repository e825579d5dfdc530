//! The queue from the sessions to the socket.
//!
//! A session's right to speak is checked here for the last time, under the lock that is held while bytes go to the
//! kernel: when [`Outgoing::barrier`] returns after a session was silenced, no byte of it follows. The one exception is
//! a frame that the kernel has taken in part; it is completed, because the connection is shared.
//!
//! Media waits in a queue of its own, and only one of its frames at a time enters the main queue: no message waits
//! longer than one piece of media takes, however many transfers run.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Notify, Semaphore};

use super::session::SimulatedSession;
use crate::driver::EndReason;

/// Maximum number of sends and acknowledgements that wait for the socket; further ones wait for room.
const ROOM: usize = 4_096;

/// Maximum number of media pieces that wait for the socket (2 MiB); further ones wait for room.
const MEDIA_ROOM: usize = 32;

/// Maximum number of frames per write.
const AT_ONCE: usize = 64;

pub struct Outgoing {
    queues: Mutex<Queues>,
    wake: Notify,
    room: Semaphore,
    media_room: Semaphore,
}

#[derive(Default)]
struct Queues {
    queue: VecDeque<Piece>,
    media: VecDeque<Piece>,
    /// Whether a frame of media is in `queue`.
    media_queued: bool,
    closed: bool,
}

struct Piece {
    bytes: Bytes,
    /// Number of bytes that the kernel has taken.
    written: usize,
    /// The session that the frame belongs to; `None` for the connection itself.
    speaker: Option<Arc<SimulatedSession>>,
    /// The permit that the frame took and must return.
    place: Option<Place>,
    media: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Message,
    Media,
}

/// The connection is gone, or the session may no longer speak.
#[derive(Debug)]
pub struct Closed;

impl Outgoing {
    pub fn new() -> Self {
        Self {
            queues: Mutex::default(),
            wake: Notify::new(),
            room: Semaphore::new(ROOM),
            media_room: Semaphore::new(MEDIA_ROOM),
        }
    }

    /// Queues a frame without waiting: for the few frames that open and close a session, and for the connection's own.
    pub fn push_now(&self, speaker: Option<&Arc<SimulatedSession>>, bytes: Bytes) {
        let piece = Piece { bytes, written: 0, speaker: speaker.cloned(), place: None, media: false };
        // On a closed connection the frame is not needed: all sessions have ended.
        let _ = self.enqueue(piece);
    }

    /// Queues a session's frame or a piece of media, once there is room.
    pub async fn push(&self, place: Place, speaker: &Arc<SimulatedSession>, bytes: Bytes) -> Result<(), Closed> {
        let media = place == Place::Media;
        let room = if media { &self.media_room } else { &self.room };
        let taken = room.acquire().await.map_err(|_| Closed)?;
        if !speaker.may_speak() {
            return Err(Closed);
        }
        self.enqueue(Piece { bytes, written: 0, speaker: Some(Arc::clone(speaker)), place: Some(place), media })?;
        taken.forget();
        Ok(())
    }

    /// Queues a small frame of a transfer without waiting, behind its pieces.
    pub fn push_media_now(&self, speaker: Option<&Arc<SimulatedSession>>, bytes: Bytes) -> Result<(), Closed> {
        self.enqueue(Piece { bytes, written: 0, speaker: speaker.cloned(), place: None, media: true })
    }

    fn enqueue(&self, piece: Piece) -> Result<(), Closed> {
        let mut queues = self.queues.lock();
        // Checked under the lock: the frame either precedes the session's close or is refused.
        let is_late = piece.place.is_some() && piece.speaker.as_ref().is_some_and(|speaker| speaker.is_closing());
        if queues.closed || is_late {
            return Err(Closed);
        }
        if piece.media {
            queues.media.push_back(piece);
        } else {
            queues.queue.push_back(piece);
        }
        drop(queues);
        self.wake.notify_one();
        Ok(())
    }

    /// Returns when no write of a session that was silenced before is in progress.
    pub fn barrier(&self) {
        drop(self.queues.lock());
    }

    /// Refuses further frames and wakes those who wait for room.
    pub fn close(&self) {
        let mut queues = self.queues.lock();
        queues.closed = true;
        queues.queue.clear();
        queues.media.clear();
        self.room.close();
        self.media_room.close();
    }

    /// Writes queued frames until the connection breaks.
    pub async fn run(&self, sink: &OwnedWriteHalf) -> io::Error {
        loop {
            match self.write_some(sink) {
                // Under steady load the socket never makes this task wait, and the reader shares the task.
                Ok(true) => tokio::task::coop::consume_budget().await,
                Ok(false) => {
                    self.wake.notified().await;
                    // Let ready tasks queue their frames first, so that all of them go to the kernel at once.
                    tokio::task::yield_now().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = sink.writable().await {
                        return error;
                    }
                }
                Err(error) => return error,
            }
        }
    }

    /// Writes as much as the kernel takes now; `false` if nothing is queued.
    fn write_some(&self, sink: &OwnedWriteHalf) -> io::Result<bool> {
        let mut queues = self.queues.lock();
        queues.admit_media();
        let silenced = queues.drop_silenced(AT_ONCE);
        let mut freed = Freed::default();
        silenced.iter().for_each(|piece| freed.count(piece));
        let outcome = if queues.queue.is_empty() {
            // Dropping silenced frames may have made room for media.
            Ok(!queues.media.is_empty())
        } else {
            let pieces = queues.queue.iter().take(AT_ONCE);
            let slices: Vec<_> = pieces.map(|piece| IoSlice::new(&piece.bytes[piece.written..])).collect();
            let taken = sink.try_write_vectored(&slices);
            taken.map(|taken| {
                queues.advance(taken, &mut freed);
                true
            })
        };
        drop(queues);
        self.room.add_permits(freed.messages);
        self.media_room.add_permits(freed.media);
        for speaker in silenced.into_iter().filter_map(|piece| piece.speaker) {
            // A frame of this session was dropped, so the session must not go on.
            speaker.cut(EndReason::Fenced);
        }
        outcome
    }
}

/// Permits to return.
#[derive(Default)]
struct Freed {
    messages: usize,
    media: usize,
}

impl Freed {
    fn count(&mut self, piece: &Piece) {
        match piece.place {
            Some(Place::Message) => self.messages += 1,
            Some(Place::Media) => self.media += 1,
            None => {}
        }
    }
}

impl Queues {
    /// Moves the next frame of media into the queue, unless one is in it already.
    fn admit_media(&mut self) {
        if !self.media_queued
            && let Some(piece) = self.media.pop_front()
        {
            self.media_queued = true;
            self.queue.push_back(piece);
        }
    }

    /// Removes the frames of silenced sessions from the first `among` frames.
    fn drop_silenced(&mut self, among: usize) -> Vec<Piece> {
        let mut silenced = Vec::new();
        let mut position = 0;
        while position < among.min(self.queue.len()) {
            let piece = &self.queue[position];
            let may_speak = piece.written > 0 || piece.speaker.as_ref().is_none_or(|speaker| speaker.may_speak());
            if may_speak {
                position += 1;
            } else {
                silenced.extend(self.queue.remove(position));
            }
        }
        if silenced.iter().any(|piece| piece.media) {
            self.media_queued = false;
        }
        silenced
    }

    /// Removes what was written and counts the permits that this frees.
    fn advance(&mut self, mut taken: usize, freed: &mut Freed) {
        while let Some(piece) = self.queue.front_mut() {
            let left = piece.bytes.len() - piece.written;
            if taken < left {
                piece.written += taken;
                break;
            }
            taken -= left;
            freed.count(piece);
            if piece.media {
                self.media_queued = false;
            }
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn what_ready_tasks_say_goes_to_the_kernel_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_source, sink) = stream.into_split();
        let outgoing = Arc::new(Outgoing::new());
        let writing = Arc::clone(&outgoing);
        tokio::spawn(async move { writing.run(&sink).await });
        // Let the writer run until it waits.
        tokio::task::yield_now().await;
        outgoing.push_now(None, Bytes::from_static(b"one"));
        let queued = tokio::spawn(async move {
            // This runs after the writer, which the first frame has woken.
            outgoing.push_now(None, Bytes::from_static(b"another"));
            outgoing.queues.lock().queue.len()
        });
        assert_eq!(queued.await.unwrap(), 2);
    }
}
