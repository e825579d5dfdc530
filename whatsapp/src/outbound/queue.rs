//! What goes out next: messages that were taken and those that are out, what each waits for, and what the network has said of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use model::address::Address;
use model::id::MessageId;
use network::driver::Outbound;
use wacore_binary::Jid;

use super::TOO_MANY;

/// How long the next message of a chat waits for the network's word on the one before it. A network that says nothing for longer
/// has lost one of them, and the outbox sends it again.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// How soon a message goes out again that the network refused for now; twice as late each time, up to so much.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const AGAIN_AT_MOST: Duration = Duration::from_secs(64);

/// How often it does so by itself. After that it goes out when the outbox gives it again, or before others of its chat.
const MOST_AGAIN: u32 = 6;

/// How long those behind it in its chat wait for it. After that they are tried, too: one message must not keep a chat from all
/// others for ever.
const HELD_FOR: Duration = Duration::from_secs(600);

/// Written messages whose acceptance is looked for. The outbox of a channel holds fewer.
const MOST_WRITTEN: usize = 4_096;

#[derive(Default)]
pub struct State {
    /// Taken and not written.
    pub queued: HashSet<MessageId>,
    written: HashMap<MessageId, Written>,
    order: VecDeque<MessageId>,
    /// The last message written to a chat, while the network has not settled it.
    last: HashMap<Address, Unsettled>,
    /// Groups of whose messages the network has some, and up to where their key was told by those.
    pub told: HashMap<String, u64>,
    /// Groups whose members are others than was thought: they are asked for again before the next message.
    pub stale: HashSet<Jid>,
    /// Until when nothing is written, as the network has said that the channel writes too much.
    quiet_until: Option<Instant>,
}

struct Written {
    to: Jid,
    /// How many members of a group will tell that they have it.
    recipients: Option<u32>,
    /// Up to where keys of groups were told when it had left.
    told: u64,
    is_accepted: bool,
}

/// A message that those behind it in its chat wait for.
struct Unsettled {
    message: Outbound,
    /// How often it was refused for now, and whether the last time, too.
    refusals: u32,
    is_refused: bool,
    /// When it goes out again, if it was refused; else until when it is waited for.
    until: Instant,
}

impl State {
    /// A message is on its way out, for the first time or once more.
    pub fn note_written(&mut self, message: Outbound, to: Jid, recipients: Option<u32>) {
        let id = message.id.clone();
        let refusals = self.last.get(&message.to).filter(|last| last.message.id == id).map_or(0, |last| last.refusals);
        let until = Instant::now() + HEARD_WITHIN;
        // What is written again waits anew for its answer, and remembers how often it was refused.
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

    /// The network has a message, of which it had not said so: how many members of its group will tell that they have it.
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

    /// Where a message went.
    pub fn chat_of(&self, id: &MessageId) -> Option<Jid> {
        self.written.get(id).map(|written| written.to.clone())
    }

    /// A message has left, which may have taken long: the network's word on it is waited for from here on.
    pub fn wait_from_now(&mut self, id: &MessageId) {
        if let Some(last) = self.last.values_mut().find(|last| last.message.id == *id && !last.is_refused) {
            last.until = Instant::now() + HEARD_WITHIN;
        }
    }

    /// Notes up to where keys of groups were told when a message had left. The network's word on it may be here already.
    pub fn has_told(&mut self, id: &MessageId, told: u64) {
        let Some(written) = self.written.get_mut(id) else { return };
        written.told = told;
        if written.is_accepted {
            self.has_taken(id);
        }
    }

    /// The network has a message: where it is to a group, whom it told the group's key has that.
    fn has_taken(&mut self, id: &MessageId) {
        let Some(written) = self.written.get(id).filter(|written| written.recipients.is_some()) else { return };
        let until = self.told.entry(written.to.to_string()).or_default();
        *until = (*until).max(written.told);
    }

    /// What is written next of those that were refused for now, and of those that are held, in their order.
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
                // What a channel sends goes out in its order, as far as the network takes it.
                break;
            }
        }
        Next::Nothing(due)
    }

    /// What a message has to wait for.
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

    /// The network has refused a message for now: it goes out again, the later the more often that was.
    pub fn refuse_for_now(&mut self, id: &MessageId, is_too_many: bool, now: Instant) {
        let Some(last) = self.last.values_mut().find(|last| last.message.id == *id) else { return };
        let until = now + again_after(last.refusals);
        (last.refusals, last.is_refused, last.until) = (last.refusals + 1, true, until);
        if is_too_many {
            self.quiet_until = self.quiet_until.max(Some(until));
        }
    }

    /// The network does not answer for now what is asked before a message can leave: that is as if it had refused the message so.
    pub fn hold_back(&mut self, message: &Outbound, code: u16, now: Instant) {
        if self.last.get(&message.to).is_none_or(|last| last.message.id != message.id) {
            let last = Unsettled { message: message.clone(), refusals: 0, is_refused: false, until: now };
            self.last.insert(message.to.clone(), last);
        }
        self.refuse_for_now(&message.id, code == TOO_MANY, now);
    }

    /// Those behind a message need not wait for it any more.
    pub fn settle(&mut self, id: &MessageId) {
        self.last.retain(|_, last| last.message.id != *id);
    }
}

/// What a message has to wait for that is to be written to a chat.
enum Before {
    Nothing,
    /// The network's word on the one before it, until then.
    Word(Instant),
    /// The one before it, which was refused for now and goes out again then.
    Refused(Instant),
    /// This one, which goes out again first.
    Again(Box<Outbound>),
}

/// A message that was taken and is not written.
pub struct Held {
    pub message: Box<Outbound>,
    /// How long it waits for the one before it in its chat.
    until: Instant,
}

impl Held {
    pub fn new(message: Box<Outbound>, now: Instant) -> Self {
        Self { message, until: now + HELD_FOR }
    }
}

/// What is written next.
pub enum Next {
    /// What was refused for now.
    Again(Box<Outbound>),
    /// The one at this place of those that are held.
    Held(usize),
    /// Nothing before then, unless something is heard or taken.
    Nothing(Option<Instant>),
}

/// How soon a message goes out again that was refused for now so many times before.
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
        // A message that was refused too often no longer goes out again by itself, but still before others of its chat.
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
