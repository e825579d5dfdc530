//! The frames of media: bytes in pieces of at most [`MEDIA_PIECE`], a few of them under way at a time.
//!
//! A transfer runs between [`NodeTransfer::Upload`] or [`NodeTransfer::Download`] and the first frame that ends it.
//! Whoever sends pieces sends one only for each that the other side has said it has room for, so that a transfer
//! never fills a queue.
//!
//! [`MEDIA_PIECE`]: crate::driver::MEDIA_PIECE

use bytes::Bytes;
use model::media::MediaHandle;
use serde::{Deserialize, Serialize};

use crate::driver::Uploaded;

/// A node's number for a transfer; never used twice on one connection.
pub type TransferNumber = u64;

/// How many pieces of one transfer may be under way.
pub const TRANSFER_WINDOW: u32 = 4;

/// The SHA-256 of all bytes of a transfer.
pub type Digest = [u8; 32];

/// From a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeTransfer {
    /// Asks to store bytes; answered with room or a refusal.
    Upload { mime_type: String, size: u64 },
    /// The next bytes of an upload.
    Piece(Bytes),
    /// All bytes of an upload were sent.
    Finish { sha256: Digest },
    /// Asks for bytes, with room for the first [`TRANSFER_WINDOW`] pieces.
    Download { handle: MediaHandle },
    /// Room for this many more pieces of a download.
    Room { pieces: u32 },
    /// Ends the transfer; no answer follows.
    Cancel,
}

/// From the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NetworkTransfer {
    /// Room for this many more pieces of an upload.
    Room { pieces: u32 },
    /// The upload is complete.
    Stored(Uploaded),
    /// The next bytes of a download.
    Piece(Bytes),
    /// All bytes of a download were sent.
    Finish { sha256: Digest },
    /// The transfer is refused for good.
    Refused { code: u16, text: String },
    /// The network no longer has the bytes.
    Gone,
    /// The transfer broke off; another may go well.
    Broken(String),
}
