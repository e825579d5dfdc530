//! The projection: what the network has reported of a channel's groups, chats, contacts and the like, replicated in the
//! channel's shard, so that reads are answered in every status and survive a failover.
//!
//! Pure: [`check`] validates an operation before the network is asked, [`absorb`] applies the network's answer,
//! [`take`] applies a notice and returns the events that follow. All compare with the stored rows, so that a repeated
//! report changes nothing and makes no second event. Only the channel's owner writes, in the channel's own task.
//!
//! An area is a module here with those functions, and a line in each of the three. An entity is a type of `model` with
//! its own [`Kind`].

pub mod account;
pub mod business;
mod calls;
pub mod chats;
mod communities;
pub mod contacts;
#[cfg(test)]
mod fixture;
mod groups;
pub mod labels;
mod newsletters;
pub mod presences;
mod rows;
pub mod stories;

use model::address::{Address, Suffixes};
use model::blacklist::Blocked;
use model::contact::Person;
use model::customer::Quota;
use model::error::CallError;
use model::id::MessageId;
use model::payload::{Payload, Sender};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::item::SyncedPart;
use traffic::notice::{News, Notice};
use traffic::operation::account::{BlacklistAnswer, BlacklistOperation, PrivacyOperation, ProfileOperation};
use traffic::operation::business::BusinessOperation;
use traffic::operation::chats::ChatOperation;
use traffic::operation::communities::CommunityOperation;
use traffic::operation::contacts::{ContactAnswer, ContactOperation};
use traffic::operation::groups::{GroupAnswer, GroupOperation};
use traffic::operation::labels::LabelOperation;
use traffic::operation::newsletters::NewsletterOperation;
use traffic::operation::{Answer, Operation, Refused, RefusedKind};

use crate::keys::Direction;
pub use crate::keys::Kind;
use crate::records::MessageRow;

pub use self::business::{BusinessAccount, OrderPlace, check_business};
pub(crate) use self::rows::entity;
pub use self::rows::{Entity, Projected, Rows};
pub use self::stories::{PostedStory, StoryView};

/// The network's codes that have a meaning in several areas.
const NOT_FOUND: u16 = 404;

/// Finds a stored message.
pub type Stored<'a> = dyn Fn(Direction, &MessageId, &Address, Option<&Address>) -> Option<MessageRow> + 'a;

/// What the functions of an area can use of the channel.
pub struct Context<'a> {
    pub suffixes: &'a Suffixes,
    /// The channel's own addresses: its phone address, and its LID once that is known.
    pub own: &'a [Address],
    /// The phone address behind a LID, if it is known.
    pub phone_behind: &'a dyn Fn(&Address) -> Option<Address>,
    /// The LID of a phone address, if it is known.
    pub lid_behind: &'a dyn Fn(&Address) -> Option<Address>,
    /// The stored message with an id that the channel received in a chat or sent to it, by an author if one is given.
    pub stored: &'a Stored<'a>,
    /// The limits of the account's plan.
    pub allowed: &'a dyn Fn(Quota) -> u64,
    /// The network's time of the answer or notice that is applied.
    pub at: Timestamp,
}

impl Context<'_> {
    /// The phone address behind a LID, if it is known; any other address unchanged.
    pub fn best(&self, address: &Address) -> Address {
        let phone = if address.is_lid() { (self.phone_behind)(address) } else { None };
        phone.unwrap_or_else(|| address.clone())
    }

    pub fn best_all(&self, addresses: &[Address]) -> Vec<Address> {
        addresses.iter().map(|address| self.best(address)).collect()
    }

    /// A person as the author of an event.
    pub fn sender(&self, address: &Address) -> Sender {
        match self.best(address) {
            known if !address.is_lid() => Sender::phone(known),
            known if known.is_lid() => Sender::unresolved(known),
            phone => Sender::resolved(address.clone(), phone),
        }
    }

    /// Whether an address is one of the channel's own.
    pub fn is_own(&self, address: &Address) -> bool {
        self.own.contains(address)
    }
}

/// An event to emit, and the chat that it belongs to.
#[derive(Debug, PartialEq)]
pub struct EmittedEvent {
    pub payload: Payload,
    pub chat: Option<Address>,
}

/// An area that was fetched completely after a pairing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synced {
    pub area: String,
}

entity!(Synced, Synced, |row| row.area.clone());

