//! The queue of outgoing messages: those waiting and those sent, what each waits for, and the network's answers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use model::address::Address;
use model::id::MessageId;
use network::driver::Outbound;
use wacore_binary::Jid;

use super::TOO_MANY;

/// How long the next message of a chat waits for the network's answer to the one before it. After that one of the two
/// got lost, and the outbox sends the message again.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// Backoff of a temporarily refused message: the first delay, which doubles each time, and the longest one.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const AGAIN_AT_MOST: Duration = Duration::from_secs(64);

/// How often a refused message is sent again automatically. After that it goes out when the outbox gives it again, or
/// before the next message of its chat.
const MOST_AGAIN: u32 = 6;

/// How long later messages of a chat wait for a refused one. Then they are tried, too: it must not block the chat
/// forever.
const HELD_FOR: Duration = Duration::from_secs(600);

/// Sent messages whose acceptance is tracked. The outbox of a channel holds fewer.
const MOST_WRITTEN: usize = 4_096;

#[derive(Default)]
pub struct State {
    /// Queued and not sent.
    pub queued: HashSet<MessageId>,
    written: HashMap<MessageId, Written>,
    order: VecDeque<MessageId>,
    /// The last message sent to each chat, until the network has settled it.
    last: HashMap<Address, Unsettled>,
    /// Groups with accepted messages, and up to which number their key distributions are confirmed by those.
    pub told: HashMap<String, u64>,
    /// Groups whose members may have changed: they are queried before the next message.
    pub stale: HashSet<Jid>,
    /// Until when nothing is sent, since the network has said that the channel sends too much.
    quiet_until: Option<Instant>,
}

struct Written {
    to: Jid,
    /// The number of a group's members who will send receipts.
    recipients: Option<u32>,
    /// The number of the last key distribution before the message left.
    told: u64,
    is_accepted: bool,
}

/// A sent message that later messages of its chat wait for.
struct Unsettled {
    message: Outbound,
    /// How often the network refused it temporarily, and whether that was its last answer.
    refusals: u32,
    is_refused: bool,
    /// When it is sent again, if it was refused; else the deadline of the wait for it.
    until: Instant,
}

impl State {
    /// Notes that a message is being sent, for the first time or again.
    pub fn note_written(&mut self, message: Outbound, to: Jid, recipients: Option<u32>) {
        let id = message.id.clone();
        let refusals = self.last.get(&message.to).filter(|last| last.message.id == id).map_or(0, |last| last.refusals);
        let until = Instant::now() + HEARD_WITHIN;
        // A message that is sent again waits again for its answer; its number of refusals stays.
        self.last.insert(message.to.clone(), Unsettled { message, refusals, is_refused: false, until });
        let written = Written { to, recipients, told: 0, is_accepted: false };
        if self.written.insert(id.clone(), written).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > MOST_WRITTEN {
            if let Some(oldest) = self.order.pop_front() {
                self.written.remove(&oldest);
                self.settle(&oldest);
            }
        }
    }

    /// Notes the first acceptance of a message, and returns how many members of its group will send receipts.
    pub fn accept(&mut self, id: &MessageId) -> Option<Option<u32>> {
        let written = self.written.get_mut(id).filter(|written| !written.is_accepted)?;
        written.is_accepted = true;
        let recipients = written.recipients;
        self.has_taken(id);
        self.settle(id);
        Some(recipients)
    }

    pub fn has_accepted(&self, id: &MessageId) -> bool {
        self.written.get(id).is_some_and(|written| written.is_accepted)
    }

    /// The chat that a message was sent to.
    pub fn chat_of(&self, id: &MessageId) -> Option<Jid> {
        self.written.get(id).map(|written| written.to.clone())
    }

    /// Restarts the wait for the network's answer when a message has left, since sending may have taken long.
    pub fn wait_from_now(&mut self, id: &MessageId) {
        if let Some(last) = self.last.values_mut().find(|last| last.message.id == *id && !last.is_refused) {
            last.until = Instant::now() + HEARD_WITHIN;
        }
    }

    /// Records the last key distribution before a message left. The network may have accepted the message already.
    pub fn has_told(&mut self, id: &MessageId, told: u64) {
        let Some(written) = self.written.get_mut(id) else { return };
        written.told = told;
        if written.is_accepted {
            self.has_taken(id);
        }
    }

    /// Confirms the key distributions of an accepted message, if it went to a group.
    fn has_taken(&mut self, id: &MessageId) {
        let Some(written) = self.written.get(id).filter(|written| written.recipients.is_some()) else { return };
        let until = self.told.entry(written.to.to_string()).or_default();
        *until = (*until).max(written.told);
    }

