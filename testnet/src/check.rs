//! What the server verifies in the traffic. Each finding is a line of the [`Report`].

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use sha2::{Digest, Sha256};
use wacore::libsignal::protocol::{PreKeySignalMessage, SenderKeyMessage, SignalMessage};

use crate::number::{DeviceAddress, Number};
use crate::phone::EncType;

/// Maximum number of lines in a list of findings; the last line counts the rest.
const MAX_LINES: usize = 1_000;

/// Maximum number of message keys, bodies and chains that are remembered; `overflow` says when that was not enough.
const MAX_REMEMBERED: usize = 5_000_000;

/// Maximum number of first messages that are remembered of a session.
const MAX_OPENINGS: usize = 100;

/// Response to `GET /crypto`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Message keys that encrypted two different ciphertexts.
    pub key_reuse: Vec<String>,
    /// Number of ciphertexts that were sent twice, byte for byte.
    pub wire_repeats: u64,
    /// Number of ciphertexts that a phone could not decrypt, except after `forget-session` and `corrupt`.
    pub undecryptable: u64,
    pub undecryptable_rows: Vec<String>,
    /// Number of retry receipts from companions.
    pub retry_receipts: u64,
    pub prekeys_given: u64,
    /// Lowest number of one-time prekeys that a companion had left when one was requested.
    pub prekeys_left_min: Option<usize>,
    /// Prekey ids offered with two keys, and signed prekeys with an invalid signature.
    pub prekey_conflicts: Vec<String>,
    /// Number of retry receipts about a prekey that is unknown to its device.
    pub prekey_unknown: u64,
    pub prekey_unknown_rows: Vec<String>,
    /// Number of direct messages encrypted for a wrong list of devices; their acknowledgements say so.
    pub wrong_devices: u64,
    /// Message ids used with two different bodies.
    pub body_conflicts: Vec<String>,
    /// Acknowledgements of stanzas that were never sent to the device.
    pub foreign_acks: Vec<String>,
    pub session_gaps_max: u32,
    pub sender_key_gaps_max: u32,
    /// Devices that logged in with a lower epoch after a higher one.
    pub two_live: Vec<String>,
    pub qr_pairings: u64,
    /// Whether something was not remembered for lack of space, so that the report proves less.
    pub overflow: bool,
}

#[derive(Default)]
pub struct Check {
    report: Report,
    /// Hash of the ciphertext that each message key encrypted.
    keys: HashMap<[u8; 16], [u8; 16]>,
    /// The highest counter of each chain.
    chains: HashMap<[u8; 16], u32>,
    /// Hash of the body of each message.
    bodies: HashMap<(Number, String), [u8; 16]>,
    /// First messages of sessions, by recipient device and message id.
    openings: HashMap<(DeviceAddress, String), Opening>,
    /// Message ids of each session's first messages, by recipient device.
    sessions: HashMap<(DeviceAddress, [u8; 16]), Vec<String>>,
    /// The first user of each prekey, and the session.
    prekeys: HashMap<(DeviceAddress, u32), (DeviceAddress, [u8; 16])>,
}

/// A message that starts a session, or repeats the start while its author has no response yet.
struct Opening {
    /// Session id, derived from the base key.
    session: [u8; 16],
    prekey: Option<u32>,
    signed_prekey: u32,
}

/// A short hash, not meant to resist forgery.
fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize()[..16]);
    short
}

fn line(lines: &mut Vec<String>, text: String) {
    tracing::warn!(finding = %text, "a check failed");
    if lines.len() < MAX_LINES {
        lines.push(text);
    } else if let Some(last) = lines.last_mut() {
        *last = "and more".into();
    }
}

impl Check {
    pub fn report(&self) -> Report {
        self.report.clone()
    }

