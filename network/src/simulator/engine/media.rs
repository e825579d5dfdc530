//! Media at the network: deduplicated bytes, expiring handles, and a bound on the total.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use model::media::{LARGEST_MEDIA, MediaHandle};
use model::time::Timestamp;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::rules::{Allowed, NOT_FOUND, Refusal};
use super::{Engine, SessionId};
use crate::driver::Uploaded;
use crate::simulator::faults::MediaFail;
use crate::wire::transfer::{Digest, NetworkTransfer};

/// Retention of media, unless a fault shortens it.
const KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 3600);

/// Maximum total size, in bytes, and number of handles; the oldest are dropped first.
const MOST_BYTES: u64 = 512 * 1024 * 1024;
const MOST_HANDLES: usize = 200_000;

/// The network's codes for a file that is too large, and for an injected fault.
const TOO_LARGE: u16 = 413;
const FAULT: u16 = 403;

/// The stored media.
#[derive(Clone, Debug, Default)]
pub struct MediaStore {
    handles: HashMap<MediaHandle, Stored>,
    /// Handles in the order of creation.
    order: VecDeque<MediaHandle>,
    blobs: HashMap<Digest, Blob>,
    bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stored {
    sha256: Digest,
    at: Timestamp,
}

#[derive(Clone, Debug)]
struct Blob {
    bytes: Bytes,
    handles: usize,
}

/// A permitted transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Delay of its answer.
    pub delay: Duration,
    /// Whether the transfer is interrupted in the middle.
    pub breaks: bool,
}

/// The stored form without the bytes, which are in separate files: handles in the order of creation.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StoredMedia {
    handles: Vec<(MediaHandle, Stored)>,
}

/// File name of the bytes.
fn file_of(sha256: &Digest) -> String {
    format!("media-{}", hex::encode(sha256))
}

impl MediaStore {
    pub fn stored(&self) -> StoredMedia {
        let handles = self.order.iter().filter_map(|handle| {
            let Stored { sha256, at } = self.handles.get(handle)?;
            Some((handle.clone(), Stored { sha256: *sha256, at: *at }))
        });
        StoredMedia { handles: handles.collect() }
    }

    pub fn files(&self) -> impl Iterator<Item = (String, Bytes)> {
        self.blobs.iter().map(|(sha256, blob)| (file_of(sha256), blob.bytes.clone()))
    }

    /// Restores the store with the bytes of its files; handles without a file are dropped.
    pub fn restore(stored: StoredMedia, files: &HashMap<String, Bytes>) -> Self {
        let mut media = Self::default();
        for (handle, Stored { sha256, at }) in stored.handles {
            if let Some(bytes) = files.get(&file_of(&sha256)) {
                media.put(handle, sha256, bytes.clone(), at);
            }
        }
        media
    }

    fn put(&mut self, handle: MediaHandle, sha256: Digest, bytes: Bytes, at: Timestamp) {
        let size = bytes.len() as u64;
        let blob = self.blobs.entry(sha256).or_insert_with(|| {
            self.bytes += size;
            Blob { bytes, handles: 0 }
        });
        blob.handles += 1;
        self.handles.insert(handle.clone(), Stored { sha256, at });
        self.order.push_back(handle);
        while self.bytes > MOST_BYTES || self.handles.len() > MOST_HANDLES || self.oldest_is_expired(at) {
            self.drop_oldest();
        }
    }

    fn oldest_is_expired(&self, now: Timestamp) -> bool {
        let oldest = self.order.front().and_then(|handle| self.handles.get(handle));
        oldest.is_some_and(|stored| stored.at.plus(KEPT_FOR) <= now)
    }

    fn drop_oldest(&mut self) {
        let Some(stored) = self.order.pop_front().and_then(|handle| self.handles.remove(&handle)) else { return };
        let Some(blob) = self.blobs.get_mut(&stored.sha256) else { return };
        blob.handles -= 1;
        if blob.handles == 0 {
            self.bytes -= blob.bytes.len() as u64;
            self.blobs.remove(&stored.sha256);
        }
    }
}

impl Engine {
    /// Checks that a session may upload `size` bytes.
    pub fn begin_upload(&mut self, now: Timestamp, session: SessionId, size: u64) -> Result<Granted, NetworkTransfer> {
        self.advance(now);
        let granted = self.grant(session)?;
        if size > LARGEST_MEDIA {
            let text = format!("a file may have {LARGEST_MEDIA} bytes");
            return Err(NetworkTransfer::Refused { code: TOO_LARGE, text });
        }
        Ok(granted)
    }

