//! Journal of requests by id: a request may come again in a later session, and is executed once.
//!
//! A row is stored before the first byte of a request leaves, and is replaced by the answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use model::time::Timestamp;
use network::driver::AuthError;
use network::operation::Answer;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::state::keys;
use crate::state::log::{Class, StateLog, Write};
use crate::state::rows::{pack, unpack};

/// Rows that are kept; the oldest are deleted.
const MOST_ROWS: usize = 64;

/// How long the same request may come again.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// The largest row. A larger answer is not kept, and is requested again.
const LARGEST: usize = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Row {
    at: Timestamp,
    answer: Option<Answer>,
}

/// What the journal knows of a request.
pub enum Before {
    Nothing,
    /// An earlier session made the request at this time; no answer is known.
    Asked(Timestamp),
    Answered(Box<Answer>),
}

pub struct Journal {
    log: Arc<StateLog>,
    /// Names of the rows, the oldest first.
    rows: Mutex<VecDeque<(Timestamp, String)>>,
}

impl Journal {
    pub fn new(log: Arc<StateLog>) -> Self {
        Self { log, rows: Mutex::default() }
    }

    /// Reads the rows of earlier sessions; `true` if some of them have no answer.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn take_up(&self) -> Result<bool, AuthError> {
        let (mut rows, mut is_open) = (Vec::new(), false);
        for name in self.log.names(keys::JOURNAL) {
            // An unreadable row is useless; it sorts as the oldest, and is swept.
            let row = self.log.get(&name)?.and_then(|row| unpack::<Row>(&row).ok());
            is_open |= row.as_ref().is_none_or(|row| row.answer.is_none());
            rows.push((row.map_or(Timestamp(0), |row| row.at), name));
        }
        rows.sort();
        *self.rows.lock() = rows.into();
        self.sweep(Timestamp::now());
        Ok(is_open)
    }

    /// Records a request before it is made, and returns what is known of it.
    pub fn begin(&self, id: Uuid) -> Before {
        let name = keys::journal(id);
        let known = self.log.get(&name).ok().flatten().and_then(|row| unpack::<Row>(&row).ok());
        match known {
            Some(Row { answer: Some(answer), .. }) => Before::Answered(Box::new(answer)),
            Some(Row { at, answer: None }) => Before::Asked(at),
            None => {
                let at = Timestamp::now();
                self.put(&name, &Row { at, answer: None });
                self.rows.lock().push_back((at, name));
                self.sweep(at);
                Before::Nothing
            }
        }
    }

    pub fn answered(&self, id: Uuid, answer: &Answer) {
        let row = Row { at: Timestamp::now(), answer: Some(answer.clone()) };
        self.put(&keys::journal(id), &row);
    }

    /// Deletes the row of a refused request: a repeat is refused by the network again.
    pub fn forget(&self, id: Uuid) {
        let name = keys::journal(id);
        self.rows.lock().retain(|(_, known)| *known != name);
        self.delete(name);
    }

    fn sweep(&self, now: Timestamp) {
        let mut rows = self.rows.lock();
        while rows.front().is_some_and(|(at, _)| rows.len() > MOST_ROWS || at.plus(KEPT_FOR) < now) {
            if let Some((_, name)) = rows.pop_front() {
                self.delete(name);
            }
        }
    }

    fn put(&self, name: &str, row: &Row) {
        match pack(row) {
            // A poisoned log lets no byte leave, and ends the session.
            Ok(row) if row.len() <= LARGEST => drop(self.log.append(Class::Wire, [Write::put(name, row)])),
            Ok(_) => tracing::debug!(name, "an answer is too large to be kept"),
            Err(error) => tracing::warn!(%error, "an operation could not be recorded"),
        }
    }

    fn delete(&self, name: String) {
        // A poisoned log ends the session.
        let _ = self.log.append(Class::Lazy, [Write::delete(name)]);
    }
}
