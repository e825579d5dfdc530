//! Pairing: rotating QR texts, pair codes, the phone's link, and the resulting credentials.
//!
//! Order of a pairing: the phone links, the credentials go to the node, the node confirms that it has stored them, and
//! only then does the device exist.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use model::id::Epoch;
use model::msgpack;
use model::time::Timestamp;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::sessions::{Phase, Session};
use super::subscriber::{Credentials, Device, Standing};
use super::{ControlError, Engine, Later, LoginEnd, SessionId, Ticket};
use crate::driver::PairCode;
use crate::simulator::answers::LinkBy;
use crate::simulator::faults::RefusePairing;
use crate::simulator::number::Number;
use crate::wire::SessionFrame;

/// Number of QR texts per session.
const QR_TEXTS: u8 = 6;

/// Lifetime of the first QR text, for which a person has to find the scanner, and of each later one.
const FIRST_QR: Duration = Duration::from_secs(60);
const NEXT_QR: Duration = Duration::from_secs(20);

/// Lifetime of a pair code.
const PAIR_CODE: Duration = Duration::from_secs(160);

/// Letters of pair codes, without those that look like digits.
const LETTERS: &[u8] = b"ABCDEFGHJKLMNPQRSTVWXYZ";

/// A session that waits to be linked.
#[derive(Debug)]
pub struct Unpaired {
    /// The current QR text.
    raw: Option<String>,
    code: Option<ShownCode>,
    link: Option<PendingLink>,
    link_as: LinkAs,
}

/// What a device states about itself when it is linked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkAs {
    /// Shown to people only.
    pub name: String,
    pub full_history: bool,
}

#[derive(Debug)]
struct ShownCode {
    code: String,
    number: Number,
    expires_at: Timestamp,
}

/// A link whose credentials are not stored yet.
#[derive(Debug)]
struct PendingLink {
    number: Number,
    device: u32,
    secret: [u8; 32],
    ticket: Ticket,
}

impl Engine {
    /// Opens a session without credentials.
    pub(super) fn pair(&mut self, id: SessionId, epoch: Epoch, link_as: LinkAs) {
        let Some(link) = self.links.get_mut(&id.connection) else { return };
        if link.sessions.contains_key(&id.number) {
            return;
        }
        let phase = Phase::Unpaired(Box::new(Unpaired { raw: None, code: None, link: None, link_as }));
        link.sessions.insert(id.number, Session { epoch, phase });
        self.show_qr(id, 1);
    }

    fn show_qr(&mut self, id: SessionId, sequence: u8) {
        let parts: [[u8; 32]; 4] = [self.rng.random(), self.rng.random(), self.rng.random(), self.rng.random()];
        let raw = format!("2@{}", parts.map(|part| BASE64.encode(part)).join(","));
        let life = if sequence == 1 { FIRST_QR } else { NEXT_QR };
        let expires_at = self.now.plus(self.scaled(life));
        let Some(unpaired) = self.unpaired(id) else { return };
        if let Some(old) = unpaired.raw.replace(raw.clone()) {
            self.qr_texts.remove(&old);
        }
        self.qr_texts.insert(raw.clone(), id);
        self.timers.push(expires_at, Later::RotateQr { session: id, sequence });
        self.emit(id, SessionFrame::Qr { raw, expires_at, sequence });
    }

    /// Handles the expiry of a QR text. A session that was linked meanwhile needs no further ones.
    pub(super) fn rotate_qr(&mut self, id: SessionId, sequence: u8) {
        let Some(unpaired) = self.unpaired(id) else { return };
        if unpaired.link.is_some() {
            return;
        }
        if sequence < QR_TEXTS {
            return self.show_qr(id, sequence + 1);
        }
        if let Some(raw) = unpaired.raw.take() {
            self.qr_texts.remove(&raw);
        }
        self.end_pairing(id);
    }

    /// Ends a session that was not linked, unless its pair code is still valid.
    pub(super) fn end_pairing(&mut self, id: SessionId) {
        let now = self.now;
        let Some(unpaired) = self.unpaired(id) else { return };
        if unpaired.link.is_some() {
            return;
        }
        match unpaired.code.as_ref().map(|shown| shown.expires_at).filter(|expires_at| *expires_at > now) {
            Some(expires_at) => self.timers.push(expires_at, Later::EndPairing { session: id }),
            None => {
                self.emit(id, SessionFrame::QrTimeout);
                self.end_session(id, LoginEnd::Closed, None);
            }
        }
    }

    pub(super) fn pair_code(&mut self, id: SessionId, phone: &str) {
        let refusal = match Number::parse(phone).filter(|number| self.subscribers.contains_key(number)) {
            None => Err((404, "the number is not registered")),
            Some(_) if self.faults.refuse_pairing == Some(RefusePairing::Code) => Err((400, "bad-request")),
            Some(number) => Ok(number),
        };
        let expires_at = self.now.plus(self.scaled(PAIR_CODE));
        let code = self.mint_code();
        let Some(unpaired) = self.unpaired(id) else { return };
        let number = match refusal {
            Ok(number) if unpaired.link.is_none() => number,
            Ok(_) => return self.refuse_code(id, 409, "the session is being linked"),
            Err((code, text)) => return self.refuse_code(id, code, text),
        };
        if let Some(old) = unpaired.code.replace(ShownCode { code: code.clone(), number, expires_at }) {
            self.pair_codes.remove(&old.code);
        }
        self.pair_codes.insert(code.clone(), id);
        self.emit(id, SessionFrame::PairCode(PairCode { code, expires_at }));
    }

