//! Finds the deliveries that a bulk operation affects, in steps.

use bytes::Bytes;
use machine::{View, just_after};
use model::id::DeliveryId;

use super::command::{BulkAction, BulkOperation, Progress};
use super::running::Running;
use crate::keys;
use crate::records::{DeliveryRow, decode};

/// The number of keys that a step examines, and so the most deliveries that one command changes.
const STEP: usize = 256;

/// A part of the deliveries that a bulk operation affects.
pub struct Part {
    pub deliveries: Vec<DeliveryId>,
    pub progress: Progress,
}

impl BulkOperation {
    /// Reads the next part.
    pub fn next(&self, view: &dyn View, running: &Running) -> Part {
        let (mut from, to) = self.range();
        if let Some(reached) = &self.reached {
            from = just_after(reached);
        }
        let found = view.scan(&from, &to, STEP);
        let progress = match found.last() {
            Some((last, _)) if found.len() == STEP => Progress::Reached(Bytes::copy_from_slice(last)),
            _ => Progress::Finished,
        };
        let rows = found.into_iter().filter_map(|(key, value)| self.row(view, &key, &value));
        let wanted = rows.filter(|row| self.is_about(row, running));
        Part { deliveries: wanted.map(|row| row.id).collect(), progress }
    }

    /// A purge scans the jobs, which are few compared to the deliveries that have ended.
    fn range(&self) -> keys::Range {
        match self.work {
            BulkAction::Recover { since, .. } => keys::deliveries_of(self.endpoint, Some(since), Some(self.until)),
            BulkAction::Purge => keys::jobs_of(self.endpoint),
        }
    }

    fn row(&self, view: &dyn View, key: &[u8], value: &[u8]) -> Option<DeliveryRow> {
        match self.work {
            BulkAction::Recover { .. } => Some(decode(value)),
            BulkAction::Purge => {
                let (endpoint, _, id) = keys::parse_job(key)?;
                view.get(&keys::delivery(endpoint, id)).map(|row| decode(&row))
            }
        }
    }

    fn is_about(&self, row: &DeliveryRow, running: &Running) -> bool {
        let of_event = match &self.work {
            BulkAction::Recover { events, .. } => {
                running.state_of(row) == row.state && (events.is_empty() || events.contains(&row.event))
            }
            BulkAction::Purge => true,
        };
        of_event && row.created_at < self.until && self.states.contains(&row.state)
    }

    /// The number of deliveries that it would affect now.
    pub fn matched(&self, view: &dyn View, running: &Running) -> u64 {
        let mut bulk = self.clone();
        let mut matched = 0;
        loop {
            let part = bulk.next(view, running);
            matched += part.deliveries.len() as u64;
            match part.progress {
                Progress::Reached(reached) => bulk.reached = Some(reached),
                Progress::Finished => return matched,
            }
        }
    }
}
