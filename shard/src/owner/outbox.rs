//! A channel's outbox in the owner's memory: sends that are accepted here but not yet by the network, in order.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use model::id::MessageId;
use model::media::MediaHandle;
use model::time::Timestamp;
use network::driver::Outbound;
use network::operation::Refused;
use raft::rt;
use tokio::sync::oneshot;

use super::backoff::resend_delay;
use super::outbox_bytes::Charge;
use crate::records::MessageRow;

/// The outcome of a send, for the caller that waits for it.
#[derive(Clone, Debug)]
pub enum SendVerdict {
    Accepted,
    Refused(Refused),
}

pub struct Entry {
    /// With everything that the network is given, even if the stored row lacks the body.
    pub row: MessageRow,
    /// When this owner got it.
    since: Instant,
    /// When it was last written to the session, and how many times.
    written: Option<(Instant, u32)>,
    /// The network may have received it, in this session or an earlier one, from this owner or another.
    may_be_out: bool,
    waiting: Option<oneshot::Sender<SendVerdict>>,
    bytes: BytesAtNetwork,
    _charge: Charge,
}

/// How long the network keeps the media bytes of a message.
#[derive(Default)]
struct BytesAtNetwork {
    until: Option<Timestamp>,
    /// The bytes were just uploaded: the message is written whatever the clocks say.
    fresh: bool,
}

impl Entry {
    /// Whether the network lacks the media bytes that the message refers to.
    fn lacks_bytes(&self, now: Timestamp) -> bool {
        let Some(media) = self.row.content.media() else { return false };
        let expired = !self.bytes.fresh && self.bytes.until.is_some_and(|until| until <= now);
        media.handle.is_none() || expired
    }

    /// Whether the network may have received it; only the network can rule that out.
    pub fn may_be_out(&self) -> bool {
        self.may_be_out
    }

    /// The sender to the caller, if one still waits.
    pub fn into_caller(self) -> Option<oneshot::Sender<SendVerdict>> {
        self.waiting
    }

    /// Answers the caller, if one still waits.
    pub fn answer(&mut self, verdict: SendVerdict) {
        if let Some(caller) = self.waiting.take() {
            let _ = caller.send(verdict);
        }
    }
}

#[derive(Default)]
pub struct Outbox {
    // Boxed: a map that was used once keeps a leaf with room for eleven entries.
    entries: BTreeMap<u64, Box<Entry>>,
    places: HashMap<MessageId, u64>,
    next: u64,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn contains(&self, id: &MessageId) -> bool {
        self.places.contains_key(id)
    }

    /// Appends a message, in log order. `may_be_out`: an earlier owner may have written it.
    pub fn push(&mut self, row: MessageRow, may_be_out: bool, charge: Charge) {
        self.places.insert(row.message_id.clone(), self.next);
        let bytes = BytesAtNetwork::default();
        let since = rt::now();
        let entry = Entry { row, since, written: None, may_be_out, waiting: None, bytes, _charge: charge };
        self.entries.insert(self.next, Box::new(entry));
        self.next += 1;
    }

    /// Returns a receiver of the verdict on a message, or `None` if the message is not here.
    pub fn wait_for(&mut self, id: &MessageId) -> Option<oneshot::Receiver<SendVerdict>> {
        let entry = self.entries.get_mut(self.places.get(id)?)?;
        let (caller, verdict) = oneshot::channel();
        entry.waiting = Some(caller);
        Some(verdict)
    }

    pub fn take(&mut self, id: &MessageId) -> Option<Entry> {
        self.entries.remove(&self.places.remove(id)?).map(|entry| *entry)
    }

    /// The ids of all messages, in order.
    pub fn ids(&self) -> Vec<MessageId> {
        self.entries.values().map(|entry| entry.row.message_id.clone()).collect()
    }

    pub fn get(&self, id: &MessageId) -> Option<&Entry> {
        self.entries.get(self.places.get(id)?).map(Box::as_ref)
    }

    /// Messages to be written now, in order: not written in this session yet, or unanswered for too long. Messages
    /// behind one whose bytes the network lacks wait for it.
    pub fn due(&self, now: Instant) -> Vec<Outbound> {
        let due = |entry: &&Entry| entry.written.is_none_or(|(at, writes)| at + resend_delay(writes) <= now);
        self.writable().filter(due).map(|entry| entry.row.outbound()).collect()
    }

    /// When the next unanswered message is due again.
    pub fn next_due(&self) -> Option<Instant> {
        let due = |entry: &Entry| entry.written.map(|(at, writes)| at + resend_delay(writes));
        self.writable().filter_map(due).min()
    }

    fn writable(&self) -> impl Iterator<Item = &Entry> {
        let now = Timestamp::now();
        self.entries.values().map(Box::as_ref).take_while(move |entry| !entry.lacks_bytes(now))
    }

    /// The first message whose bytes the network lacks; the messages behind it wait for it.
    pub fn first_without_bytes(&self, now: Timestamp) -> Option<&Entry> {
        self.entries.values().find(|entry| entry.lacks_bytes(now)).map(Box::as_ref)
    }