    /// The next message to send: a refused one that is due, or the first held one that may go.
    pub fn next(&mut self, held: &VecDeque<Held>, now: Instant) -> Next {
        if self.quiet_until.is_some_and(|until| now < until) {
            return Next::Nothing(self.quiet_until);
        }
        let refused = self.last.values().filter(|last| last.is_refused && last.refusals <= MOST_AGAIN);
        let again = refused.min_by_key(|last| last.until);
        if let Some(again) = again.filter(|again| again.until <= now) {
            return Next::Again(Box::new(again.message.clone()));
        }
        let mut due = again.map(|again| again.until);
        let mut chats = HashSet::new();
        for (place, Held { message, until }) in held.iter().enumerate() {
            if !chats.insert(&message.to) {
                // The message waits behind another one of its chat.
                continue;
            }
            let (at, holds_all) = match self.before(message, now) {
                Before::Nothing => return Next::Held(place),
                _ if *until <= now => return Next::Held(place),
                Before::Again(before) => return Next::Again(before),
                Before::Refused(at) => (at, false),
                Before::Word(at) => (at, true),
            };
            let at = at.min(*until);
            due = Some(due.map_or(at, |due| due.min(at)));
            if holds_all {
                // Messages of a channel go out in order, unless the network refuses one.
                break;
            }
        }
        Next::Nothing(due)
    }

    /// What a message waits for.
    fn before(&mut self, message: &Outbound, now: Instant) -> Before {
        let Some(last) = self.last.get(&message.to).filter(|last| last.message.id != message.id) else {
            return Before::Nothing;
        };
        match (now < last.until, last.is_refused) {
            (true, true) => Before::Refused(last.until),
            (true, false) => Before::Word(last.until),
            (false, true) => Before::Again(Box::new(last.message.clone())),
            (false, false) => {
                self.last.remove(&message.to);
                Before::Nothing
            }
        }
    }

    /// Schedules a temporarily refused message, with a backoff that grows with its refusals.
    pub fn refuse_for_now(&mut self, id: &MessageId, is_too_many: bool, now: Instant) {
        let Some(last) = self.last.values_mut().find(|last| last.message.id == *id) else { return };
        let until = now + again_after(last.refusals);
        (last.refusals, last.is_refused, last.until) = (last.refusals + 1, true, until);
        if is_too_many {
            self.quiet_until = self.quiet_until.max(Some(until));
        }
    }

    /// Holds a message back as if refused, since a request that precedes it was refused temporarily.
    pub fn hold_back(&mut self, message: &Outbound, code: u16, now: Instant) {
        if self.last.get(&message.to).is_none_or(|last| last.message.id != message.id) {
            let last = Unsettled { message: message.clone(), refusals: 0, is_refused: false, until: now };
            self.last.insert(message.to.clone(), last);
        }
        self.refuse_for_now(&message.id, code == TOO_MANY, now);
    }

    /// Lets the messages behind this one go.
    pub fn settle(&mut self, id: &MessageId) {
        self.last.retain(|_, last| last.message.id != *id);
    }
}

/// What a message waits for before it may be sent to its chat.
enum Before {
    Nothing,
    /// For the network's answer to the message before it, until then.
    Word(Instant),
    /// For the message before it, which was refused temporarily and is sent again then.
    Refused(Instant),
    /// For this message, which is sent again first.
    Again(Box<Outbound>),
}

/// A message that is queued and not sent.
pub struct Held {
    pub message: Box<Outbound>,
    /// Until when it waits for the message before it in its chat.
    until: Instant,
}

impl Held {
    pub fn new(message: Box<Outbound>, now: Instant) -> Self {
        Self { message, until: now + HELD_FOR }
    }
}

/// What is sent next.
pub enum Next {
    /// This message, which was refused temporarily.
    Again(Box<Outbound>),
    /// The held message at this index.
    Held(usize),
    /// Nothing before this time, unless the network answers or a message is queued.
    Nothing(Option<Instant>),
}

