//! What goes out: messages, one after the other in the order in which they were taken, and what the network says of them. The next
//! one of a chat waits for the answer to the one before it, which goes out again soon where the network refused it for now;
//! messages of other chats go out meanwhile.

mod message;
mod names;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::address::Address;
use model::id::MessageId;
use model::message::Content;
use model::time::Timestamp;
use network::driver::{EndReason, Outbound, SessionError, SessionEvent};
use network::operation::{Refused, RefusedKind};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use wacore::iq::keepalive::KeepaliveSpec;
use wacore::types::events::ServerAck;
use wacore_binary::{Jid, JidExt};
use whatsapp_rust::cache::Freshness;
use whatsapp_rust::{Client, ErrorChainExt, SendOptions};

use self::names::Names;
use crate::inbound::message::time;
use crate::line::Line;
use crate::state::backend::Backend;
use crate::state::backend::polls::Author;
use crate::telemetry;

/// Messages that may wait to be written, and beside them those that wait behind another one of their chat.
const MOST_WAITING: usize = 1_024;

/// How long one message may take until it is written, whatever it waits for. For somebody new that is the end of what came
/// while the channel was away, for which the library waits 60 s.
const WRITTEN_WITHIN: Duration = Duration::from_secs(90);

/// How long a message is tried again that could not be written, and how soon. Those behind it wait: it must not be overtaken.
const TRIED_FOR: Duration = Duration::from_secs(10);
const TRIED_EVERY: Duration = Duration::from_millis(250);

/// How soon the network answers where it is not the reason why a message cannot be written.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

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

/// The network's code for a message to other members than a group has: the outbox sends it again, to those.
const OTHER_MEMBERS: &str = "421";

/// What the network says to a device that writes or asks too much, whoever it writes to.
const TOO_MANY: u16 = 429;
/// Stands for its silence.
const NO_ANSWER: u16 = 408;

pub struct Outgoing {
    line: Arc<Line>,
    // Boxed: the queue of each session has room for 32 of them from the start.
    waiting: mpsc::Sender<Box<Outbound>>,
    state: Mutex<State>,
    names: Names,
    /// The session has logged in: messages may go out.
    open: Notify,
    /// The network has said something of a message.
    heard: Notify,
}

#[derive(Default)]
struct State {
    queued: HashSet<MessageId>,
    written: HashMap<MessageId, Written>,
    order: VecDeque<MessageId>,
    /// The last message written to a chat, while the network has not settled it.
    last: HashMap<Address, Unsettled>,
    /// Groups of whose messages the network has some, and up to where their key was told by those.
    told: HashMap<String, u64>,
    /// Groups whose members are others than was thought: they are asked for again before the next message.
    stale: HashSet<Jid>,
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
    /// A message has left, which may have taken long: the network's word on it is waited for from here on.
    fn wait_from_now(&mut self, id: &MessageId) {
        if let Some(last) = self.last.values_mut().find(|last| last.message.id == *id && !last.is_refused) {
            last.until = Instant::now() + HEARD_WITHIN;
        }
    }