    /// Notes that the network has the bytes of a message.
    pub fn has_bytes(&mut self, id: &MessageId, handle: MediaHandle, until: Option<Timestamp>) {
        let entry = self.places.get(id).and_then(|place| self.entries.get_mut(place));
        if let Some(entry) = entry
            && let Some(media) = entry.row.content.media_mut()
        {
            media.handle = Some(handle);
            entry.bytes = BytesAtNetwork { until, fresh: true };
        }
    }

    /// A session took the message, or may have: from here on only the network can tell whether it received it.
    pub fn goes_out(&mut self, id: &MessageId) {
        if let Some(entry) = self.places.get(id).and_then(|place| self.entries.get_mut(place)) {
            entry.may_be_out = true;
        }
    }

    pub fn written(&mut self, id: &MessageId, now: Instant) {
        if let Some(entry) = self.places.get(id).and_then(|place| self.entries.get_mut(place)) {
            entry.may_be_out = true;
            let writes = entry.written.map_or(0, |(_, writes)| writes);
            entry.written = Some((now, writes + 1));
            entry.bytes.fresh = false;
        }
    }

    /// Whether a message has not been written in this session.
    pub fn is_unwritten(&self, id: &MessageId) -> bool {
        self.get(id).is_some_and(|entry| entry.written.is_none())
    }

    /// Drops the callers that wait for verdicts: they are told that their sends are queued.
    pub fn drop_callers(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.waiting = None);
    }

    /// Begins a new session: everything is written again, at once and in order.
    pub fn clear_writes(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.written = None);
    }

    /// Messages that have waited at this owner for longer than `age`. Their time at earlier owners does not count: it
    /// could only be told from the clocks of other nodes, and one that is ahead would fail a whole outbox.
    pub fn older_than(&self, age: Duration, now: Instant) -> Vec<MessageId> {
        let old = |entry: &&Entry| now.saturating_duration_since(entry.since) >= age;
        self.entries.values().map(Box::as_ref).take_while(old).map(|entry| entry.row.message_id.clone()).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::address::Address;
    use model::id::{ChannelId, MediaId, RowId};
    use model::media::Media;
    use model::message::{Content, Surroundings};

    use super::*;
    use crate::history::{Direction, Source};
    use crate::owner::outbox_bytes::AccountBytes;

    fn row(id: &str, content: Content) -> MessageRow {
        let address = Address::parse("15551234567@s.example").unwrap();
        MessageRow {
            id: RowId::new(),
            message_id: MessageId(id.into()),
            channel: ChannelId::random(),
            direction: Direction::Outbound,
            source: Source::Api,
            chat: address.clone(),
            is_group: false,
            from: address.clone(),
            from_resolved: true,
            from_lid: None,
            from_phone: None,
            to: address,
            participant: None,
            push_name: None,
            content,
            around: Surroundings::default(),
            client_ref: None,
            request_id: None,
            correlation_id: String::new(),
            occurred_at: Timestamp(0),
            created_at: Timestamp(0),
        }
    }

    fn due(outbox: &Outbox) -> Vec<String> {
        outbox.due(Instant::now()).into_iter().map(|message| message.id.0).collect()
    }

    #[test]
    fn what_stands_behind_bytes_that_are_not_at_the_network_waits_for_them() {
        let mut outbox = Outbox::default();
        let text = || Content::Text { text: "hi".into() };
        let media = Media { id: Some(MediaId::new()), ..Media::of_type("image/png") };
        for (id, content) in [("A", text()), ("B", Content::Image { media, caption: None }), ("C", text())] {
            outbox.push(row(id, content), false, AccountBytes::default().take(0));
        }
        assert_eq!(due(&outbox), ["A"]);
        outbox.written(&MessageId("A".into()), Instant::now());
        assert!(due(&outbox).is_empty());
        let waiting = outbox.first_without_bytes(Timestamp::now()).unwrap();
        assert_eq!(waiting.row.message_id.0, "B");

        // Once the bytes are there, the message is written even if they expire soon; later writes need them again.
        outbox.has_bytes(&MessageId("B".into()), MediaHandle("h".into()), Some(Timestamp(1)));
        assert_eq!(due(&outbox), ["B", "C"]);
        outbox.written(&MessageId("B".into()), Instant::now());
        assert!(outbox.first_without_bytes(Timestamp::now()).is_some());
        assert!(due(&outbox).is_empty());
        outbox.has_bytes(&MessageId("B".into()), MediaHandle("h".into()), Some(Timestamp(i64::MAX)));
        assert_eq!(due(&outbox), ["C"]);
        assert_eq!(outbox.due(Instant::now() + Duration::from_secs(10)).len(), 3);
    }

    #[test]
    fn no_message_is_old_before_this_owner_has_had_it_for_long_whatever_its_own_time_says() {
        const LIFE: Duration = Duration::from_secs(24 * 3600);
        let mut outbox = Outbox::default();
        // Accepted in 1970, as it would seem to a clock that is far ahead.
        let row = row("A", Content::Text { text: "hi".into() });
        let before = Instant::now();
        outbox.push(row, true, AccountBytes::default().take(0));
        assert!(outbox.older_than(LIFE, before + LIFE - Duration::from_millis(1)).is_empty());
        assert_eq!(outbox.older_than(LIFE, Instant::now() + LIFE), [MessageId("A".into())]);
    }
}
