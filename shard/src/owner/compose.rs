//! Builds the content of a send from the request and the channel's store: the forwarded message, the quoted one.

use model::address::Address;
use model::error::CallError;
use model::id::{MediaId, MessageId};
use model::issue::{IssueCode, Violation};
use model::media::MediaState;
use model::message::{Content, LinkPreview, MessageKey, Quoted, Surroundings};
use model::send::{PreviewMode, bare_preview};
use model::time::Timestamp;
use raft::machine::View;

use super::channel::Channel;
use crate::call::{Send, SendBody};
use crate::history::Direction;
use crate::media::record::{MediaDirection, MediaRow};
use crate::records::{MessagePointer, MessageRow, decode};
use crate::{keys, sameness};

/// A send as it is given to the network.
pub struct Composed {
    pub content: Content,
    pub around: Surroundings,
    /// The media row to be stored with the message.
    pub media: Option<Box<MediaRow>>,
}

fn first_link_of(content: &Content) -> Option<LinkPreview> {
    match content {
        Content::Text { text } if text.contains("://") => bare_preview(text),
        _ => None,
    }
}

impl Channel {
    /// # Errors
    /// `message_not_found` for a message to forward that this channel has not stored, `invalid_request` for one that
    /// cannot be forwarded.
    pub fn compose(&self, send: &Send) -> Result<Composed, CallError> {
        let (content, media, forwarded) = match &send.body {
            SendBody::Content(content) => (content.clone(), None, false),
            SendBody::Media { content, media } => {
                let mut media = media.clone();
                media.kept_for_at_most(self.media_retention());
                (content.clone(), Some(media), false)
            }
            SendBody::Forward(key) => {
                let mut content = self.forwarded(key)?;
                let media = self.media_again(&mut content)?;
                (content, media, true)
            }
        };
        let asked = (*send.around).clone();
        let link_preview = match asked.preview {
            PreviewMode::Shown(preview) => Some(preview),
            PreviewMode::Usual if self.settings.settings.link_preview => first_link_of(&content),
            PreviewMode::Usual | PreviewMode::Off => None,
        };
        let (target_author, said_at) = match content.target() {
            Some(key) => (self.author_of(key), Some(Timestamp::now())),
            None => (None, None),
        };
        let around = Surroundings {
            target_author,
            said_at,
            quoted: asked.quoted.map(|key| self.quoted(key)),
            mentions: asked.mentions,
            mentions_all: asked.mentions_all,
            forwarded,
            link_preview,
            ephemeral_expiration: asked.ephemeral_expiration,
            recovered: false,
        };
        Ok(Composed { content, around, media })
    }

    /// Gives the bytes of a forwarded message a row of their own: they are kept as long as the new message says,
    /// whatever happens to the first.
    ///
    /// # Errors
    /// `media_gone` if they are neither here nor at the network any more.
    fn media_again(&self, content: &mut Content) -> Result<Option<Box<MediaRow>>, CallError> {
        let Some(media) = content.media_mut() else { return Ok(None) };
        let now = Timestamp::now();
        let before = media.id.and_then(|id| self.media_row(id)).ok_or_else(|| CallError::media_gone(None))?;
        if before.deleted || (before.kept().is_none() && before.live_handle(now).is_none()) {
            return Err(CallError::media_gone(Some(before.expires_at)));
        }
        let expires_at = now.plus(self.media_retention());
        let state = if before.kept().is_some() { MediaState::Ready } else { MediaState::Pending };
        let row = MediaRow {
            id: MediaId::new(),
            direction: MediaDirection::Outbound,
            state,
            created_at: now,
            expires_at,
            due_at: expires_at,
            ..before
        };
        media.id = Some(row.id);
        media.handle = None;
        Ok(Some(Box::new(row)))
    }

    /// The content of a stored message for forwarding. Its media is referenced, not fetched.
    fn forwarded(&self, key: &MessageKey) -> Result<Content, CallError> {
        // A message that is stored without its body has nothing to forward.
        let row = self.named(key).filter(|row| !row.content.holds_nothing());
        let row = row.ok_or_else(|| CallError::message_not_found(key.id.as_str()))?;
        let kind = row.content.type_name();
        let content = match row.content {
            // View-once content is not for others.
            content if content.media().is_some_and(|media| media.view_once) => Err("a message to be seen once"),
            content @ (Content::Text { .. }
            | Content::Image { .. }
            | Content::Video { .. }
            | Content::Audio { .. }
            | Content::Document { .. }
            | Content::Sticker { .. }
            | Content::Contact { .. }
            | Content::Poll { .. }
            | Content::Product { .. }
            | Content::Catalog) => Ok(content),
            mut place @ Content::Location { .. } => {
                // Live locations are only received; a forwarded location is static.
                if let Content::Location { live, .. } = &mut place {
                    *live = false;
                }
                Ok(place)
            }
            _ => Err(kind),
        };
        content.map_err(|what| {
            Violation::new(IssueCode::Conflict, format!("{what} cannot be forwarded")).at(&["message_key"])
        })
    }

    /// The message that a send quotes. If it is not stored, the key says what is known.
    fn quoted(&self, key: MessageKey) -> Quoted {
        match self.named(&key) {
            Some(row) => {
                let text = row.content.text().filter(|text| !text.is_empty());
                let text = text.map(|text| Quoted::excerpt(text.to_owned()));
                Quoted { message_id: key.id, from: row.from, text }
            }
            None => {
                let from = if key.from_me { self.own_address() } else { key.remote_jid };
                Quoted { message_id: key.id, from, text: None }
            }
        }
    }

    /// The author of another member's message in a group: a network may identify the message by its author.
    fn author_of(&self, key: &MessageKey) -> Option<Address> {
        if key.from_me { None } else { self.named(key).filter(|row| row.is_group).map(|row| row.from) }
    }

    /// The stored message that a key refers to.
    fn named(&self, key: &MessageKey) -> Option<MessageRow> {
        if key.from_me {
            return self.stored_message(&key.id);
        }
        // Of several messages with the id, the key means the one in its chat; a single one is meant in any case.
        sameness::in_chat(&self.owner.reader, self.row.id, &key.id, &key.remote_jid, None).or_else(|| {
            let mut rows = sameness::all(&self.owner.reader, self.row.id, &key.id);
            rows.pop().filter(|_| rows.is_empty())
        })
    }

    /// The stored row of a message that this channel sent.
    pub fn stored_message(&self, id: &MessageId) -> Option<MessageRow> {
        let reader = &self.owner.reader;
        let pointer: MessagePointer = decode(&reader.get(&keys::message_id(self.row.id, Direction::Outbound, id))?);
        reader.get(&keys::message(self.row.id, pointer.occurred_at, pointer.row)).map(|row| decode(&row))
    }
}
