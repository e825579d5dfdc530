//! Pictures of groups, newsletters and profiles: kept under a name that is never used twice, and served by the control
//! API, so that whoever knows a picture's URL can look at it.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::Engine;
use super::rules::{CONFLICT, Refusal};
use crate::operation::picture::Picture;

/// How many bytes are kept; the oldest pictures go first.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// To who wants a picture taken away.
pub const NO_PICTURE: Refusal = Refusal::new(CONFLICT, "there is no picture");

/// Names a picture.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PictureId(String);

/// All pictures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pictures {
    /// Not stored with the rest: their bytes lie in files of their own.
    #[serde(skip)]
    pictures: HashMap<PictureId, Picture>,
    /// In the order in which they came; some may be gone.
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

    /// Takes the bytes in that were stored.
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

    /// Nobody has it any more.
    pub fn remove(&mut self, id: &PictureId) {
        if let Some(picture) = self.pictures.remove(id) {
            self.bytes -= size(&picture);
        }
    }
}

/// The names of the files of a picture and its preview.
fn files_of(id: &PictureId) -> [String; 2] {
    ["picture", "preview"].map(|kind| format!("{kind}-{}", id.0))
}

fn size(picture: &Picture) -> usize {
    picture.full.len() + picture.preview.len()
}

impl Engine {
    /// Puts a picture in the place of the one before, or takes that away.
    pub(super) fn replace_picture(&mut self, before: Option<PictureId>, picture: Option<Picture>) -> Option<PictureId> {
        before.inspect(|before| self.pictures.remove(before));
        picture.map(|picture| {
            let id = PictureId(hex::encode(self.rng.random::<[u8; 12]>()));
            self.pictures.put(id.clone(), picture);
            id
        })
    }

    /// Where a picture is served.
    pub(super) fn picture_url(&self, id: &PictureId) -> String {
        format!("{}/pictures/{}", self.control_url, id.0)
    }

    /// The JPEG of a picture, or of its preview.
    pub fn picture(&self, id: &str, preview: bool) -> Option<Bytes> {
        let picture = self.pictures.pictures.get(&PictureId(id.to_owned()))?;
        Some(if preview { picture.preview.clone() } else { picture.full.clone() })
    }
}