    fn refuse_code(&mut self, id: SessionId, code: u16, text: &str) {
        self.emit(id, SessionFrame::PairCodeRefused { code, text: text.to_owned() });
    }

    /// Mints a code that no other session has.
    fn mint_code(&mut self) -> String {
        loop {
            let letters: String =
                (0..4).map(|_| char::from(LETTERS[self.rng.random_range(0..LETTERS.len())])).collect();
            let code = format!("{letters}-{:04}", self.rng.random_range(0..10_000));
            if !self.pair_codes.contains_key(&code) {
                return code;
            }
        }
    }

    /// A phone scans a QR text or enters a code. `ticket` is answered when the device exists or the link has failed.
    ///
    /// # Errors
    /// An unknown phone, or a text or code that is unknown or has expired.
    pub fn link(&mut self, now: Timestamp, number: Number, by: &LinkBy, ticket: Ticket) -> Result<(), ControlError> {
        let invalid = |text: &str| ControlError::Invalid(text.to_owned());
        let banned = self.acting(now, number)?.banned(now).is_some();
        let id = match by {
            LinkBy::Raw(raw) => self.qr_texts.get(raw.trim()).copied(),
            LinkBy::PairCode(code) => self.pair_codes.get(&code.trim().to_ascii_uppercase()).copied(),
        };
        let id = id.ok_or_else(|| invalid("unknown or expired"))?;
        let unpaired = self.unpaired(id).ok_or_else(|| invalid("unknown or expired"))?;
        if let (LinkBy::PairCode(_), Some(shown)) = (by, &unpaired.code) {
            if shown.expires_at <= now {
                return Err(invalid("unknown or expired"));
            }
            if shown.number != number {
                return Err(invalid("the code was made for another number"));
            }
        }
        let (raw, code) = (unpaired.raw.take(), unpaired.code.take());
        self.remove_texts(raw, code);
        if banned {
            self.refuse_pairing(id, 403, "the number is banned");
            return Err(invalid("the number is banned"));
        }
        if self.faults.refuse_pairing == Some(RefusePairing::DeviceLimit) {
            self.refuse_pairing(id, 409, "device-limit");
            return Err(invalid("the device limit is reached"));
        }
        self.issue_credentials(id, number, ticket)
    }

    fn issue_credentials(&mut self, id: SessionId, number: Number, ticket: Ticket) -> Result<(), ControlError> {
        let secret: [u8; 32] = self.rng.random();
        let subscriber = self.subscriber_mut(number)?;
        let (device, identity) = (subscriber.next_device_id(), subscriber.identity());
        let shown = Credentials { number: number.value(), device, secret };
        let credentials = msgpack::to_vec(&shown).map_err(|error| ControlError::Invalid(error.to_string()))?;
        if let Some(unpaired) = self.unpaired(id) {
            unpaired.link = Some(PendingLink { number, device, secret, ticket });
        }
        self.emit(id, SessionFrame::Credentials { identity, credentials: Bytes::from(credentials) });
        Ok(())
    }

    fn refuse_pairing(&mut self, id: SessionId, code: u16, text: &str) {
        self.emit(id, SessionFrame::PairingRefused { code, text: text.to_owned() });
        self.end_session(id, LoginEnd::Closed, None);
    }

    /// The node has stored the credentials: creates the device.
    pub(super) fn stored(&mut self, id: SessionId) {
        let Some(unpaired) = self.unpaired(id) else { return };
        let link_as = unpaired.link_as.clone();
        let Some(link) = unpaired.link.take() else { return };
        let Some(subscriber) = self.subscribers.get_mut(&link.number) else {
            self.answer_link(link.ticket, Err(ControlError::NotFound("the phone was deleted".into())));
            return self.refuse_pairing(id, 404, "the number is not registered");
        };
        subscriber.devices.push(Device {
            id: link.device,
            link_as,
            secret: link.secret,
            linked_at: self.now,
            standing: Standing::Linked,
            live: None,
            mailbox: Default::default(),
            answers: Default::default(),
            answers_from: self.now,
        });
        if let Some(session) = self.session_mut(id) {
            session.phase = Phase::Linked;
        }
        self.emit(id, SessionFrame::Linked);
        self.answer_link(link.ticket, Ok(link.device));
    }

    /// Cleans up after an ended session.
    pub(super) fn remove_pairing(&mut self, unpaired: Unpaired) {
        self.remove_texts(unpaired.raw, unpaired.code);
        if let Some(link) = unpaired.link {
            let error = ControlError::Invalid("the session ended before the credentials were stored".into());
            self.answer_link(link.ticket, Err(error));
        }
    }

    fn remove_texts(&mut self, raw: Option<String>, code: Option<ShownCode>) {
        if let Some(raw) = raw {
            self.qr_texts.remove(&raw);
        }
        if let Some(shown) = code {
            self.pair_codes.remove(&shown.code);
        }
    }

    fn unpaired(&mut self, id: SessionId) -> Option<&mut Unpaired> {
        match &mut self.session_mut(id)?.phase {
            Phase::Unpaired(unpaired) => Some(unpaired),
            _ => None,
        }
    }

    fn scaled(&self, life: Duration) -> Duration {
        life.mul_f64(self.faults.qr_time_scale)
    }
}
