//! Turns messages from the control API into messages that a phone sends.

use std::sync::Arc;

use model::address::Address;
use model::id::MessageId;
use model::media::Media;
use model::message::{Content, LinkPreview, MessageKey, Quoted, Surroundings};
use model::time::Timestamp;

use super::message::Message;
use super::traffic::Writing;
use super::{ControlError, Engine};
use crate::simulator::answers::writing::{GivenKey, GivenPreview, PhoneBody, PhoneMessage};
use crate::simulator::bytes::Prepared;
use crate::simulator::number::Number;

impl Engine {
    /// Sends the message `count` times from a phone.
    ///
    /// # Errors
    /// An unknown phone, an invalid body, or a refusal by the network.
    pub fn phone_write(
        &mut self,
        now: Timestamp,
        from: Number,
        message: &PhoneMessage,
        media: Option<Prepared>,
    ) -> Result<Vec<MessageId>, ControlError> {
        self.acting(now, from)?;
        let media = media.map(|Prepared { media, sha256, bytes }| {
            let handle = Some(self.store_media(sha256, bytes).handle);
            Media { handle, ..media }
        });
        let content = self.content_of(from, message, media)?;
        let to = match (content.target(), &message.to) {
            // The message goes to the chat of its target.
            (Some(target), _) => target.remote_jid.clone(),
            (None, Some(to)) => self.parse_address(to)?,
            (None, None) => return Err(ControlError::Invalid("to is missing".into())),
        };
        let around = self.around_of(from, message)?;
        let (recovers, id) = (message.recovers.clone(), message.message_id.clone());
        let writing = Writing { to, content: Arc::new(content), around, recovers, id };
        self.phone_send(now, from, &writing, message.count)
    }

    fn content_of(&self, from: Number, message: &PhoneMessage, media: Option<Media>) -> Result<Content, ControlError> {
        let media = || media.ok_or_else(|| ControlError::Invalid("media is missing".into()));
        let target = || self.named_by(from, message.message_key.as_ref()).map(|target| self.key(from, target));
        let content = message.body.clone().content(media, target)?;
        content.map_or_else(|| self.forwarded(from, message), Ok)
    }

    fn forwarded(&self, from: Number, message: &PhoneMessage) -> Result<Content, ControlError> {
        let forwarded = self.named_by(from, message.message_key.as_ref())?;
        if forwarded.target.is_some() {
            return Err(ControlError::Invalid("this is nothing that can be forwarded".into()));
        }
        Ok(forwarded.body.content())
    }

    fn around_of(&self, from: Number, message: &PhoneMessage) -> Result<Surroundings, ControlError> {
        let quoted = message.quoted.as_ref().map(|key| self.named_by(from, Some(key))).transpose()?;
        let quoted = quoted.map(|quoted| Quoted {
            message_id: quoted.message_id(),
            from: self.name_of(quoted.from, from),
            text: quoted.body.text().map(str::to_owned),
        });
        let named = message.mentions.iter().filter(|mention| *mention != "all");
        let mentions: Result<Vec<Address>, _> = named.map(|mention| self.parse_address(mention)).collect();
        Ok(Surroundings {
            quoted,
            mentions: mentions?,
            mentions_all: message.mentions.iter().any(|mention| mention == "all"),
            forwarded: message.forwarded || message.body == PhoneBody::Forward,
            link_preview: message.link_preview.clone().and_then(|preview| preview_of(preview, &message.body)),
            ephemeral_expiration: message.ephemeral_expiration,
            recovered: message.recovers.is_some(),
            ..Surroundings::default()
        })
    }

    /// The message that a phone refers to by a key.
    fn named_by(&self, number: Number, key: Option<&GivenKey>) -> Result<&Message, ControlError> {
        let key = key.ok_or_else(|| ControlError::Invalid("message_key is missing".into()))?;
        self.seen(number, key.id.as_str()).map(|message| &**message)
    }

    /// The key by which a phone refers to a message that it received or sent.
    pub(super) fn key(&self, number: Number, message: &Message) -> MessageKey {
        let remote_jid = self.chat_address(number, message);
        MessageKey { id: message.message_id(), from_me: message.from == number, remote_jid }
    }
}

fn preview_of(given: GivenPreview, body: &PhoneBody) -> Option<LinkPreview> {
    let PhoneBody::Text { text } = body else { return None };
    let mut words = text.split_whitespace();
    let first_link = words.find(|word| word.starts_with("https://") || word.starts_with("http://"));
    let (url, title, description, image_url) = match given {
        GivenPreview::Wanted(wanted) => (wanted.then_some(None)?, None, None, None),
        GivenPreview::Given { url, title, description, image_url } => (url, title, description, image_url),
    };
    let url = url.or_else(|| first_link.map(str::to_owned))?;
    Some(LinkPreview { url, title, description, image_url })
}