    /// Checks the clear head of a ciphertext between two devices; `false` if the head is invalid.
    pub fn ciphertext(&mut self, from: DeviceAddress, to: DeviceAddress, kind: EncType, bytes: &[u8]) -> bool {
        let (inner, plain);
        let message = match kind {
            EncType::PreKey => {
                inner = PreKeySignalMessage::try_from(bytes);
                inner.as_ref().ok().map(PreKeySignalMessage::message)
            }
            EncType::Message => {
                plain = SignalMessage::try_from(bytes);
                plain.as_ref().ok()
            }
            EncType::SenderKey => None,
        };
        let Some(message) = message else { return false };
        let ratchet = message.sender_ratchet_key().public_key_bytes().to_vec();
        let chain = format!("{from} to {to}: ratchet {}", hex::encode(ratchet));
        // Only the inner message is hashed: repeated first messages have the same prekey part.
        self.message_key(&chain, message.counter(), message.serialized());
        let gap = self.gap(&chain, message.counter());
        self.report.session_gaps_max = self.report.session_gaps_max.max(gap);
        true
    }

    /// Checks the clear head of a ciphertext to a group; `false` if the head is invalid.
    pub fn group_ciphertext(&mut self, from: DeviceAddress, group: &str, bytes: &[u8]) -> bool {
        let Ok(message) = SenderKeyMessage::try_from(bytes) else { return false };
        let chain = format!("{from} to {group}: key {}", message.chain_id());
        self.message_key(&chain, message.iteration(), message.serialized());
        let gap = self.gap(&chain, message.iteration());
        self.report.sender_key_gaps_max = self.report.sender_key_gaps_max.max(gap);
        true
    }

    fn message_key(&mut self, chain: &str, counter: u32, sealed: &[u8]) {
        let key = digest(&[chain.as_bytes(), &counter.to_be_bytes()]);
        let sealed = digest(&[sealed]);
        match self.keys.get(&key) {
            Some(before) if *before == sealed => self.report.wire_repeats += 1,
            Some(_) => line(&mut self.report.key_reuse, format!("{chain}: counter {counter} sealed two messages")),
            None if self.keys.len() < MAX_REMEMBERED => {
                self.keys.insert(key, sealed);
            }
            None => self.report.overflow = true,
        }
    }

    /// Number of skipped counters of a chain.
    fn gap(&mut self, chain: &str, counter: u32) -> u32 {
        let chain = digest(&[chain.as_bytes()]);
        let has_room = self.chains.len() < MAX_REMEMBERED;
        match self.chains.get_mut(&chain) {
            Some(highest) if counter > *highest => {
                let gap = counter - *highest - 1;
                *highest = counter;
                return gap;
            }
            Some(_) => {}
            None if has_room => {
                self.chains.insert(chain, counter);
            }
            None => self.report.overflow = true,
        }
        0
    }

    /// Checks the body of a message, as decrypted by one of its readers.
    pub fn body(&mut self, from: Number, id: &str, body: &[u8]) {
        let body = digest(&[body]);
        match self.bodies.get(&(from, id.to_owned())) {
            Some(before) if *before != body => {
                line(&mut self.report.body_conflicts, format!("{from}: message {id} had two bodies"));
            }
            Some(_) => {}
            None if self.bodies.len() < MAX_REMEMBERED => {
                self.bodies.insert((from, id.to_owned()), body);
            }
            None => self.report.overflow = true,
        }
    }

    pub fn undecryptable(&mut self, from: DeviceAddress, to: DeviceAddress, id: &str, why: &str) {
        self.report.undecryptable += 1;
        line(&mut self.report.undecryptable_rows, format!("{from} to {to}: message {id}: {why}"));
    }

    pub fn retry(&mut self) {
        self.report.retry_receipts += 1;
    }

