//! The ledger of accepted messages: one row per sender and message id, in the order of acceptance.

use std::collections::HashMap;
use std::sync::Arc;

use model::address::Suffixes;
use model::id::{Epoch, NodeId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::message::{self, Message};
use crate::simulator::answers::AcceptedRow;
use crate::simulator::number::Number;

/// Number of rows that are shared with, or copied from, a snapshot at a time.
const CHUNK: usize = 1_024;

#[derive(Debug, Default)]
pub struct Ledger {
    rows: Rows,
    /// Row indexes by sender and message id.
    positions: HashMap<Number, HashMap<Arc<str>, u32>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    #[serde(with = "message::numbered")]
    message: Arc<Message>,
    raw_copies: u32,
    node: NodeId,
    epoch: Epoch,
    at: Timestamp,
}

/// The rows in copy-on-write chunks: a snapshot is cheap, and a chunk is copied if it changes meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    chunks: Vec<Arc<Vec<Row>>>,
}

impl Rows {
    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    fn get_mut(&mut self, position: usize) -> Option<&mut Row> {
        Arc::make_mut(self.chunks.get_mut(position / CHUNK)?).get_mut(position % CHUNK)
    }

    fn push(&mut self, row: Row) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).push(row),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(row);
                self.chunks.push(Arc::new(chunk));
            }
        }
    }

    fn starting_at(&self, start: usize) -> impl Iterator<Item = &Row> {
        let chunks = self.chunks.get(start / CHUNK..).unwrap_or_default();
        chunks.iter().flat_map(|chunk| chunk.iter()).skip(start % CHUNK)
    }

    /// The chunks in which the rows are stored.
    pub fn chunks(&self) -> impl Iterator<Item = &Vec<Row>> {
        self.chunks.iter().map(|chunk| &**chunk)
    }

    /// Appends a stored chunk.
    pub fn extend(&mut self, rows: Vec<Row>) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

impl Ledger {
    /// The ledger of stored rows.
    pub fn restore(rows: Rows) -> Self {
        let mut positions: HashMap<Number, HashMap<Arc<str>, u32>> = HashMap::new();
        for (position, row) in (0..).zip(rows.starting_at(0)) {
            positions.entry(row.message.from).or_default().insert(Arc::clone(&row.message.id), position);
        }
        Self { rows, positions }
    }

    /// A snapshot of the rows.
    pub fn copy(&self) -> Rows {
        self.rows.clone()
    }

    /// Counts another send of an accepted message, and returns the message.
    pub fn repeat(&mut self, from: Number, id: &str) -> Option<Arc<Message>> {
        let position = *self.positions.get(&from)?.get(id)?;
        let row = self.rows.get_mut(position as usize)?;
        row.raw_copies += 1;
        Some(Arc::clone(&row.message))
    }

    pub fn push(&mut self, message: Arc<Message>, node: NodeId, epoch: Epoch, at: Timestamp) {
        let position = self.rows.len() as u32;
        self.positions.entry(message.from).or_default().insert(Arc::clone(&message.id), position);
        self.rows.push(Row { message, raw_copies: 1, node, epoch, at });
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows after `since_seq`; sequence numbers begin at 1.
    pub fn rows(&self, since_seq: u64, limit: usize, suffixes: &Suffixes) -> Vec<AcceptedRow> {
        let start = usize::try_from(since_seq).unwrap_or(usize::MAX).min(self.rows.len());
        let rows = (start as u64 + 1..).zip(self.rows.starting_at(start)).take(limit);
        rows.map(|(seq, row)| AcceptedRow {
            seq,
            id: row.message.message_id(),
            from: suffixes.phone_address(&row.message.from.to_string()),
            to: row.message.to.clone(),
            raw_copies: row.raw_copies,
            node: row.node,
            epoch: row.epoch,
            at: row.at,
        })
        .collect()
    }
}
