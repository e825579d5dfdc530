//! Handles of the network's media: where the bytes are, and how to decrypt them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::media::{Media, MediaHandle, MediaKind, Sha256Hex};
use serde::{Deserialize, Serialize};

use crate::state::rows::{pack, unpack};

/// Where media is at the network, and how to decrypt it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// Key derivation depends on the kind: the same bytes as another kind are another file.
    pub kind: MediaKind,
    pub url: String,
    pub direct_path: String,
    pub key: Vec<u8>,
    pub sha256: Vec<u8>,
    pub sealed_sha256: Vec<u8>,
    pub length: u64,
    /// When the key was made, in unix seconds.
    pub key_at: Option<i64>,
    /// The message that received media came with; the phone is asked by it to upload the media again.
    #[serde(default)]
    pub message: Option<CameWith>,
}

/// The network's names for the message that media came with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CameWith {
    pub chat: String,
    pub id: String,
    pub from_me: bool,
    /// The author, in a group.
    pub author: Option<String>,
}

impl Handle {
    pub fn read(handle: &MediaHandle) -> Option<Self> {
        unpack(&URL_SAFE_NO_PAD.decode(&handle.0).ok()?).ok()
    }

    pub fn named(&self) -> Option<MediaHandle> {
        pack(self).ok().map(|bytes| MediaHandle(URL_SAFE_NO_PAD.encode(bytes)))
    }
}

/// A message's fields about its media, as the network's messages have them.
pub struct Told<'a> {
    pub url: &'a Option<String>,
    pub direct_path: &'a Option<String>,
    pub key: &'a Option<Vec<u8>>,
    pub sha256: &'a Option<Vec<u8>>,
    pub sealed_sha256: &'a Option<Vec<u8>>,
    pub length: Option<u64>,
    pub key_at: Option<i64>,
    pub mime_type: &'a Option<String>,
}

impl Told<'_> {
    /// The media, of this kind; without a handle if the message does not say how to fetch it.
    pub fn media(self, kind: MediaKind) -> Media {
        let handle = self.handle(kind).and_then(|handle| handle.named());
        let sha256 = self.sha256.as_deref().filter(|hash| hash.len() == 32).map(|hash| Sha256Hex(hex::encode(hash)));
        Media {
            size_bytes: self.length,
            sha256,
            handle,
            ..Media::of_type(self.mime_type.as_deref().unwrap_or("application/octet-stream"))
        }
    }

    fn handle(&self, kind: MediaKind) -> Option<Handle> {
        Some(Handle {
            kind,
            url: self.url.clone().unwrap_or_default(),
            direct_path: self.direct_path.clone()?,
            key: self.key.clone()?,
            sha256: self.sha256.clone()?,
            sealed_sha256: self.sealed_sha256.clone()?,
            length: self.length?,
            key_at: self.key_at,
            message: None,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_all_that_opens_the_bytes_and_one_of_another_make_is_none() {
        let told = Told {
            url: &None,
            direct_path: &Some("/v/t62".into()),
            key: &Some(vec![1; 32]),
            sha256: &Some(vec![0xab; 32]),
            sealed_sha256: &Some(vec![3; 32]),
            length: Some(7),
            key_at: None,
            mime_type: &Some("image/png".into()),
        };
        let media = told.media(MediaKind::Image);
        let handle = Handle::read(media.handle.as_ref().unwrap()).unwrap();
        assert_eq!((handle.kind, handle.direct_path.as_str(), handle.length), (MediaKind::Image, "/v/t62", 7));
        assert_eq!(media.sha256, Some(Sha256Hex("ab".repeat(32))));
        assert_eq!(Handle::read(&MediaHandle("of the simulator".into())), None);
    }
}