    /// Records a ciphertext that starts a session with a device, or repeats the start; ignores others.
    pub fn opening(&mut self, from: DeviceAddress, to: DeviceAddress, id: &str, kind: EncType, bytes: &[u8]) {
        if kind != EncType::PreKey {
            return;
        }
        let Ok(message) = PreKeySignalMessage::try_from(bytes) else { return };
        if self.openings.len() >= MAX_REMEMBERED {
            self.report.overflow = true;
            return;
        }
        let session = digest(&[message.base_key().public_key_bytes()]);
        let prekey = message.pre_key_id().map(u32::from);
        if let Some(prekey) = prekey {
            self.prekeys.entry((to, prekey)).or_insert((from, session));
        }
        let ids = self.sessions.entry((to, session)).or_default();
        if ids.len() < MAX_OPENINGS {
            ids.push(id.to_owned());
        }
        let signed_prekey = u32::from(message.signed_pre_key_id());
        self.openings.insert((to, id.to_owned()), Opening { session, prekey, signed_prekey });
    }

    /// Records that a device does not know the prekey of a session's first message. If the device had read other
    /// messages of that session, it lost the session; if another session used the prekey, it was given out twice;
    /// otherwise the device never had the prekey, or lost it. `waiting` are messages that the device has not
    /// acknowledged; it also acknowledges an unreadable message once it has asked for a retry.
    pub fn prekey_unknown(
        &mut self,
        device: DeviceAddress,
        author: DeviceAddress,
        id: &str,
        waiting: &HashSet<String>,
    ) {
        self.report.prekey_unknown += 1;
        let begin = format!("{device}: message {id} of {author}");
        let Some(opening) = self.openings.get(&(device, id.to_owned())) else {
            return line(&mut self.report.prekey_unknown_rows, format!("{begin}: it begins no session that is known"));
        };
        let name = |session: &[u8; 16]| hex::encode(&session[..4]);
        let prekey = opening.prekey.map_or_else(|| "no prekey".to_owned(), |prekey| format!("prekey {prekey}"));
        let ids = self.sessions.get(&(device, opening.session)).map(Vec::as_slice).unwrap_or_default();
        let before: HashSet<&String> = ids.iter().take_while(|other| other.as_str() != id).collect();
        let had = before.iter().filter(|other| !waiting.contains(other.as_str())).count();
        let first = opening.prekey.and_then(|prekey| self.prekeys.get(&(device, prekey)));
        let other = match first.filter(|first| **first != (author, opening.session)) {
            Some((peer, session)) => format!("; {peer} used that prekey first, for session {}", name(session)),
            None => String::new(),
        };
        let row = format!(
            "{begin}: {prekey}, signed prekey {}, session {}, of which it has acknowledged {had} of {} messages before{other}",
            opening.signed_prekey,
            name(&opening.session),
            before.len(),
        );
        line(&mut self.report.prekey_unknown_rows, row);
    }

    pub fn wrong_devices(&mut self, are_wrong: bool) {
        self.report.wrong_devices += u64::from(are_wrong);
    }

    pub fn prekey_given(&mut self, left: usize) {
        self.report.prekeys_given += 1;
        self.report.prekeys_left_min = Some(self.report.prekeys_left_min.map_or(left, |least| least.min(left)));
    }

    pub fn prekey_conflict(&mut self, device: DeviceAddress, what: &str) {
        line(&mut self.report.prekey_conflicts, format!("{device}: {what}"));
    }

    pub fn foreign_acknowledgement(&mut self, device: DeviceAddress, class: &str, id: &str) {
        line(&mut self.report.foreign_acks, format!("{device}: {class} {id} was never sent to it"));
    }

    pub fn lower_epoch(&mut self, device: DeviceAddress, epoch: u64, after: u64) {
        line(&mut self.report.two_live, format!("{device}: a log-in of epoch {epoch} after one of epoch {after}"));
    }

