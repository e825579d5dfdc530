//! Adapts bytes that come in pieces to a blocking reader.

use std::io::{self, Read};

use bytes::Bytes;

/// Reads the pieces that `next` returns; `None` is the end.
pub struct Pieces<F> {
    next: F,
    piece: Bytes,
}

impl<F: FnMut() -> io::Result<Option<Bytes>>> Pieces<F> {
    pub fn new(next: F) -> Self {
        Self { next, piece: Bytes::new() }
    }
}

impl<F: FnMut() -> io::Result<Option<Bytes>>> Read for Pieces<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match (self.next)()? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = into.len().min(self.piece.len());
        into[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
