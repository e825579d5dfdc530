//! Items that came in and wait for bytes, so that their event can show them ready (supplement 8.4).
//!
//! A message waits for its media for five seconds at most, and what came after it waits behind it: the items of a
//! channel keep their order. Receipts do not wait; they tell of messages that went the other way. Nothing that is held
//! is acknowledged, so that a crash brings it again.

use std::time::{Duration, Instant};

use model::id::MediaId;
use model::media::{LARGEST_MEDIA, Media, MediaRef, MediaState};
use model::message::Content;
use model::time::Timestamp;
use network::driver::{EVENT_WINDOW, InboundItem, InboundKind, InboundMessage};

use crate::command::Command;
use crate::history::Direction;
use crate::media::command::MediaCommand;
use crate::media::record::{MediaDirection, MediaRow};
use crate::owner::channel::{After, Channel, Turn};
use crate::sameness;

/// How long an event waits for the bytes of its message (supplement 8.4).
const PATIENCE: Duration = Duration::from_secs(5);

/// An item that is not committed yet.
pub struct Held {
    item: InboundItem,
    media: Option<MediaRow>,
    until: Instant,
}

impl Channel {
    /// Adds an item to the turn, or holds it back.
    pub fn take_or_hold(&mut self, turn: &mut Turn, mut item: InboundItem) {
        if self.ignores(&item.kind) {
            turn.after.push(After::Acknowledge(item.id));
            return;
        }
        if matches!(item.kind, InboundKind::Receipt(_) | InboundKind::Notice(_)) {
            return self.take_inbound(turn, item);
        }
        // The network sent it again, because the session began anew.
        if let Some(same) = self.held.iter_mut().find(|held| held.item.is_again(&item)) {
            same.item.id = item.id;
            return;
        }
        let media = self.media_of(&mut item);
        if media.is_none() && self.held.is_empty() {
            return self.take_inbound(turn, item);
        }
        // What the channel's own phone wrote makes no event that shows its media.
        let waits = media.is_some() && matches!(item.kind, InboundKind::Message(_));
        let until = Instant::now() + if waits { PATIENCE } else { Duration::ZERO };
        self.held.push_back(Held { item, media, until });
    }

    /// Moves what need not wait any more into the turn, in order.
    pub fn release_held(&mut self, turn: &mut Turn) {
        while let Some(first) = self.held.front() {
            let waits = first.media.as_ref().is_some_and(|row| self.transfers.downloads.wants(row.id));
            if waits && self.is_logged_in() && Instant::now() < first.until && self.held.len() <= EVENT_WINDOW {
                return;
            }
            let Some(Held { item, media, .. }) = self.held.pop_front() else { return };
            if let Some(row) = media {
                turn.commands.push(Command::Media(MediaCommand::Add(Box::new(row))));
            }
            self.take_inbound(turn, item);
        }
    }

    /// How the event of a message shows its bytes.
    pub fn media_ref(&self, turn: &Turn, media: &Media) -> MediaRef {
        let added = turn.commands.iter().rev().find_map(|command| match command {
            Command::Media(MediaCommand::Add(row)) if Some(row.id) == media.id => Some(row),
            _ => None,
        });
        added.map_or_else(|| MediaRef::not_here(media), |row| self.owner.node.media.reference(row))
    }

    /// When the first held item stops waiting.
    pub fn held_until(&self) -> Option<Instant> {
        self.held.front().map(|held| held.until)
    }

    /// Media that is held and not stored yet.
    pub fn held_media(&mut self, id: MediaId) -> Option<&mut MediaRow> {
        self.held.iter_mut().filter_map(|held| held.media.as_mut()).find(|row| row.id == id)
    }

    /// The row of the media of a new message, whose download has begun. The message is given the row's name.
    fn media_of(&mut self, item: &mut InboundItem) -> Option<MediaRow> {
        let (message, direction) = item.message_mut()?;
        let reader = &self.owner.reader;
        let known = match direction {
            Direction::Inbound => {
                let mut rows = sameness::all(reader, self.row.id, &message.id).into_iter();
                rows.find(|row| sameness::is_of(reader, row, message))
            }
            Direction::Outbound => self.stored_message(&message.id),
        };
        if known.is_some_and(|row| !matches!(row.content, Content::Undecryptable { .. })) {
            return None;
        }
        let fetched = self.settings.settings.downloads(&message.content);
        let media = message.content.media_mut()?;
        let (customer, channel) = (self.row.customer, self.row.id);
        let retention = self.media_retention();
        let mime_type = media.mime_type.clone();
        let mut row = MediaRow::new(customer, channel, MediaDirection::Inbound, mime_type, Timestamp::now(), retention);
        row.size = media.size_bytes;
        row.sha256.clone_from(&media.sha256);
        row.filename.clone_from(&media.filename);
        row.width = media.width;
        row.height = media.height;
        row.duration_seconds = media.duration_seconds;
        row.voice = media.voice;
        row.view_once = media.view_once;
        row.handle.clone_from(&media.handle);
        media.id = Some(row.id);
        if row.handle.is_none() {
            row.state = MediaState::Failed;
        } else if !fetched || row.size.is_some_and(|size| size > LARGEST_MEDIA) {
            row.state = MediaState::Skipped;
        } else {
            self.transfers.downloads.want(row.clone());
            self.continue_downloads();
        }
        Some(row)
    }
}

/// Tells whether an item is another one come again.
trait Again {
    fn is_again(&self, other: &Self) -> bool;
    fn message_mut(&mut self) -> Option<(&mut InboundMessage, Direction)>;
}

impl Again for InboundItem {
    fn is_again(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (InboundKind::Message(one), InboundKind::Message(two))
            | (InboundKind::OwnMessage(one), InboundKind::OwnMessage(two)) => {
                (&one.id, &one.chat, &one.from) == (&two.id, &two.chat, &two.from)
                    && std::mem::discriminant(&one.content) == std::mem::discriminant(&two.content)
            }
            (one, two) => one == two,
        }
    }

    fn message_mut(&mut self) -> Option<(&mut InboundMessage, Direction)> {
        match &mut self.kind {
            InboundKind::Message(message) => Some((message, Direction::Inbound)),
            InboundKind::OwnMessage(message) => Some((message, Direction::Outbound)),
            InboundKind::Receipt(_) | InboundKind::LidDisclosed { .. } | InboundKind::Notice(_) => None,
        }
    }
}
