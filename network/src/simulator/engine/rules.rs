//! What may be sent to whom: the network's refusals, with codes and texts.

use std::sync::Arc;
use std::time::Duration;

use model::address::Address;
use model::message::{Content, SEND_TYPES, Surroundings};

use super::groups::{GroupId, NO_SUCH_GROUP, NOT_A_MEMBER};
use super::message::{Chat, Message};
use super::newsletters::{NO_SUCH_NEWSLETTER, NewsletterId};
use super::{ControlError, Engine};
use crate::simulator::number::Number;

/// The network's codes. `479` means that the recipient is at fault.
pub const BAD_REQUEST: u16 = 400;
pub const FORBIDDEN: u16 = 403;
pub const NOT_FOUND: u16 = 404;
pub const CONFLICT: u16 = 409;
pub const TOO_LATE: u16 = 410;
pub const BAD_RECIPIENT: u16 = 479;

/// Maximum age of a message that its author edits, or deletes for everyone.
const EDIT_WITHIN: Duration = Duration::from_secs(15 * 60);
const DELETE_WITHIN: Duration = Duration::from_secs(60 * 3600);

/// A refusal by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    pub text: &'static str,
}

impl Refusal {
    pub const fn new(code: u16, text: &'static str) -> Self {
        Self { code, text }
    }
}

/// The result of an action that the network may refuse.
pub type Allowed<T> = Result<T, Refusal>;

/// Refuses a name without characters or with more than `most`.
pub fn check_length(name: &str, most: usize, otherwise: Refusal) -> Allowed<()> {
    if (1..=most).contains(&name.chars().count()) { Ok(()) } else { Err(otherwise) }
}

impl From<Refusal> for ControlError {
    fn from(refusal: Refusal) -> Self {
        let text = format!("{} {}", refusal.code, refusal.text);
        if refusal.code == NOT_FOUND { Self::NotFound(text) } else { Self::Invalid(text) }
    }
}

/// A message to send.
#[derive(Debug)]
pub struct Draft {
    pub id: Arc<str>,
    pub from: Number,
    /// The sending device; `None` for the phone.
    pub device: Option<u32>,
    pub to: Address,
    pub content: Arc<Content>,
    pub around: Surroundings,
}

impl Engine {
    /// Turns a draft into a message, or refuses it.
    pub(super) fn compose(&self, draft: Draft) -> Allowed<Arc<Message>> {
        let Draft { id, from, device, to, mut content, around } = draft;
        let chat = self.chat_of(&to)?;
        self.check_may_send(from, chat, &content)?;
        if device.is_some() {
            if !SEND_TYPES.contains(&content.type_name()) {
                return Err(Refusal::new(BAD_REQUEST, "a device cannot send this"));
            }
            // Phones are not checked: they may forward expired media, and tests need media that is gone.
            if let Some(media) = content.media() {
                self.check_handle(media.handle.as_ref())?;
            }
        }
        let target = content.target().map(|key| self.messages.find(key.id.as_str(), from, chat));
        let unknown = Refusal::new(NOT_FOUND, "the network does not know the message");
        let target = target.map(|known| known.ok_or(unknown)).transpose()?;
        if let Some(target) = target {
            self.check_target(from, &content, target)?;
            if matches!(*content, Content::Delete { .. })
                && let Content::Delete { by_admin, .. } = Arc::make_mut(&mut content)
            {
                *by_admin = target.from != from;
            }
        }
        let quoted = around.quoted.as_ref();
        let quoted_from = quoted.and_then(|quoted| self.messages.find(quoted.message_id.as_str(), from, chat));
        Ok(Arc::new(Message {
            id,
            from,
            device,
            chat,
            to,
            target: target.cloned(),
            quoted_from: quoted_from.map(|quoted| quoted.from),
            body: content.into(),
            around: (!around.is_empty()).then(|| Box::new(around)),
            at: self.now,
        }))
    }

    /// The conversation behind an address.
    pub(super) fn chat_of(&self, address: &Address) -> Allowed<Chat> {
        if let Some(group) = GroupId::of_address(address, &self.suffixes) {
            return self.groups.get(group).map(|_| Chat::Group(group)).ok_or(NO_SUCH_GROUP);
        }
        if let Some(newsletter) = NewsletterId::of_address(address, &self.suffixes) {
            return self.newsletters.get(newsletter).map(|_| Chat::Newsletter(newsletter)).ok_or(NO_SUCH_NEWSLETTER);
        }
        let number = Number::of_address(address, &self.suffixes);
        let number = number.filter(|number| self.subscribers.contains_key(number));
        number.map(Chat::Direct).ok_or(Refusal::new(BAD_RECIPIENT, "the recipient is not registered"))
    }

    fn check_may_send(&self, from: Number, chat: Chat, content: &Content) -> Allowed<()> {
        // A star is private to its sender.
        let private = matches!(content, Content::Star { .. } | Content::Unstar { .. });
        match chat {
            Chat::Group(group) => {
                let group = self.groups.get(group).ok_or(NO_SUCH_GROUP)?;
                let rank = group.rank_of(from).ok_or(NOT_A_MEMBER)?;
                if group.announce && !rank.is_admin() && !private {
                    return Err(Refusal::new(FORBIDDEN, "only admins send to the group"));
                }
                Ok(())
            }
            Chat::Newsletter(newsletter) => {
                let newsletter = self.newsletters.get(newsletter);
                let publishes = newsletter.is_some_and(|newsletter| newsletter.publishes(from));
                let allowed = publishes || private;
                if allowed { Ok(()) } else { Err(Refusal::new(FORBIDDEN, "only admins send to the newsletter")) }
            }
            Chat::Direct(_) => Ok(()),
        }
    }

    fn check_target(&self, from: Number, content: &Content, target: &Message) -> Allowed<()> {
        let own = target.from == from;
        let age = self.now.since(target.at);
        let by_admin = match target.chat {
            Chat::Group(group) => self.groups.get(group).is_some_and(|group| group.check_admin(from).is_ok()),
            _ => false,
        };
        let refused = |code, text| Err(Refusal::new(code, text));
        if target.target.is_some() {
            return refused(BAD_REQUEST, "this is nothing that one can react to or change");
        }
        match content {
            Content::Edit { .. } if !own => refused(FORBIDDEN, "only the author edits a message"),
            Content::Edit { .. } if target.body.text().is_none() => refused(BAD_REQUEST, "the message has no text"),
            Content::Edit { .. } if age > EDIT_WITHIN => refused(TOO_LATE, "the message is too old to be edited"),
            Content::Delete { .. } if !own && !by_admin => {
                refused(FORBIDDEN, "only the author or an admin of the group deletes a message")
            }
            Content::Delete { .. } if own && age > DELETE_WITHIN => {
                refused(TOO_LATE, "the message is too old to be deleted")
            }
            Content::PollVote { .. } if !matches!(target.body.other(), Some(Content::Poll { .. })) => {
                refused(BAD_REQUEST, "the message is no poll")
            }
            _ => Ok(()),
        }
    }
}
