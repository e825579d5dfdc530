//! Inbound items that wait for media bytes, so that their event can show the media ready.
//!
//! A message waits for its media for at most five seconds, and the items after it wait behind it: the items of a
//! channel keep their order. Receipts, notices and synced data do not wait: they are about something
//! else. While the disks have no room, every item waits; the network sends a limited number of unacknowledged items
//! ([`EVENT_WINDOW`]). Held items are not acknowledged, so that the network delivers them again after a crash.

use std::time::{Duration, Instant};

use model::id::MediaId;
use model::media::{LARGEST_MEDIA, Media, MediaRef, MediaState};
use model::message::Content;
use model::time::Timestamp;
use network::bounds::Fit;
use network::driver::{EVENT_WINDOW, InboundItem, InboundKind};

use crate::command::Command;
use crate::history::Direction;
use crate::media::command::MediaCommand;
use crate::media::record::{MediaDirection, MediaRow};
use crate::owner::channel::{Batch, Channel, OnCommit};
use crate::sameness;

/// How long an event waits for the bytes of its message.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often items that wait for room check for it.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// How far the network's clock may be ahead: an item with a later time would sort before all others forever.
const MOST_AHEAD: Duration = Duration::from_secs(24 * 3600);

/// An item that is not committed yet.
pub struct Held {
    item: InboundItem,
    media: Option<MediaRow>,
    until: Instant,
    /// The item was truncated to its bounds.
    is_cut: bool,
    /// The item was not processed yet, because there was no room for its results.
    waits_for_room: bool,
}

impl Channel {
    /// Adds an item to the batch, or holds it back.
    pub fn take_or_hold(&mut self, batch: &mut Batch, mut item: InboundItem) {
        item.at = item.at.clamp(Timestamp(0), Timestamp::now().plus(MOST_AHEAD));
        let is_cut = match item.fit() {
            Fit::Whole => false,
            Fit::Cut => true,
            Fit::Beyond(reason) => {
                // Without an acknowledgement it would come again and again; it must not end the session.
                metrics::counter!("gateway_inbound_beyond_bounds_total", "what" => reason).increment(1);
                tracing::debug!(channel = %self.row.id, reason, "what the network delivered is beyond all bounds");
                batch.on_commit.push(OnCommit::Acknowledge(item.id));
                return;
            }
        };
        if self.ignores(&item.kind) {
            batch.on_commit.push(OnCommit::Acknowledge(item.id));
            return;
        }
        self.place(batch, item, is_cut);
    }

    /// Adds an item that is within its bounds to the batch, or holds it back.
    fn place(&mut self, batch: &mut Batch, mut item: InboundItem, is_cut: bool) {
        let lacks_room = self.owner.lacks_room();
        if !lacks_room && waits_for_nothing(&item.kind) {
            return self.take_inbound(batch, item, is_cut);
        }
        // Two equal receipts or notices have the effect of one, but each is acknowledged: a later one replaces an
        // earlier one only once the window is full, when it must be a repeat.
        let is_another = self.held.len() < EVENT_WINDOW && waits_for_nothing(&item.kind);
        // The network sent it again, because a new session began.
        if !is_another && let Some(same) = self.held.iter_mut().find(|held| is_again(&held.item.kind, &item.kind)) {
            same.item.id = item.id;
            return;
        }
        if lacks_room {
            metrics::counter!("gateway_refused_for_room_total", "what" => "inbound").increment(1);
            let until = Instant::now() + ROOM_PATIENCE;
            self.held.push_back(Held { item, media: None, until, is_cut, waits_for_room: true });
            return;
        }
        let media = self.media_of(&mut item);
        if media.is_none() && self.held.is_empty() {
            return self.take_inbound(batch, item, is_cut);
        }
        // A message of the channel's own phone makes no event that shows its media.
        let waits = media.is_some() && matches!(item.kind, InboundKind::Message(_));
        let until = Instant::now() + if waits { PATIENCE } else { Duration::ZERO };
        self.held.push_back(Held { item, media, until, is_cut, waits_for_room: false });
    }

