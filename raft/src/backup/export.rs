//! Reads a group's state out of a running cluster, as it is at one moment.

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

/// Why a group's state cannot be read out.
#[derive(Debug, Error)]
pub enum ExportError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the group has not been formed")]
    NotFormed,
    #[error("the state cannot be read: {0}")]
    Disk(io::Error),
}

/// The state of a group at one moment, as bytes; [`super::file`] reads them again. The store keeps that moment for as
/// long as this lives.
pub struct Export {
    group: GroupId,
    at: Position,
    has_begun: bool,
    /// `None` behind the last one.
    chunks: Option<mpsc::Receiver<io::Result<Bytes>>>,
    pairs: u64,
    hash: Fnv,
}

impl Group {
    /// Takes the state here once it shows everything that was answered before this call, on whatever node.
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
    /// The next piece, of about 1 MiB; `None` behind the last one.
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

    /// Adds the pairs of a chunk, which holds whole ones, to the count and the hash.
    fn count(&mut self, mut chunk: Bytes) {
        while chunk.remaining() >= LENGTHS_BYTES {
            let (key, value) = (chunk.get_u32() as usize, chunk.get_u32() as usize);
            self.hash.add(&state_key(self.group, &chunk.split_to(key)));
            self.hash.add(&chunk.split_to(value));
            self.pairs += 1;
        }
    }
}
