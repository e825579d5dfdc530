//! The deliveries that this node attempts right now: kept in memory only, and shown in place of the stored state.

use std::collections::HashSet;
use std::sync::Arc;

use model::id::DeliveryId;
use model::webhook::DeliveryState;
use parking_lot::Mutex;

use crate::records::DeliveryRow;

/// The deliveries in flight on this node.
#[derive(Clone, Debug)]
pub struct Running {
    ids: Arc<Mutex<HashSet<DeliveryId>>>,
    max_attempts: u32,
}

/// A delivery in flight, for as long as this is held.
pub struct InFlight {
    running: Running,
    id: DeliveryId,
}

impl Running {
    pub fn new(max_attempts: u32) -> Self {
        Self { ids: Arc::default(), max_attempts }
    }

    pub fn begin(&self, id: DeliveryId) -> InFlight {
        self.ids.lock().insert(id);
        InFlight { running: self.clone(), id }
    }

    /// The present state of a stored delivery.
    pub fn state_of(&self, row: &DeliveryRow) -> DeliveryState {
        // A state that is final or paused was stored while the attempt ran, and so is newer.
        let waits = matches!(row.state, DeliveryState::Pending | DeliveryState::Retrying);
        if waits && self.ids.lock().contains(&row.id) { DeliveryState::InFlight } else { row.state }
    }

    pub fn is_in_flight(&self, id: DeliveryId) -> bool {
        self.ids.lock().contains(&id)
    }

    /// The number of attempts in the schedule.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.running.ids.lock().remove(&self.id);
    }
}
