//! Exports a group's state from a running cluster, as of one moment.

use std::io;
use std::time::Instant;

use bytes::{Buf, Bytes};
use thiserror::Error;
use tokio::sync::mpsc;

use super::{END, LENGTHS_BYTES, MAGIC};
use crate::group::{Group, ReadError};
use crate::machine::{GroupId, Position};
use crate::state::disk::{Fnv, state_key};
use crate::state::snapshot::Source;
use crate::types::term_of;

/// Why a group's state cannot be exported.
#[derive(Debug, Error)]
pub enum ExportError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the group has not been formed")]
    NotFormed,
    #[error("the state cannot be read: {0}")]
    Disk(io::Error),
}

/// A group's state at one moment, as a byte stream; [`super::file`] reads it. Holds a database snapshot while it lives.
pub struct Export {
    group: GroupId,
    at: Position,
    has_begun: bool,
    /// `None` after the last chunk.
    chunks: Option<mpsc::Receiver<io::Result<Bytes>>>,
    pairs: u64,
    hash: Fnv,
}

impl Group {
    /// Takes the local state once it includes everything that any node answered before this call.
    ///
    /// # Errors
    /// [`ExportError`]; another replica may succeed.
    pub async fn export(&self, deadline: Instant) -> Result<Export, ExportError> {
        self.linearizable(deadline).await?;
        let (meta, source) = Source::take(self.core.state.clone(), self.id()).await.map_err(ExportError::Disk)?;
        let last = meta.last_log_id.ok_or(ExportError::NotFormed)?;
        Ok(Export {
            group: self.id(),
            at: Position { term: term_of(&last), index: last.index },
            has_begun: false,
            chunks: Some(source.read()),
            pairs: 0,
            hash: Fnv::default(),
        })
    }
}

impl Export {
    /// The next piece, of about 1 MiB; `None` after the last one.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Ok(self.head()));
        }
        let piece = self.chunks.as_mut()?.recv().await;
        match &piece {
            Some(Ok(chunk)) => self.count(chunk.clone()),
            Some(Err(_)) | None => self.chunks = None,
        }
        Some(piece.unwrap_or_else(|| Ok(self.tail())))
    }

    fn head(&self) -> Bytes {
        let Position { term, index } = self.at;
        [&MAGIC[..], &self.group.to_be_bytes(), &term.to_be_bytes(), &index.to_be_bytes()].concat().into()
    }

    fn tail(&self) -> Bytes {
        let end = END.to_be_bytes();
        [&end[..], &end, &self.pairs.to_be_bytes(), &self.hash.finish().to_be_bytes()].concat().into()
    }

    /// Adds a chunk's pairs to the count and the hash; a chunk contains whole pairs.
    fn count(&mut self, mut chunk: Bytes) {
        while chunk.remaining() >= LENGTHS_BYTES {
            let (key, value) = (chunk.get_u32() as usize, chunk.get_u32() as usize);
            self.hash.add(&state_key(self.group, &chunk.split_to(key)));
            self.hash.add(&chunk.split_to(value));
            self.pairs += 1;
        }
    }
}