/// The operations that fetch an area completely after a pairing, because the account existed before the gateway.
pub fn to_sync() -> Vec<(&'static str, Operation)> {
    vec![
        (groups::AREA, GroupOperation::List.into()),
        (contacts::AREA, ContactOperation::List.into()),
        (chats::AREA, ChatOperation::List.into()),
        (communities::AREA, CommunityOperation::List.into()),
        (newsletters::AREA, NewsletterOperation::List.into()),
        (business::AREA, BusinessOperation::Show.into()),
        (account::BLACKLIST, BlacklistOperation::List.into()),
        (account::PROFILE, ProfileOperation::Show.into()),
        (account::PRIVACY, PrivacyOperation::Show.into()),
        (labels::AREA, LabelOperation::List.into()),
    ]
}

/// Validates an operation before the network is asked: its resource exists, and its target state is not reached yet.
///
/// # Errors
/// The error for the caller: first that a resource does not exist, then what the network would refuse.
pub fn check(operation: &Operation, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    match operation {
        Operation::Groups(operation) => groups::check(operation, rows, context),
        Operation::Calls(operation) => calls::check(operation, rows, context),
        Operation::Chats(operation) => chats::check(operation, rows, context),
        // Whether a person exists is for the network to say, whoever is known here.
        Operation::Contacts(_) => Ok(()),
        Operation::Communities(operation) => communities::check(operation, rows),
        Operation::Newsletters(operation) => newsletters::check(operation, rows),
        Operation::Business(operation) => business::check(operation, rows),
        Operation::Blacklist(operation) => account::check_blacklist(operation, rows, context),
        Operation::Presence(operation) => presences::check(operation, rows, context),
        Operation::Profile(operation) => account::check_profile(operation, rows),
        Operation::Privacy(operation) => account::check_privacy(operation, rows),
        Operation::Labels(operation) => labels::check(operation, rows, context),
    }
}

/// Refuses an operation whose target state is reached already.
fn no_op_if(is_reached: bool, message: &str) -> Result<(), CallError> {
    if is_reached { Err(CallError::no_op(message)) } else { Ok(()) }
}

/// Applies the answer to an operation. Notices have reported its changes before; this applies what was fetched on
/// request, and what no notice reports.
pub fn absorb(asked: &Operation, answer: &Answer, rows: &mut Rows<'_>, context: &Context<'_>) {
    match (asked, answer) {
        (Operation::Groups(asked), Answer::Groups(answer)) => groups::absorb(asked, answer, rows, context),
        (Operation::Chats(asked), Answer::Chats(answer)) => chats::absorb(asked, answer, rows, context),
        (Operation::Contacts(asked), Answer::Contacts(answer)) => contacts::absorb(asked, answer, rows, context),
        (Operation::Communities(asked), Answer::Communities(answer)) => {
            communities::absorb(asked, answer, rows, context);
        }
        (Operation::Newsletters(asked), Answer::Newsletters(answer)) => newsletters::absorb(asked, answer, rows),
        (Operation::Business(asked), Answer::Business(answer)) => business::absorb(asked, answer, rows, context),
        (Operation::Blacklist(_), Answer::Blacklist(answer)) => account::absorb_blacklist(answer, rows, context),
        (Operation::Presence(asked), Answer::Presence(_)) => presences::absorb(asked, rows, context),
        (Operation::Profile(_), Answer::Profile(answer)) => account::absorb_profile(answer, rows),
        (Operation::Privacy(_), Answer::Privacy(answer)) => account::absorb_privacy(answer, rows),
        (Operation::Labels(asked), Answer::Labels(answer)) => labels::absorb(asked, answer, rows, context),
        // The answer belongs to another area, or changes nothing.
        _ => {}
    }
}

/// The phone addresses behind LIDs that an answer contains: each LID that is shown can then be looked up and sent to.
pub fn disclosed(answer: &Answer) -> Vec<(Address, Address)> {
    let of_person = |person: &Person| (person.lid.clone(), Some(person.id.clone()));
    let told: Vec<_> = match answer {
        Answer::Contacts(ContactAnswer::Checked(checks)) => {
            checks.iter().map(|check| (check.lid.clone(), check.id.clone())).collect()
        }
        Answer::Contacts(ContactAnswer::Person(person)) => vec![of_person(person)],
        Answer::Contacts(ContactAnswer::People(people)) => people.iter().map(of_person).collect(),
        Answer::Blacklist(BlacklistAnswer::Blocked(blocked)) => {
            blocked.iter().map(|blocked| (blocked.lid.clone(), Some(blocked.id.clone()))).collect()
        }
        Answer::Groups(GroupAnswer::JoinRequests(requests)) => {
            requests.iter().map(|request| (request.lid.clone(), Some(request.id.clone()))).collect()
        }
        _ => Vec::new(),
    };
    // A person who hides the phone number is named by the LID only.
    told.into_iter().filter_map(|(lid, id)| Some((lid?, id?))).filter(|(_, id)| !id.is_lid()).collect()
}

