//! The ledger of accepted messages: one row per sender and message id, in the order of acceptance.

use std::collections::HashMap;
use std::sync::Arc;

use model::address::Suffixes;
use model::id::{Epoch, NodeId};
use model::time::Timestamp;

use super::message::Message;
use crate::simulator::answers::AcceptedRow;
use crate::simulator::number::Number;

#[derive(Debug, Default)]
pub struct Ledger {
    rows: Vec<Row>,
    /// Where a sender's message stands.
    positions: HashMap<Number, HashMap<Arc<str>, u32>>,
}

#[derive(Debug)]
struct Row {
    message: Arc<Message>,
    raw_copies: u32,
    node: NodeId,
    epoch: Epoch,
    at: Timestamp,
}

impl Ledger {
    /// Counts one more send of a message that was accepted before, and returns it.
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

    /// The rows behind `since_seq`; sequence numbers begin at 1.
    pub fn rows(&self, since_seq: u64, limit: usize, suffixes: &Suffixes) -> Vec<AcceptedRow> {
        let start = usize::try_from(since_seq).unwrap_or(usize::MAX).min(self.rows.len());
        let rows = (start as u64 + 1..).zip(&self.rows[start..]).take(limit);
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
