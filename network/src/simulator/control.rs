//! The typed methods of the control API: what a route of it calls, with the texts parsed here.

use std::time::Duration;

use model::address::Address;
use model::business::OrderStatus;
use model::id::MessageId;
use model::time::Timestamp;
use tokio::sync::oneshot;

use super::answers::business::{NewCart, NewOrder};
use super::answers::calls::{NewCall, ShownCall};
use super::answers::stories::{NewStory, ShownStory};
use super::answers::{
    AcceptedRow, ControlError, InboxQuery, InboxRow, LedgerQuery, LinkBy, List, Listing, LoginRow, LoginsQuery, Phone,
    PhoneMessage, PresenceRow, RegisterPhone, RegisterPhones, SessionRow, SessionsQuery, Stats,
};
use super::faults::{Faults, FaultsChange};
use super::number::Number;
use super::{Simulator, bytes};
use crate::operation::Area;

/// How long a link waits for the device to store its credentials.
const STORE_WITHIN: Duration = Duration::from_secs(10);

/// How many messages one call may send.
const MAX_COUNT: u32 = 100_000;

impl Simulator {
    /// Registers a phone or changes it; says whether it is new.
    pub fn register(&self, body: &RegisterPhone) -> Result<(Phone, bool), ControlError> {
        let number = number(&body.number)?;
        Ok(self.shared.with(|engine, now| engine.register(now, number, &body.settings)))
    }

    /// Registers many phones with numbers that follow each other.
    pub fn register_many(&self, body: &RegisterPhones) -> Result<(), ControlError> {
        let first = number(&body.first)?;
        self.shared.with(|engine, now| engine.register_many(now, first, body.count, &body.settings))
    }

    pub fn phone(&self, phone: &str) -> Result<Phone, ControlError> {
        let number = number(phone)?;
        self.shared.look(|engine| engine.phone(number))
    }

    pub fn delete_phone(&self, phone: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.delete_phone(now, number))
    }

    /// Scans a QR text or types a pair code; returns the device once its credentials are stored.
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

    /// Unlinks one device, or all.
    pub fn unlink(&self, phone: &str, device: Option<u32>) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.unlink(now, number, device))
    }

    pub fn ban(&self, phone: &str, until: Option<Timestamp>) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.ban(now, number, until))
    }

    pub fn invalidate(&self, phone: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.invalidate(now, number))
    }

    /// Logs a foreign copy of the phone's device in.
    pub fn replace(&self, phone: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.replace(now, number))
    }

    /// Lets a phone write; returns the messages' ids.
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

    pub fn clear_inbox(&self, phone: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, _| engine.clear_inbox(number))
    }

    /// The phone reads everything from `with`.
    pub fn open_chat(&self, phone: &str, with: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.open_chat(now, number, with))
    }

    /// The phone plays a sound or a video that reached it.
    pub fn play(&self, phone: &str, id: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.play(now, number, id))
    }

    /// The phone reacts to a message that it got or sent; an empty emoji takes the reaction back.
    pub fn react(&self, phone: &str, id: &str, emoji: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.react(now, number, id, emoji))
    }

    /// The phone does what a device would ask for.
    pub fn operate<A: Area>(&self, phone: &str, operation: A) -> Result<A::Answer, ControlError> {
        let number = number(phone)?;
        let answer = self.shared.with(|engine, now| engine.phone_operation(now, number, operation.into()))?;
        A::answer(answer).ok_or_else(|| ControlError::Invalid("the answer is of another area".into()))
    }

    /// An address, or the digits of a number.
    pub fn address(&self, text: &str) -> Result<Address, ControlError> {
        self.shared.look(|engine| engine.parse_address(text))
    }

    /// The phone orders from a business; returns the order's id.
    pub fn place_order(&self, phone: &str, body: &NewOrder) -> Result<String, ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.place_order(now, number, body))
    }

    /// The buyer or the business moves an order on.
    pub fn move_order(
        &self,
        phone: &str,
        id: &str,
        to: OrderStatus,
        reason: Option<String>,
    ) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.move_order(now, number, id, to, reason))
    }

    /// The phone fills its cart at a business; returns the cart's id.
    pub fn fill_cart(&self, phone: &str, body: &NewCart) -> Result<String, ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.fill_cart(now, number, body))
    }

    /// The phone calls a number or a group; returns the call's id.
    pub fn begin_call(&self, phone: &str, body: &NewCall) -> Result<String, ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.begin_call(now, number, body))
    }

    pub fn calls(&self, phone: &str) -> Result<Vec<ShownCall>, ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, _| engine.phone_calls(number))
    }

    /// The phone picks up.
    pub fn accept_call(&self, phone: &str, id: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.accept_call(now, number, id))
    }

    /// The phone rejects a call that rings, or ends one.
    pub fn hang_up(&self, phone: &str, id: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.hang_up(now, number, id))
    }

    /// The phone posts a story; returns its id.
    pub fn post_story(&self, phone: &str, body: &NewStory) -> Result<MessageId, ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.phone_story(now, number, body))
    }

    pub fn delete_story(&self, phone: &str, id: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.delete_phone_story(now, number, id))
    }

    /// The stories that the phone can see.
    pub fn stories(&self, phone: &str) -> Result<Vec<ShownStory>, ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.phone_stories(now, number))
    }

    pub fn view_story(&self, phone: &str, id: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.view_story(now, number, id))
    }

    /// Says what a search finds a newsletter by.
    pub fn list_newsletter(&self, newsletter: &Address, listing: Listing) -> Result<(), ControlError> {
        self.shared.with(|engine, _| engine.list_newsletter(newsletter, listing))
    }

    /// The JPEG of a picture, or of its preview.
    pub fn picture(&self, id: &str, preview: bool) -> Result<::bytes::Bytes, ControlError> {
        let picture = self.shared.look(|engine| engine.picture(id, preview));
        picture.ok_or_else(|| ControlError::NotFound("there is no such picture".into()))
    }

    /// The phone's number becomes known to the channels of `to`.
    pub fn disclose(&self, phone: &str, to: &str) -> Result<(), ControlError> {
        let number = number(phone)?;
        self.shared.with(|engine, now| engine.disclose(now, number, to))
    }

    pub fn sessions(&self, query: &SessionsQuery) -> Result<List<SessionRow>, ControlError> {
        self.shared.look(|engine| engine.sessions(query))
    }

    pub fn logins(&self, query: &LoginsQuery) -> Result<List<LoginRow>, ControlError> {
        self.shared.look(|engine| engine.logins(query))
    }

    pub fn stats(&self) -> Stats {
        self.shared.look(|engine| engine.stats())
    }

    /// The ledger of accepted messages.
    pub fn accepted(&self, query: &LedgerQuery) -> List<AcceptedRow> {
        self.shared.look(|engine| engine.accepted(query))
    }

    pub fn faults(&self) -> Faults {
        self.shared.look(|engine| engine.faults().clone())
    }

    pub fn change_faults(&self, change: FaultsChange) -> Result<Faults, ControlError> {
        self.shared.with(|engine, now| engine.change_faults(now, change))
    }

    pub fn clear_faults(&self) -> Faults {
        self.shared.with(|engine, now| engine.clear_faults(now))
    }

    /// Forgets everything and cuts all nodes off.
    pub fn reset(&self) {
        self.shared.with(|engine, now| engine.reset(now));
    }
}

fn number(text: &str) -> Result<Number, ControlError> {
    Number::parse(text)
        .ok_or_else(|| ControlError::Invalid(format!("{text:?} is no number: 3 to 15 digits, the first not 0")))
}
