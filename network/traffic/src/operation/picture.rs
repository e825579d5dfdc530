//! Pictures that travel inside an operation: of a group, a newsletter, the channel's own profile.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A square picture, ready for the network: both are JPEG, well below a frame's limit.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// 640 by 640 pixels.
    pub full: Bytes,
    /// 96 by 96 pixels.
    pub preview: Bytes,
}

impl fmt::Debug for Picture {
    /// The sizes: nobody reads the bytes in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Picture({} + {} bytes)", self.full.len(), self.preview.len())
    }
}