    /// Stores a completed upload of a session.
    pub fn finish_upload(
        &mut self,
        now: Timestamp,
        session: SessionId,
        sha256: Digest,
        bytes: Bytes,
    ) -> Result<Uploaded, NetworkTransfer> {
        self.advance(now);
        if self.live(session).is_none() {
            return Err(not_live());
        }
        Ok(self.store_media(sha256, bytes))
    }

    /// Checks that a session may download, and returns the bytes of a handle.
    pub fn begin_download(
        &mut self,
        now: Timestamp,
        session: SessionId,
        handle: &MediaHandle,
    ) -> Result<(Granted, Digest, Bytes), NetworkTransfer> {
        self.advance(now);
        let granted = self.grant(session)?;
        let stored = self.media.handles.get(handle).ok_or(NetworkTransfer::Gone)?;
        if stored.at.plus(self.media_life()) <= now {
            return Err(NetworkTransfer::Gone);
        }
        let blob = self.media.blobs.get(&stored.sha256).ok_or(NetworkTransfer::Gone)?;
        Ok((granted, stored.sha256, blob.bytes.clone()))
    }

    fn grant(&mut self, session: SessionId) -> Result<Granted, NetworkTransfer> {
        self.live_or_late(session).ok_or_else(not_live)?;
        if self.faults.media_fail == Some(MediaFail::Refuse) {
            return Err(NetworkTransfer::Refused { code: FAULT, text: "refused by fault".into() });
        }
        let delay = Duration::from_millis(self.faults.media_delay_ms);
        Ok(Granted { delay, breaks: self.faults.media_fail == Some(MediaFail::Break) })
    }

    /// Stores bytes under a new handle.
    pub(super) fn store_media(&mut self, sha256: Digest, bytes: Bytes) -> Uploaded {
        let handle = MediaHandle(format!("media-{}", hex::encode(self.rng.random::<[u8; 16]>())));
        self.media.put(handle.clone(), sha256, bytes, self.now);
        Uploaded { handle, expires_at: self.now.plus(self.media_life()) }
    }

    /// The current retention. A fault shortens it for existing media, too.
    fn media_life(&self) -> Duration {
        self.faults.media_ttl_ms.map_or(KEPT_FOR, |life| Duration::from_millis(life).min(KEPT_FOR))
    }

    /// Checks that a message may refer to a handle.
    pub(super) fn check_handle(&self, handle: Option<&MediaHandle>) -> Allowed<()> {
        let stored = handle.and_then(|handle| self.media.handles.get(handle));
        match stored {
            Some(stored) if stored.at.plus(self.media_life()) > self.now => Ok(()),
            _ => Err(Refusal::new(NOT_FOUND, "the network does not have the media")),
        }
    }
}

/// The session has ended or is not logged in.
fn not_live() -> NetworkTransfer {
    NetworkTransfer::Broken("the session is not logged in".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn digest(n: u8) -> Digest {
        [n; 32]
    }

    fn handle(n: usize) -> MediaHandle {
        MediaHandle(n.to_string())
    }

    #[test]
    fn bytes_are_held_once_and_go_with_their_last_handle() {
        let mut store = MediaStore::default();
        let bytes = Bytes::from(vec![1; 1000]);
        store.put(handle(1), digest(1), bytes.clone(), Timestamp(0));
        store.put(handle(2), digest(1), bytes, Timestamp(0));
        assert_eq!((store.bytes, store.blobs.len(), store.handles.len()), (1000, 1, 2));
        store.drop_oldest();
        assert_eq!((store.bytes, store.blobs.len()), (1000, 1));
        store.drop_oldest();
        assert_eq!((store.bytes, store.blobs.len(), store.handles.len()), (0, 0, 0));
    }

    #[test]
    fn the_oldest_bytes_make_room() {
        let mut store = MediaStore::default();
        let large = Bytes::from(vec![0; 200 * 1024 * 1024]);
        for n in 1..=4 {
            store.put(handle(n), digest(n as u8), large.clone(), Timestamp(0));
        }
        assert!(store.bytes <= MOST_BYTES);
        assert_eq!(store.order, [handle(3), handle(4)]);
    }

    #[test]
    fn what_has_expired_is_forgotten() {
        let mut store = MediaStore::default();
        store.put(handle(1), digest(1), Bytes::from_static(b"a"), Timestamp(0));
        store.put(handle(2), digest(2), Bytes::from_static(b"b"), Timestamp(0).plus(KEPT_FOR));
        assert_eq!(store.order, [handle(2)]);
    }
}