    pub fn paired(&mut self) {
        self.report.qr_pairings += 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::phone::signal::Signal;

    fn device(digits: &str) -> DeviceAddress {
        Number::parse(digits).unwrap().device(0)
    }

    fn sealed(texts: &[&str]) -> Vec<(EncType, Vec<u8>)> {
        let (mut anna, mut bert) = (Signal::generate(), Signal::generate());
        anna.begin(device("2222"), &bert.bundle(true)).unwrap();
        texts.iter().map(|text| anna.encrypt(device("2222"), text.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn a_repeated_ciphertext_is_a_repeat_and_no_reuse() {
        let mut check = Check::default();
        for (kind, bytes) in sealed(&["a", "b"]) {
            for _ in 0..2 {
                assert!(check.ciphertext(device("1111"), device("2222"), kind, &bytes));
            }
        }
        assert_eq!(check.report(), Report { wire_repeats: 2, ..Report::default() });
    }

    #[test]
    fn one_message_key_for_two_ciphertexts_is_found() {
        let (mut anna, mut bert) = (Signal::generate(), Signal::generate());
        anna.begin(device("2222"), &bert.bundle(true)).unwrap();
        let (_, first) = anna.encrypt(device("2222"), b"one").unwrap();
        // The same chain and counter with another body, as after a rollback of the ratchet.
        let message = PreKeySignalMessage::try_from(first.as_slice()).unwrap();
        let inner = message.message();
        let mut forged = inner.serialized().to_vec();
        let body = inner.body().unwrap().to_vec();
        let place = forged.windows(body.len()).position(|window| window == body).unwrap();
        forged[place] ^= 1;
        let mut check = Check::default();
        assert!(check.ciphertext(device("1111"), device("2222"), EncType::PreKey, &first));
        assert!(check.ciphertext(device("1111"), device("2222"), EncType::Message, &forged));
        assert_eq!(check.report().key_reuse.len(), 1);
    }

    #[test]
    fn skipped_counters_are_a_gap() {
        let mut check = Check::default();
        let messages = sealed(&["a", "b", "c", "d"]);
        for (kind, bytes) in [&messages[0], &messages[3]] {
            check.ciphertext(device("1111"), device("2222"), *kind, bytes);
        }
        assert_eq!(check.report().session_gaps_max, 2);
    }

    #[test]
    fn one_id_with_two_bodies_is_found() {
        let mut check = Check::default();
        let number = Number::parse("1111").unwrap();
        check.body(number, "A", b"hello");
        check.body(number, "A", b"hello");
        assert!(check.report().body_conflicts.is_empty());
        check.body(number, "A", b"bye");
        assert_eq!(check.report().body_conflicts.len(), 1);
    }

    #[test]
    fn an_unknown_prekey_is_told_of_with_what_went_before_it() {
        let (author, device_of) = (device("1111"), device("2222"));
        let mut check = Check::default();
        for (id, (kind, bytes)) in ["A", "B", "C"].into_iter().zip(sealed(&["a", "b", "c"])) {
            check.opening(author, device_of, id, kind, &bytes);
        }
        let waiting = HashSet::from(["B".to_owned(), "C".to_owned()]);
        check.prekey_unknown(device_of, author, "C", &waiting);
        check.prekey_unknown(device_of, author, "D", &waiting);
        // Another session that uses the same prekey.
        for (kind, bytes) in sealed(&["e"]) {
            check.opening(author, device_of, "E", kind, &bytes);
        }
        check.prekey_unknown(device_of, author, "E", &waiting);
        let Report { prekey_unknown, prekey_unknown_rows: rows, .. } = check.report();
        assert_eq!((prekey_unknown, rows.len()), (3, 3));
        let holds = |row: &str, part: &str| assert!(row.contains(part), "{row}");
        holds(&rows[0], "2222:0: message C of 1111:0: prekey 1, signed prekey 1, session ");
        holds(&rows[0], "acknowledged 1 of 2 messages before");
        assert!(!rows[0].contains("first"), "{}", rows[0]);
        holds(&rows[1], "message D of 1111:0: it begins no session");
        holds(&rows[2], "acknowledged 0 of 0 messages before; 1111:0 used that prekey first, for session ");
    }

    #[test]
    fn a_list_of_findings_is_bounded() {
        let mut check = Check::default();
        for id in 0..=MAX_LINES {
            check.foreign_acknowledgement(device("1111"), "message", &id.to_string());
        }
        let lines = check.report().foreign_acks;
        assert_eq!((lines.len(), lines[MAX_LINES - 1].as_str()), (MAX_LINES, "and more"));
    }
}
