//! Classifies batches of the state log as steps of the protocol, before or after whose commit tests crash the owner.

use network::driver::{AuthStore, AuthWrite};
use wacore::libsignal::protocol::{SenderKeyRecord, SessionRecord};
use wacore::store::Device;

use super::{keys, rows};
use crate::failpoint::{COMPILED, Point, reach};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// More message keys of a session or of a sender key are leased, as before the first message of a session.
    Lease,
    /// The channel has made a sender key for a group.
    SenderKey,
    /// A received message is kept, to be reported again.
    Pending,
    /// One-time prekeys are made.
    Prekeys,
    /// A signed prekey is kept besides the device's: the next one, or an earlier one.
    SignedPrekey,
    /// The device has switched to another signed prekey.
    Promotion,
}

/// All steps of a batch.
pub struct Steps(Vec<Step>);

impl Steps {
    /// The steps of a batch; none in builds without failpoints, since this decodes the records.
    pub fn of(batch: &[AuthWrite], store: &dyn AuthStore) -> Self {
        let mut steps = Vec::new();
        if COMPILED {
            for AuthWrite { key, value } in batch {
                if let Some(value) = value {
                    steps.extend(of_row(key, value, || store.get(key).ok().flatten()));
                }
            }
        }
        Self(steps)
    }

    pub fn before_commit(&self) {
        for step in &self.0 {
            match step {
                Step::Lease => reach(Point::LeaseRaised),
                Step::SenderKey => reach(Point::SenderKeyMade),
                Step::Promotion => reach(Point::SignedPrekeyTaken),
                Step::Pending | Step::Prekeys | Step::SignedPrekey => {}
            }
        }
    }

    pub fn after_commit(&self) {
        for step in &self.0 {
            match step {
                Step::Lease => reach(Point::LeaseCommitted),
                Step::SenderKey => reach(Point::SenderKeyCommitted),
                Step::Promotion => reach(Point::SignedPrekeyPromoted),
                Step::Pending => reach(Point::PendingStored),
                Step::Prekeys => reach(Point::PrekeysStored),
                Step::SignedPrekey => reach(Point::SignedPrekeyStored),
            }
        }
    }
}

/// The steps of a row that replaces the stored one.
fn of_row(key: &str, value: &[u8], stored: impl FnOnce() -> Option<Vec<u8>>) -> Vec<Step> {
    let is_of_group = key.starts_with(keys::SENDER_KEYS);
    if is_of_group || key.starts_with(keys::SESSIONS) {
        let leased = |record: &[u8]| if is_of_group { leased_of_group(record) } else { leased_of_session(record) };
        let (now, before) = (leased(value), stored().map_or(0, |row| leased(&row)));
        // Sender keys of others lease nothing.
        return match (now > before, is_of_group && before == 0) {
            (true, true) => vec![Step::Lease, Step::SenderKey],
            (true, false) => vec![Step::Lease],
            (false, _) => Vec::new(),
        };
    }
    let is_step = |step: Step, is: bool| if is { vec![step] } else { Vec::new() };
    match key {
        keys::DEVICE => {
            let signed_prekey = |row: &[u8]| rows::unpack::<Device>(row).ok().map(|device| device.signed_pre_key_id);
            is_step(Step::Promotion, stored().is_some_and(|row| signed_prekey(&row) != signed_prekey(value)))
        }
        keys::HIGHEST_PREKEY => vec![Step::Prekeys],
        key if key.starts_with(keys::SIGNED_PREKEYS) => vec![Step::SignedPrekey],
        key => is_step(Step::Pending, key.starts_with(keys::PENDING)),
    }
}

fn leased_of_session(record: &[u8]) -> u32 {
    SessionRecord::deserialize(record).map_or(0, |record| record.reserved_sender_chain_index())
}

fn leased_of_group(record: &[u8]) -> u32 {
    SenderKeyRecord::deserialize(record).map_or(0, |record| record.reserved_iteration())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn session(spent: u32) -> Vec<u8> {
        let mut record = SessionRecord::new_fresh();
        record.reserve_sender_chain_counters(spent);
        record.serialize().unwrap()
    }

    fn key_of_group(spent: Option<u32>) -> Vec<u8> {
        let mut record = SenderKeyRecord::new_empty();
        if let Some(spent) = spent {
            record.reserve_iterations(spent);
        }
        record.serialize().unwrap()
    }

    fn device(signed_prekey: u32) -> Vec<u8> {
        let mut device = Device::new();
        device.signed_pre_key_id = signed_prekey;
        rows::pack(&device).unwrap()
    }

    fn of(key: &str, value: &[u8], stored: Option<Vec<u8>>) -> Vec<Step> {
        of_row(key, value, || stored)
    }

    #[test]
    fn a_lease_is_raised_where_more_is_leased_than_is_stored() {
        let name = keys::session("100@lid.0");
        assert_eq!(of(&name, &session(0), None), [Step::Lease]);
        assert_eq!(of(&name, &session(64), Some(session(0))), [Step::Lease]);
        assert!(of(&name, &session(0), Some(session(0))).is_empty());
        assert!(of(&name, b"what is no record", None).is_empty());
    }

    #[test]
    fn a_key_of_a_group_is_made_once_and_that_of_somebody_else_is_not() {
        let name = keys::sender_key("120363000000000001@g.us::100@lid.0");
        assert_eq!(of(&name, &key_of_group(Some(0)), None), [Step::Lease, Step::SenderKey]);
        assert_eq!(of(&name, &key_of_group(Some(64)), Some(key_of_group(Some(0)))), [Step::Lease]);
        assert!(of(&name, &key_of_group(None), None).is_empty());
    }

    #[test]
    fn prekeys_devices_and_messages_that_wait_are_told_by_their_rows() {
        assert_eq!(of(keys::DEVICE, &device(2), Some(device(1))), [Step::Promotion]);
        assert!(of(keys::DEVICE, &device(1), Some(device(1))).is_empty());
        assert!(of(keys::DEVICE, &device(1), None).is_empty(), "it is paired");
        assert_eq!(of(keys::HIGHEST_PREKEY, &812_u32.to_be_bytes(), None), [Step::Prekeys]);
        assert!(of(&keys::prekeys(1), b"rows", None).is_empty(), "one was used up");
        assert_eq!(of(&keys::signed_prekey(2), b"key", None), [Step::SignedPrekey]);
        assert_eq!(of(&keys::pending("chat", "sender", "id"), b"message", None), [Step::Pending]);
        assert!(of(&keys::inbox(1), b"item", None).is_empty());
    }
}
