//! Pictures inside an operation: of a group, a newsletter or the channel's own profile.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A square picture, ready for the network: two JPEGs, well below the size limit of a frame.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// 640 by 640 pixels.
    pub full: Bytes,
    /// 96 by 96 pixels.
    pub preview: Bytes,
}

impl fmt::Debug for Picture {
    /// Shows only the sizes, to keep the bytes out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Picture({} + {} bytes)", self.full.len(), self.preview.len())
    }
}
