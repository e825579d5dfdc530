//! Frames of media transfers: pieces of at most [`MEDIA_PIECE`] bytes, a few of them in flight at a time.
//!
//! A transfer lasts from [`NodeTransfer::Upload`] or [`NodeTransfer::Download`] to the first frame that ends it. The
//! receiver grants credit, and the sender sends one piece per credit, so that a transfer never fills a queue.
//!
//! [`MEDIA_PIECE`]: crate::driver::MEDIA_PIECE

use bytes::Bytes;
use model::media::MediaHandle;
use serde::{Deserialize, Serialize};

use crate::driver::Uploaded;

/// A node's number for a transfer; never reused on a connection.
pub type TransferNumber = u64;

/// Maximum number of pieces of a transfer in flight.
pub const TRANSFER_WINDOW: u32 = 4;

/// SHA-256 of all bytes of a transfer.
pub type Digest = [u8; 32];

/// A frame from a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeTransfer {
    /// Requests to store bytes; answered with room or a refusal.
    Upload { mime_type: String, size: u64 },
    /// The next piece of an upload.
    Piece(Bytes),
    /// Ends an upload: all pieces were sent.
    Finish { sha256: Digest },
    /// Requests bytes, with room for the first [`TRANSFER_WINDOW`] pieces.
    Download { handle: MediaHandle },
    /// Grants room for this many more pieces of a download.
    Room { pieces: u32 },
    /// Cancels the transfer; no answer follows.
    Cancel,
}

/// A frame from the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NetworkTransfer {
    /// Grants room for this many more pieces of an upload.
    Room { pieces: u32 },
    /// The upload is complete.
    Stored(Uploaded),
    /// The next piece of a download.
    Piece(Bytes),
    /// Ends a download: all pieces were sent.
    Finish { sha256: Digest },
    /// The network refused the transfer for good.
    Refused { code: u16, text: String },
    /// The network no longer has the bytes.
    Gone,
    /// The transfer failed; a retry may succeed.
    Broken(String),
}
