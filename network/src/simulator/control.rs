//! The methods behind the control API. The engine implements phones; routes reach it by [`Simulator::act_for`].

use std::time::Duration;

use model::address::Address;
use model::id::MessageId;
use model::time::Timestamp;
use tokio::sync::oneshot;

use super::answers::{
    ControlError, InboxQuery, InboxRow, LinkBy, List, Phone, PhoneMessage, PresenceRow, RegisterPhone, RegisterPhones,
    Stats,
};
use super::engine::Engine;
use super::number::Number;
use super::{Simulator, bytes};
use crate::operation::Area;

/// How long a link waits for the device to store its credentials.
const STORE_WITHIN: Duration = Duration::from_secs(10);

/// Maximum number of messages in one call.
const MAX_COUNT: u32 = 100_000;

impl Simulator {
    /// Runs a change of the engine at the current time.
    pub fn act<T>(&self, act: impl FnOnce(&mut Engine, Timestamp) -> T) -> T {
        self.shared.with(act)
    }

    /// Queries the engine without changing it.
    pub fn look<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        self.shared.look(look)
    }

    /// Runs a change of the engine for a phone, given its number.
    pub fn act_for<T>(
        &self,
        phone: &str,
        act: impl FnOnce(&mut Engine, Timestamp, Number) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let number = number(phone)?;
        self.act(|engine, now| act(engine, now, number))
    }

    /// Registers or updates a phone; returns whether it is new.
    pub fn register(&self, body: &RegisterPhone) -> Result<(Phone, bool), ControlError> {
        self.act_for(&body.number, |engine, now, number| Ok(engine.register(now, number, &body.settings)))
    }

    /// Registers phones with consecutive numbers.
    pub fn register_many(&self, body: &RegisterPhones) -> Result<(), ControlError> {
        self.act_for(&body.first, |engine, now, first| engine.register_many(now, first, body.count, &body.settings))
    }

    pub fn phone(&self, phone: &str) -> Result<Phone, ControlError> {
        let number = number(phone)?;
        self.shared.look(|engine| engine.phone(number))
    }

    /// Scans a QR text or enters a pair code; returns the device once its credentials are stored.
    pub async fn link(&self, phone: &str, by: LinkBy) -> Result<u32, ControlError> {
        let number = number(phone)?;
        let ticket = self.shared.next_number();
        let (sender, outcome) = oneshot::channel();
        self.shared.core.lock().links.insert(ticket, sender);
        let linked = self.shared.with(|engine, now| engine.link(now, number, &by, ticket));
        let outcome = match linked {
            Ok(()) => tokio::time::timeout(STORE_WITHIN, outcome).await,
            Err(error) => Ok(Ok(Err(error))),
        };
        self.shared.core.lock().links.remove(&ticket);
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ControlError::Invalid("the simulator is stopping".into())),
            Err(_) => Err(ControlError::Invalid("the device did not store its credentials within 10 s".into())),
        }
    }

    /// Sends messages from a phone and returns their ids.
    pub fn send(&self, phone: &str, body: &PhoneMessage) -> Result<Vec<MessageId>, ControlError> {
        let number = number(phone)?;
        if !(1..=MAX_COUNT).contains(&body.count) {
            return Err(ControlError::Invalid(format!("count must be from 1 to {MAX_COUNT}")));
        }
        let media = bytes::prepare(body)?;
        self.shared.with(|engine, now| engine.phone_write(now, number, body, media))
    }

    pub fn inbox(&self, phone: &str, query: &InboxQuery) -> Result<List<InboxRow>, ControlError> {
        let number = number(phone)?;
        self.shared.look(|engine| engine.inbox(number, query))
    }

    pub fn presences(&self, phone: &str) -> Result<List<PresenceRow>, ControlError> {
        let number = number(phone)?;
        self.shared.look(|engine| engine.presences(number))
    }

    /// Runs an operation as the phone instead of a device.
    pub fn operate<A: Area>(&self, phone: &str, operation: A) -> Result<A::Answer, ControlError> {
        let answer =
            self.act_for(phone, |engine, now, number| engine.phone_operation(now, number, operation.into()))?;
        A::answer(answer).ok_or_else(|| ControlError::Invalid("the answer is of another area".into()))
    }

    /// Parses an address or the digits of a number.
    pub fn address(&self, text: &str) -> Result<Address, ControlError> {
        self.shared.look(|engine| engine.parse_address(text))
    }

    /// The JPEG of a picture, or of its preview.
    pub fn picture(&self, id: &str, preview: bool) -> Result<::bytes::Bytes, ControlError> {
        let picture = self.shared.look(|engine| engine.picture(id, preview));
        picture.ok_or_else(|| ControlError::NotFound("there is no such picture".into()))
    }

    pub fn stats(&self) -> Stats {
        self.shared.look(|engine| engine.stats())
    }
}

fn number(text: &str) -> Result<Number, ControlError> {
    Number::parse(text)
        .ok_or_else(|| ControlError::Invalid(format!("{text:?} is no number: 3 to 15 digits, the first not 0")))
}