/// The LID, and the phone address behind it, that a notice contains.
pub fn disclosed_by(notice: &Notice) -> Option<(Address, Address)> {
    let News::Blocked(Blocked { id, lid: Some(lid), .. }) = &notice.news else { return None };
    (!id.is_lid()).then(|| (lid.clone(), id.clone()))
}

/// Moves rows after the phone address behind a LID became known.
pub fn resolved(lid: &Address, phone: &Address, rows: &mut Rows<'_>) {
    contacts::resolved(lid, phone, rows);
    chats::resolved(lid, phone, rows);
    account::resolved(lid, phone, rows);
    presences::resolved(lid, phone, rows);
    labels::resolved(lid, phone, rows);
}

/// The result of an operation while the network cannot be asked, if the operation does not need it then.
pub fn alone(operation: &Operation) -> Option<Answer> {
    match operation {
        Operation::Presence(operation) => presences::alone(operation).map(Answer::from),
        _ => None,
    }
}

/// The operation that a new session has to repeat, because its state ended with the previous session.
pub fn to_resume(rows: &Rows<'_>, now: Timestamp) -> Option<Operation> {
    presences::to_resume(rows, now).map(Operation::from)
}

/// Whether the account's state was changed elsewhere at the same time, so that the operation has to be repeated.
pub fn is_overtaken(operation: &Operation, refused: &Refused) -> bool {
    matches!(operation, Operation::Chats(operation) if chats::is_overtaken(operation, refused))
}

/// The caller's error for a refusal of the network: 422 `other`, unless the area has a more specific code.
pub fn refusal(operation: &Operation, refused: &Refused) -> CallError {
    let narrower = match operation {
        Operation::Groups(operation) => groups::refusal(operation, refused),
        Operation::Calls(operation) => calls::refusal(operation, refused),
        Operation::Chats(operation) => chats::refusal(operation, refused),
        Operation::Contacts(operation) => contacts::refusal(operation, refused),
        Operation::Communities(operation) => communities::refusal(operation, refused),
        Operation::Newsletters(operation) => newsletters::refusal(operation, refused),
        Operation::Business(operation) => business::refusal(operation, refused),
        Operation::Blacklist(operation) => account::blacklist_refusal(operation, refused),
        Operation::Presence(operation) => presences::refusal(operation, refused),
        Operation::Profile(operation) => account::profile_refusal(operation, refused),
        Operation::Privacy(_) => None,
        Operation::Labels(operation) => labels::refusal(operation, refused),
    };
    narrower.unwrap_or_else(|| match refused.kind {
        RefusedKind::Unsupported => CallError::not_on_this_network(&refused.text),
        _ => CallError::upstream_refused(u32::from(refused.code), &refused.text),
    })
}

/// Applies the state that the account had before the pairing.
pub fn take_synced(part: &SyncedPart, rows: &mut Rows<'_>, context: &Context<'_>) {
    part.chats.iter().for_each(|chat| chats::synced(chat, rows, context));
    part.people.iter().for_each(|person| contacts::learn(person, rows, context));
}

/// Applies a notice, and returns the events that follow.
pub fn take(notice: &Notice, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let actor = notice.actor.as_ref().map(|actor| context.best(actor));
    match &notice.news {
        News::Group { group, news } => return groups::take(group, news, actor, rows, context),
        News::Call { call, news } => return calls::take(call, news, rows, context),
        News::Chat { chat, news } => return chats::take(chat, news, rows, context),
        News::Contact { contact, news } => contacts::take(contact, news, rows, context),
        News::Community { community, now } => communities::take(community, now.as_deref(), rows, context),
        News::Newsletter { newsletter, now } => newsletters::take(newsletter, now.as_deref(), rows),
        News::Story { story, news } => return stories::take(story, news, rows, context),
        News::Business(news) => return business::take(news, notice.actor.as_ref(), rows, context),
        News::Presence { chat, news } => return presences::take(chat, news, rows, context),
        News::Blocked(blocked) => account::block(blocked, rows, context),
        News::Unblocked { contact } => account::unblock(contact, rows, context),
        News::Profile(profile) => rows.put(profile),
        News::Privacy(privacy) => rows.put(privacy),
        News::Labels(news) => return labels::take(news, rows, context),
    }
    Vec::new()
}
