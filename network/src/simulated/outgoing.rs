//! The queue from the sessions to the socket.
//!
//! The last check of a session's right to speak is made here, under the lock under which the bytes go to the kernel:
//! so when [`Outgoing::barrier`] returns after a session was silenced, no byte of it follows. The one exception is a
//! frame of which the kernel has taken a part already; it is finished, because the connection is everyone's.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Notify, Semaphore};

use super::session::SimulatedSession;
use crate::driver::EndReason;

/// How many sends and acknowledgements may wait for the socket; the next one waits for room.
const ROOM: usize = 4_096;

/// How many frames go to the kernel at once.
const AT_ONCE: usize = 64;

pub struct Outgoing {
    lane: Mutex<Lane>,
    wake: Notify,
    room: Semaphore,
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<Piece>,
    closed: bool,
}

struct Piece {
    bytes: Bytes,
    /// How many of the bytes the kernel has.
    written: usize,
    /// Who speaks; `None` for the connection itself.
    speaker: Option<Arc<SimulatedSession>>,
    /// Whether it took a place that must be given back.
    counted: bool,
}

/// The connection is gone, or the session may not speak any more.
#[derive(Debug)]
pub struct Closed;

impl Outgoing {
    pub fn new() -> Self {
        Self { lane: Mutex::default(), wake: Notify::new(), room: Semaphore::new(ROOM) }
    }

    /// Queues a session's frame, once there is room.
    pub async fn push(&self, speaker: &Arc<SimulatedSession>, bytes: Bytes) -> Result<(), Closed> {
        let place = self.room.acquire().await.map_err(|_| Closed)?;
        if !speaker.may_speak() {
            return Err(Closed);
        }
        place.forget();
        let piece = Piece { bytes, written: 0, speaker: Some(Arc::clone(speaker)), counted: true };
        if self.enqueue(piece) { Ok(()) } else { Err(Closed) }
    }

    /// Queues a frame at once: for the few that a session needs to open and close, and for the connection's own.
    pub fn push_now(&self, speaker: Option<&Arc<SimulatedSession>>, bytes: Bytes) {
        let piece = Piece { bytes, written: 0, speaker: speaker.cloned(), counted: false };
        // On a closed connection nobody needs the frame: all its sessions have ended.
        let _ = self.enqueue(piece);
    }

    fn enqueue(&self, piece: Piece) -> bool {
        let mut lane = self.lane.lock();
        if lane.closed {
            return false;
        }
        lane.queue.push_back(piece);
        drop(lane);
        self.wake.notify_one();
        true
    }

    /// Returns when no write of a session that was silenced before is under way.
    pub fn barrier(&self) {
        drop(self.lane.lock());
    }

    /// Refuses everything from here, and wakes those who wait for room.
    pub fn close(&self) {
        let mut lane = self.lane.lock();
        lane.closed = true;
        lane.queue.clear();
        self.room.close();
    }

    /// Writes what is queued, until the connection breaks.
    pub async fn run(&self, sink: &OwnedWriteHalf) -> io::Error {
        loop {
            match self.write_some(sink) {
                // Under a steady load the socket never makes this wait, and the reader shares the task.
                Ok(true) => tokio::task::coop::consume_budget().await,
                Ok(false) => self.wake.notified().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = sink.writable().await {
                        return error;
                    }
                }
                Err(error) => return error,
            }
        }
    }

    /// Gives the kernel as much as it takes now; false when nothing is queued.
    fn write_some(&self, sink: &OwnedWriteHalf) -> io::Result<bool> {
        let mut lane = self.lane.lock();
        let silenced = lane.drop_silenced(AT_ONCE);
        let mut freed = silenced.iter().filter(|piece| piece.counted).count();
        let outcome = if lane.queue.is_empty() {
            Ok(false)
        } else {
            let pieces = lane.queue.iter().take(AT_ONCE);
            let slices: Vec<_> = pieces.map(|piece| IoSlice::new(&piece.bytes[piece.written..])).collect();
            let taken = sink.try_write_vectored(&slices);
            taken.map(|taken| {
                freed += lane.advance(taken);
                true
            })
        };
        drop(lane);
        self.room.add_permits(freed);
        for speaker in silenced.into_iter().filter_map(|piece| piece.speaker) {
            // Its frame is lost: it must not live on as if nothing had happened.
            speaker.cut(EndReason::Fenced);
        }
        outcome
    }
}

impl Lane {
    /// Takes out the frames of sessions that may not speak any more among the next ones.
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
        silenced
    }

    /// Forgets what was written; returns the places that this frees.
    fn advance(&mut self, mut taken: usize) -> usize {
        let mut freed = 0;
        while let Some(piece) = self.queue.front_mut() {
            let left = piece.bytes.len() - piece.written;
            if taken < left {
                piece.written += taken;
                break;
            }
            taken -= left;
            freed += usize::from(piece.counted);
            self.queue.pop_front();
        }
        freed
    }
}
