//! Pictures of groups, newsletters and profiles, stored under unique names. The control API serves them to anyone who
//! knows the URL.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::Engine;
use super::rules::{CONFLICT, Refusal};
use crate::operation::picture::Picture;

/// Maximum total size, in bytes; the oldest pictures are dropped first.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// The refusal to remove a picture that does not exist.
pub const NO_PICTURE: Refusal = Refusal::new(CONFLICT, "there is no picture");

/// Identifies a picture.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PictureId(String);

/// All pictures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pictures {
    /// Not part of the record: the bytes are stored in separate files.
    #[serde(skip)]
    pictures: HashMap<PictureId, Picture>,
    /// In the order of insertion; may contain ids of removed pictures.
    order: VecDeque<PictureId>,
    bytes: usize,
}

impl Pictures {
    pub fn files(&self) -> impl Iterator<Item = (String, Bytes)> {
        self.pictures.iter().flat_map(|(id, picture)| {
            let [full, preview] = files_of(id);
            [(full, picture.full.clone()), (preview, picture.preview.clone())]
        })
    }

    /// Restores the bytes from their files.
    pub fn restore(&mut self, files: &HashMap<String, Bytes>) {
        for id in &self.order {
            let [full, preview] = files_of(id).map(|name| files.get(&name).cloned());
            if let (Some(full), Some(preview)) = (full, preview) {
                self.pictures.insert(id.clone(), Picture { full, preview });
            }
        }
        self.bytes = self.pictures.values().map(size).sum();
    }

    fn put(&mut self, id: PictureId, picture: Picture) {
        self.bytes += size(&picture);
        self.pictures.insert(id.clone(), picture);
        self.order.push_back(id);
        while self.bytes > MOST_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            self.remove(&oldest);
        }
    }

    /// Removes a picture that nothing refers to any more.
    pub fn remove(&mut self, id: &PictureId) {
        if let Some(picture) = self.pictures.remove(id) {
            self.bytes -= size(&picture);
        }
    }
}

/// File names of a picture and its preview.
fn files_of(id: &PictureId) -> [String; 2] {
    ["picture", "preview"].map(|kind| format!("{kind}-{}", id.0))
}

fn size(picture: &Picture) -> usize {
    picture.full.len() + picture.preview.len()
}

impl Engine {
    /// Replaces the previous picture, or removes it if `picture` is `None`.
    pub(super) fn replace_picture(&mut self, before: Option<PictureId>, picture: Option<Picture>) -> Option<PictureId> {
        before.inspect(|before| self.pictures.remove(before));
        picture.map(|picture| {
            let id = PictureId(hex::encode(self.rng.random::<[u8; 12]>()));
            self.pictures.put(id.clone(), picture);
            id
        })
    }

    /// The URL of a picture.
    pub(super) fn picture_url(&self, id: &PictureId) -> String {
        format!("{}/pictures/{}", self.control_url, id.0)
    }

    /// The JPEG of a picture, or of its preview.
    pub fn picture(&self, id: &str, preview: bool) -> Option<Bytes> {
        let picture = self.pictures.pictures.get(&PictureId(id.to_owned()))?;
        Some(if preview { picture.preview.clone() } else { picture.full.clone() })
    }
}