    /// Moves items that need not wait any longer into the batch, in order.
    pub fn release_held(&mut self, batch: &mut Batch) {
        if let Some(first) = self.held.front_mut()
            && self.owner.lacks_room()
        {
            first.until = first.until.max(Instant::now() + ROOM_PATIENCE);
            return;
        }
        if self.held.iter().any(|held| held.waits_for_room) {
            for held in std::mem::take(&mut self.held) {
                match held.waits_for_room {
                    true => self.place(batch, held.item, held.is_cut),
                    false => self.held.push_back(held),
                }
            }
        }
        while let Some(first) = self.held.front() {
            let waits = first.media.as_ref().is_some_and(|row| self.transfers.downloads.wants(row.id));
            if waits && self.is_logged_in() && Instant::now() < first.until && self.held.len() <= EVENT_WINDOW {
                return;
            }
            let Some(Held { item, media, is_cut, .. }) = self.held.pop_front() else { return };
            if let Some(row) = media {
                batch.commands.push(Command::Media(MediaCommand::Add(Box::new(row))));
            }
            self.take_inbound(batch, item, is_cut);
        }
    }

    /// How the event of a message shows its media.
    pub fn media_ref(&self, batch: &Batch, media: &Media) -> MediaRef {
        let added = batch.commands.iter().rev().find_map(|command| match command {
            Command::Media(MediaCommand::Add(row)) if Some(row.id) == media.id => Some(row),
            _ => None,
        });
        added.map_or_else(|| MediaRef::not_here(media), |row| self.owner.node.media.reference(row))
    }

    /// When the first held item stops waiting.
    pub fn held_until(&self) -> Option<Instant> {
        self.held.front().map(|held| held.until)
    }

    /// The row of media that is held and not stored yet.
    pub fn held_media(&mut self, id: MediaId) -> Option<&mut MediaRow> {
        self.held.iter_mut().filter_map(|held| held.media.as_mut()).find(|row| row.id == id)
    }

    /// Makes the row of a new message's media and starts its download. The message is given the row's id.
    fn media_of(&mut self, item: &mut InboundItem) -> Option<MediaRow> {
        let (message, direction) = match &mut item.kind {
            InboundKind::Message(message) => (message, Direction::Inbound),
            InboundKind::OwnMessage(message) => (message, Direction::Outbound),
            _ => return None,
        };
        let reader = &self.owner.reader;
        let known = match direction {
            Direction::Inbound => sameness::known(reader, self.row.id, message),
            Direction::Outbound => self.stored_message(&message.id),
        };
        if known.is_some_and(|row| !matches!(row.content, Content::Undecryptable { .. })) {
            return None;
        }
        let fetched = self.settings.settings.downloads(&message.content);
        let media = message.content.media_mut()?;
        let (customer, channel) = (self.row.customer, self.row.id);
        let retention = self.media_retention();
        let (id, now, mime_type) = (MediaId::new(), Timestamp::now(), media.mime_type.clone());
        let mut row = MediaRow::new(id, customer, channel, MediaDirection::Inbound, mime_type, now, retention);
        row.size = media.size_bytes;
        row.sha256.clone_from(&media.sha256);
        row.filename.clone_from(&media.filename);
        row.width = media.width;
        row.height = media.height;
        row.duration_seconds = media.duration_seconds;
        row.voice = media.voice;
        row.view_once = media.view_once;
        row.handle.clone_from(&media.handle);
        row.counted = self.owner.node.media.counts();
        media.id = Some(row.id);
        if row.handle.is_none() {
            row.state = MediaState::Failed;
        } else if !fetched
            || self.owner.has_no_room_for_media(customer)
            || row.size.is_some_and(|size| size > LARGEST_MEDIA)
        {
            row.state = MediaState::Skipped;
        } else {
            self.transfers.downloads.want(row.clone());
            self.continue_downloads();
        }
        Some(row)
    }
}

/// Receipts, notices and synced data have no media, and are about something else than the items before them.
fn waits_for_nothing(kind: &InboundKind) -> bool {
    matches!(kind, InboundKind::Receipt(_) | InboundKind::Notice(_) | InboundKind::Synced(_))
}

/// Whether an item is a repeat of another.
fn is_again(one: &InboundKind, other: &InboundKind) -> bool {
    match (one, other) {
        (InboundKind::Message(one), InboundKind::Message(two))
        | (InboundKind::OwnMessage(one), InboundKind::OwnMessage(two)) => {
            (&one.id, &one.chat, &one.from) == (&two.id, &two.chat, &two.from)
                && std::mem::discriminant(&one.content) == std::mem::discriminant(&two.content)
        }
        (one, two) => one == two,
    }
}