/// The delay before a message is sent again after so many earlier refusals.
fn again_after(refusals: u32) -> Duration {
    AGAIN_AFTER.saturating_mul(1 << refusals.min(16)).min(AGAIN_AT_MOST)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::message::{Content, Surroundings};

    use super::*;

    #[test]
    fn what_one_message_told_of_a_group_s_key_counts_though_the_next_one_is_taken_before_it_has_left() {
        let (mut state, group) = (State::default(), "1203@g.us");
        let [first, second] = ["A", "B"].map(|id| MessageId(id.into()));
        for (id, told) in [(&first, 5), (&second, 0)] {
            let to: Jid = group.parse().unwrap();
            state.written.insert(id.clone(), Written { to, recipients: Some(2), told, is_accepted: true });
            state.has_taken(id);
        }
        assert_eq!(state.told.get(group), Some(&5));
        state.has_told(&second, 7);
        assert_eq!(state.told.get(group), Some(&7));
    }

    fn held(id: &str, to: &str, now: Instant) -> Held {
        let (content, around) = (Content::Text { text: id.into() }, Surroundings::default());
        let to = Address::parse(&format!("{to}@s.whatsapp.net")).unwrap();
        Held::new(Box::new(Outbound { id: MessageId(id.into()), to, content, around }), now)
    }

    fn next(state: &mut State, waiting: &VecDeque<Held>, now: Instant) -> Result<String, Option<Duration>> {
        match state.next(waiting, now) {
            Next::Again(message) => Ok(message.id.to_string()),
            Next::Held(place) => Ok(waiting[place].message.id.to_string()),
            Next::Nothing(due) => Err(due.map(|due| due - now)),
        }
    }

    #[test]
    fn what_is_refused_for_now_holds_its_chat_and_no_other_and_not_for_ever() {
        let (mut state, now) = (State::default(), Instant::now());
        let Held { message, .. } = held("A", "15550000002", now);
        let last = Unsettled { message: *message, refusals: 1, is_refused: true, until: now + AGAIN_AFTER };
        state.last.insert(last.message.to.clone(), last);
        let mut waiting = VecDeque::from([
            held("B", "15550000002", now),
            held("C", "15550000002", now),
            held("D", "15550000003", now),
        ]);
        assert_eq!(next(&mut state, &waiting, now), Ok("D".into()));
        waiting.pop_back();
        assert_eq!(next(&mut state, &waiting, now), Err(Some(AGAIN_AFTER)));
        assert_eq!(next(&mut state, &waiting, now + AGAIN_AFTER), Ok("A".into()));
        // A message that was refused too often is sent again only before others of its chat.
        state.last.values_mut().for_each(|last| last.refusals = MOST_AGAIN + 1);
        assert_eq!(next(&mut state, &VecDeque::new(), now + AGAIN_AFTER), Err(None));
        assert_eq!(next(&mut state, &waiting, now + AGAIN_AFTER), Ok("A".into()));
        assert_eq!(next(&mut state, &waiting, now + HELD_FOR), Ok("B".into()));
    }

    #[test]
    fn what_the_network_has_said_nothing_of_holds_all_that_is_behind_the_next_one_of_its_chat() {
        let (mut state, now) = (State::default(), Instant::now());
        let Held { message, .. } = held("A", "15550000002", now);
        let last = Unsettled { message: *message, refusals: 0, is_refused: false, until: now + HEARD_WITHIN };
        state.last.insert(last.message.to.clone(), last);
        let waiting = VecDeque::from([held("B", "15550000002", now), held("C", "15550000003", now)]);
        assert_eq!(next(&mut state, &waiting, now), Err(Some(HEARD_WITHIN)));
        assert_eq!(next(&mut state, &waiting, now + HEARD_WITHIN), Ok("B".into()));
    }

    #[test]
    fn a_channel_that_writes_too_much_writes_nothing_for_a_while() {
        let (mut state, now) = (State::default(), Instant::now());
        state.quiet_until = Some(now + AGAIN_AFTER);
        let waiting = VecDeque::from([held("A", "15550000002", now)]);
        assert_eq!(next(&mut state, &waiting, now), Err(Some(AGAIN_AFTER)));
        assert_eq!(next(&mut state, &waiting, now + AGAIN_AFTER), Ok("A".into()));
    }

    #[test]
    fn a_message_before_which_something_is_not_answered_for_now_keeps_its_place() {
        let (mut state, now) = (State::default(), Instant::now());
        let Held { message, .. } = held("A", "15550000002", now);
        state.hold_back(&message, 500, now);
        let waiting = VecDeque::from([held("C", "15550000002", now), held("B", "15550000003", now)]);
        assert_eq!(next(&mut state, &waiting, now), Ok("B".into()), "it is about somebody else");
        assert_eq!(next(&mut state, &waiting, now + AGAIN_AFTER), Ok("A".into()));
        state.hold_back(&message, 429, now);
        assert_eq!(next(&mut state, &waiting, now), Err(Some(2 * AGAIN_AFTER)), "the channel asks too much");
    }

    #[test]
    fn what_is_refused_for_now_goes_out_again_soon_and_then_more_rarely() {
        let seconds = [0, 1, 2, 5, 6, u32::MAX].map(|refusals| again_after(refusals).as_secs_f64());
        assert_eq!(seconds, [0.5, 1.0, 2.0, 16.0, 32.0, 64.0]);
    }
}