    /// Notes up to where keys of groups were told when a message had left. The network's word on it may be here already.
    fn has_told(&mut self, id: &MessageId, told: u64) {
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
    fn next(&mut self, held: &VecDeque<Held>, now: Instant) -> Next {
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
                // It waits behind another one of its chat.
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
    fn refuse_for_now(&mut self, id: &MessageId, is_too_many: bool, now: Instant) {
        let Some(last) = self.last.values_mut().find(|last| last.message.id == *id) else { return };
        let until = now + again_after(last.refusals);
        (last.refusals, last.is_refused, last.until) = (last.refusals + 1, true, until);
        if is_too_many {
            self.quiet_until = self.quiet_until.max(Some(until));
        }
    }

    /// The network does not answer for now what is asked before a message can leave: that is as if it had refused the message so.
    fn hold_back(&mut self, message: &Outbound, code: u16, now: Instant) {
        if self.last.get(&message.to).is_none_or(|last| last.message.id != message.id) {
            let last = Unsettled { message: message.clone(), refusals: 0, is_refused: false, until: now };
            self.last.insert(message.to.clone(), last);
        }
        self.refuse_for_now(&message.id, code == TOO_MANY, now);
    }

    /// Those behind a message need not wait for it any more.
    fn settle(&mut self, id: &MessageId) {
        self.last.retain(|_, last| last.message.id != *id);
    }
}

impl Outgoing {
    pub fn new(line: Arc<Line>) -> (Arc<Self>, mpsc::Receiver<Box<Outbound>>) {
        let (waiting, messages) = mpsc::channel(MOST_WAITING);
        let (state, names) = (Mutex::default(), Names::default());
        (Arc::new(Self { line, waiting, state, names, open: Notify::new(), heard: Notify::new() }), messages)
    }

    /// Takes a message. One that waits already waits once.
    ///
    /// # Errors
    /// The session may not write, or cannot for long.
    pub async fn take(&self, message: Outbound) -> Result<(), SessionError> {
        if !self.state.lock().queued.insert(message.id.clone()) {
            return Ok(());
        }
        let id = message.id.clone();
        let taken = self.waiting.send(Box::new(message)).await;
        taken.map_err(|_| {
            self.state.lock().queued.remove(&id);
            SessionError::Ended
        })
    }

    pub fn open(&self) {
        self.open.notify_one();
    }

    /// Writes what is taken, while the session lives. Where one message cannot be written and the network may be why, the session
    /// ends: the outbox gives everything to the next one, in order.
    pub async fn write(&self, client: &Arc<Client>, backend: &Backend, mut messages: mpsc::Receiver<Box<Outbound>>) {
        self.open.notified().await;
        let mut held = VecDeque::new();
        loop {
            self.confirm_keys(backend);
            let next = self.state.lock().next(&held, Instant::now());
            let goes_on = match next {
                Next::Again(message) => self.write_now(client, backend, &message).await,
                Next::Held(place) => {
                    let Some(Held { message, .. }) = held.remove(place) else { continue };
                    let goes_on = self.write_now(client, backend, &message).await;
                    self.state.lock().queued.remove(&message.id);
                    goes_on
                }
                Next::Nothing(due) => {
                    tokio::select! {
                        message = messages.recv(), if held.len() < MOST_WAITING => {
                            let Some(message) = message else { return };
                            held.push_back(Held { message, until: Instant::now() + HELD_FOR });
                        }
                        () = self.heard.notified() => {}
                        () = reached(due) => {}
                    }
                    true
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Writes a message, unless the network has told meanwhile that it has it. False where the session has ended over it.
    async fn write_now(&self, client: &Client, backend: &Backend, message: &Outbound) -> bool {
        self.confirm_keys(backend);
        let id = &message.id;
        if self.knows(id) {
            return true;
        }
        let written = Box::pin(self.write_in_turn(client, backend, message));
        match tokio::time::timeout(WRITTEN_WITHIN, written).await {
            Ok(Ok(())) => return true,
            Ok(Err(Unsent::Refused(refused))) => {
                self.state.lock().settle(id);
                self.line.report(SessionEvent::Refused { id: id.clone(), refused: Box::new(refused) });
                return true;
            }
            Ok(Err(Unsent::ForNow(code))) => {
                self.state.lock().hold_back(message, code, Instant::now());
                return true;
            }
            Ok(Err(Unsent::Passing(why) | Unsent::Unclear(why))) => self.give_up(id, &why),
            Err(_) => self.give_up(id, "it took too long"),
        }
        false
    }

    /// Whom messages told the keys of their groups has them once the network has these. One that is refused or lost told nobody.
    fn confirm_keys(&self, backend: &Backend) {
        let told = std::mem::take(&mut self.state.lock().told);
        for (group, until) in told {
            if let Err(error) = backend.confirm_sender_keys(&group, until) {
                tracing::debug!(%error, "it could not be noted who has a group's key");
            }
        }
    }

    fn give_up(&self, id: &MessageId, why: &str) {
        tracing::debug!(%id, why, "a message could not be written, and the session ends");
        self.line.cut(EndReason::Transport(format!("a message could not be written: {why}")));
    }

    /// Writes a message; what keeps it from that is waited out, for a while.
    async fn write_in_turn(&self, client: &Client, backend: &Backend, outbound: &Outbound) -> Result<(), Unsent> {
        let began = Instant::now();
        loop {
            let unsent = match self.write_one(client, backend, outbound.clone()).await {
                Err(unsent @ (Unsent::Passing(_) | Unsent::Unclear(_))) => unsent,
                written => return written,
            };
            if began.elapsed() < TRIED_FOR {
                tokio::time::sleep(TRIED_EVERY).await;
                continue;
            }
            return Err(if answers(client).await { unsent.of_this_message(&outbound.id) } else { unsent });
        }
    }

    async fn write_one(&self, client: &Client, backend: &Backend, outbound: Outbound) -> Result<(), Unsent> {
        let unsettled = outbound.clone();
        let Outbound { id, to, content, around } = outbound;
        let secret = backend.own_secret(id.as_str()).ok_or_else(|| Unsent::Passing("it is not logged in".into()))?;
        let to: Jid = to.as_str().parse().map_err(|_| Unsent::recipient("this is no address of the network"))?;
        let message = message::build(&to, &content, &around, secret).map_err(Unsent::unsupported)?;
        if let Content::Poll { options, .. } = &content {
            backend
                .keep_poll(id.as_str(), Author::Own, options, None)
                .map_err(|error| Unsent::Passing(error.to_string()))?;
        }
        let recipients = if to.is_group() {
            Some(self.members(client, &to).await?)
        } else if to.is_pn() || to.is_lid() {
            self.check_reach(client, &to).await?;
            None
        } else {
            return Err(Unsent::unsupported(format!("messages.{}.elsewhere", content.type_name())));
        };
        if self.knows(&id) {
            // What went out before it was given again.
            return Ok(());
        }
        self.note_written(unsettled, Written { to: to.clone(), recipients, told: 0, is_accepted: false });
        let options = SendOptions::default().with_message_id(id.as_str());
        let options = match around.ephemeral_expiration {
            Some(seconds) => options.with_ephemeral_expiration(seconds),
            None => options,
        };
        let group = to.is_group().then(|| to.to_string());
        let again = group.filter(|group| backend.may_have_left(group, id.as_str()));
        client.send_message_with_options(to, message, options).await.map_err(Unsent::of)?;
        if let Some(group) = again {
            backend.doubt_sender_keys(&group);
        }
        let mut state = self.state.lock();
        state.wait_from_now(&id);
        state.has_told(&id, backend.told_so_far());
        Ok(())
    }

    /// The library would encrypt a message that no device of its recipient can read for the channel's own devices, and call
    /// that a success. For a known peer this asks nobody.
    async fn check_reach(&self, client: &Client, to: &Jid) -> Result<(), Unsent> {
        let signal = client.signal();
        let mut devices = signal.get_user_devices(std::slice::from_ref(to)).await.map_err(Unsent::of)?;
        // What the channel writes to its own number is for the account's other devices: it has no session with itself.
        let own = [client.pn(), client.lid()];
        let is_itself =
            |device: &Jid| own.iter().flatten().any(|own| own.user == device.user && own.device == device.device);
        devices.retain(|device| !is_itself(device));
        if devices.is_empty() {
            let known = client.contacts().is_on_whatsapp(std::slice::from_ref(to)).await.map_err(Unsent::of)?;
            return Err(if known.iter().any(|known| known.is_registered) {
                Unsent::Unclear("the recipient has no device now".into())
            } else {
                Unsent::recipient("the recipient is not registered")
            });
        }
        self.names.learn(client, std::slice::from_ref(to)).await?;
        signal.assert_sessions(&devices).await.map_err(Unsent::of)?;
        for device in &devices {
            if signal.session_info(device).await.map_err(Unsent::of)?.is_some() {
                return Ok(());
            }
        }
        Err(Unsent::Unclear("there is a session with no device of the recipient".into()))
    }

    /// How many members a group has beside the channel. Of one that was written to before this asks nobody.
    async fn members(&self, client: &Client, group: &Jid) -> Result<u32, Unsent> {
        // Somebody may have come or gone while the channel was away.
        caught_up(client).await?;
        let is_stale = self.state.lock().stale.contains(group);
        let freshness = if is_stale { Freshness::Refresh } else { Freshness::CachePreferred };
        let known = client.groups().query_info_with_freshness(group, freshness).await.map_err(|error| {
            match error.server_rejection() {
                // It does not exist, or the channel is not in it.
                Some(rejection) if matches!(rejection.code, 401 | 403 | 404 | 406) => {
                    let text = rejection.text;
                    Unsent::Refused(Refused::new(rejection.code, text).of(RefusedKind::Recipient))
                }
                _ => Unsent::of(error),
            }
        })?;
        if is_stale {
            self.state.lock().stale.remove(group);
        }
        self.names.learn(client, &known.participants).await?;
        let own = [client.pn(), client.lid()];
        let is_own = |member: &Jid| own.iter().flatten().any(|own| own.user == member.user);
        let others = known.participants.iter().filter(|member| !is_own(member)).count();
        Ok(u32::try_from(others).unwrap_or(u32::MAX))
    }

    fn note_written(&self, message: Outbound, written: Written) {
        let mut state = self.state.lock();
        let id = message.id.clone();
        let refusals = state.last.get(&message.to).filter(|last| last.message.id == id).map_or(0, |last| last.refusals);
        let until = Instant::now() + HEARD_WITHIN;
        // What is written again waits anew for its answer, and remembers how often it was refused.
        state.last.insert(message.to.clone(), Unsettled { message, refusals, is_refused: false, until });
        if state.written.insert(id.clone(), written).is_none() {
            state.order.push_back(id);
        }
        while state.order.len() > MOST_WRITTEN {
            if let Some(oldest) = state.order.pop_front() {
                state.written.remove(&oldest);
                state.settle(&oldest);
            }
        }
    }

    /// The network has a message. A receipt says so, too, and may come first: what is told of a message that is not known to be out
    /// would be taken for nothing.
    pub fn accepted(&self, id: &MessageId, at: Timestamp) {
        let recipients = {
            let mut state = self.state.lock();
            let Some(written) = state.written.get_mut(id).filter(|written| !written.is_accepted) else { return };
            written.is_accepted = true;
            let recipients = written.recipients;
            state.has_taken(id);
            state.settle(id);
            recipients
        };
        self.heard.notify_one();
        self.line.report(SessionEvent::Accepted { id: id.clone(), at, recipients });
        self.line.inbox().accepted(id);
    }

    /// Whether this session has told that a message is accepted.
    pub fn knows(&self, id: &MessageId) -> bool {
        self.state.lock().written.get(id).is_some_and(|written| written.is_accepted)
    }

    /// What the network says of a stanza.
    pub fn acknowledged(&self, ack: &ServerAck) {
        let id = MessageId(ack.id.clone());
        let Some(code) = ack.error.as_deref() else {
            return self.accepted(&id, ack.timestamp.map_or_else(Timestamp::now, time));
        };
        let refused = refusal(code);
        {
            let mut state = self.state.lock();
            let Some(group) = state.written.get(&id).map(|written| written.to.clone()) else { return };
            if code == OTHER_MEMBERS {
                state.stale.insert(group);
            }
            if refused.is_some() {
                state.settle(&id);
            } else {
                state.refuse_for_now(&id, code == TOO_MANY.to_string(), Instant::now());
            }
        }
        self.heard.notify_one();
        telemetry::refused(code);
        if let Some(refused) = refused {
            self.line.report(SessionEvent::Refused { id, refused: Box::new(refused) });
        }
    }
}

/// Waits for the end of what came while the channel was away, before which ratchets are not stored at each message. The library does
/// so before it makes sure of a session, and that with the channel's own phone is there.
async fn caught_up(client: &Client) -> Result<(), Unsent> {
    let phone: Vec<Jid> = [client.pn(), client.lid()].iter().flatten().take(1).map(Jid::to_non_ad).collect();
    client.signal().assert_sessions(&phone).await.map_err(Unsent::of)
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
struct Held {
    message: Box<Outbound>,
    /// How long it waits for the one before it in its chat.
    until: Instant,
}

/// What is written next.
enum Next {
    /// What was refused for now.
    Again(Box<Outbound>),
    /// The one at this place of those that are held.
    Held(usize),
    /// Nothing before then, unless something is heard or taken.
    Nothing(Option<Instant>),
}

async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// How soon a message goes out again that was refused for now so many times before.
fn again_after(refusals: u32) -> Duration {
    AGAIN_AFTER.saturating_mul(1 << refusals.min(16)).min(AGAIN_AT_MOST)
}

/// What a code of the network means for a message; `None` when it is to be tried again.
fn refusal(code: &str) -> Option<Refused> {
    let number = code.parse().unwrap_or(0);
    let (text, kind) = match number {
        // The group's members have changed, which concerns groups; and what passes.
        421 | 429 | 500 | 503 => return None,
        404 | 406 => ("the recipient is not known", RefusedKind::Recipient),
        463 => ("reachout_timelock", RefusedKind::Other),
        475 => ("new_chats_capped", RefusedKind::Other),
        _ => ("the network refuses the message", RefusedKind::Other),
    };
    Some(Refused::new(number, text).of(kind))
}

/// Whether the network answers.
async fn answers(client: &Client) -> bool {
    client.execute(KeepaliveSpec::with_timeout(ANSWERED_WITHIN)).await.is_ok()
}

/// Why a message was not written.
enum Unsent {
    /// For good.
    Refused(Refused),
    /// What was asked before it, for now, by this code of the network's.
    ForNow(u16),
    /// By the connection.
    Passing(String),
    /// By one of these, or by what the message itself meets.
    Unclear(String),
}

impl Unsent {
    fn of(error: impl std::error::Error + 'static) -> Self {
        match error.server_rejection().map(|rejection| rejection.code) {
            Some(code) if code == TOO_MANY || code >= 500 => Self::ForNow(code),
            _ if error.is_timeout() || error.is_transport_unavailable() => Self::Passing(error.to_string()),
            _ => Self::Unclear(error.to_string()),
        }
    }

    /// What has kept a message from being written for long, while the network answers: one that cannot be written must not keep a
    /// channel from all others for ever.
    fn of_this_message(self, id: &MessageId) -> Self {
        match self {
            Self::Unclear(why) => {
                tracing::warn!(%id, why, "a message cannot be written, and is refused");
                Self::recipient("no device of the recipient can be written to")
            }
            // What is asked for it has no answer, as others have.
            Self::Passing(_) => Self::ForNow(NO_ANSWER),
            unsent => unsent,
        }
    }

    fn unsupported(feature: String) -> Self {
        Self::Refused(Refused::new(0, feature).of(RefusedKind::Unsupported))
    }

    fn recipient(text: &str) -> Self {
        Self::Refused(Refused::new(404, text).of(RefusedKind::Recipient))
    }
}

/// How a content is named where it is not supported.
fn feature(content: &Content) -> String {
    format!("messages.{}", content.type_name())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::message::Surroundings;
    use whatsapp_rust::IqError;

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
        let message = Box::new(Outbound { id: MessageId(id.into()), to, content, around });
        Held { message, until: now + HELD_FOR }
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
        // It goes out again by itself no more, but before those of its chat.
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
    fn a_message_before_which_something_is_not_answered_for_now_keeps_its_place_and_the_session() {
        let error =
            |code| IqError::ServerError { code, text: "rate-overlimit".into(), error_type: None, backoff: None };
        assert!(matches!(Unsent::of(error(429)), Unsent::ForNow(429)));
        assert!(matches!(Unsent::of(error(503)), Unsent::ForNow(503)));
        assert!(matches!(Unsent::of(error(400)), Unsent::Unclear(_)));
        let silent = Unsent::of(IqError::Timeout);
        assert!(matches!(&silent, Unsent::Passing(_)), "nobody knows yet whether others are answered");
        assert!(matches!(silent.of_this_message(&MessageId("A".into())), Unsent::ForNow(_)));
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

    #[test]
    fn a_refusal_says_whether_the_recipient_is_to_blame_and_what_passes_is_none() {
        let kind = |code| refusal(code).map(|refused| refused.kind);
        for passes in ["421", "429", "500", "503"] {
            assert_eq!(kind(passes), None);
        }
        assert_eq!((kind("404"), kind("406")), (Some(RefusedKind::Recipient), Some(RefusedKind::Recipient)));
        for ours in ["400", "463", "475", "479", "487", "495", "never"] {
            assert_eq!(kind(ours), Some(RefusedKind::Other), "{ours}");
        }
    }
}
