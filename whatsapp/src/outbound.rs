//! What goes out: messages, one after the other in the order in which they were taken, and what the network says of them. The next
//! one of a chat waits for the answer to the one before it, which goes out again soon where the network refused it for now;
//! messages of other chats go out meanwhile.

mod message;
mod names;
mod queue;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
use self::queue::{Held, Next, State};
use crate::failpoint::{Point, reach};
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
                            held.push_back(Held::new(message, Instant::now()));
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
        self.state.lock().note_written(unsettled, to.clone(), recipients);
        let options = SendOptions::default().with_message_id(id.as_str());
        let options = match around.ephemeral_expiration {
            Some(seconds) => options.with_ephemeral_expiration(seconds),
            None => options,
        };
        let group = to.is_group().then(|| to.to_string());
        let again = group.filter(|group| backend.may_have_left(group, id.as_str()));
        client.send_message_with_options(to, message, options).await.map_err(Unsent::of)?;
        if !self.knows(&id) {
            reach(Point::MessageWritten);
        }
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
                // The group does not exist, or the channel is not in it.
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

    /// Others may be in a group than were, and nobody has said who: they are asked for again before the next message.
    pub fn doubt_members(&self, group: Jid) {
        self.state.lock().stale.insert(group);
    }

    /// The network has a message. A receipt says so, too, and may come first: what is told of a message that is not known to be out
    /// would be taken for nothing.
    pub fn accepted(&self, id: &MessageId, at: Timestamp) {
        let Some(recipients) = self.state.lock().accept(id) else { return };
        self.heard.notify_one();
        self.line.report(SessionEvent::Accepted { id: id.clone(), at, recipients });
        self.line.inbox().accepted(id);
    }

    /// Whether this session has told that a message is accepted.
    pub fn knows(&self, id: &MessageId) -> bool {
        self.state.lock().has_accepted(id)
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
            let Some(group) = state.chat_of(&id) else { return };
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

async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
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
    use whatsapp_rust::IqError;

    use super::*;

    #[test]
    fn what_is_asked_before_a_message_and_not_answered_for_now_ends_no_session() {
        let error =
            |code| IqError::ServerError { code, text: "rate-overlimit".into(), error_type: None, backoff: None };
        assert!(matches!(Unsent::of(error(429)), Unsent::ForNow(429)));
        assert!(matches!(Unsent::of(error(503)), Unsent::ForNow(503)));
        assert!(matches!(Unsent::of(error(400)), Unsent::Unclear(_)));
        let silent = Unsent::of(IqError::Timeout);
        assert!(matches!(&silent, Unsent::Passing(_)), "nobody knows yet whether others are answered");
        assert!(matches!(silent.of_this_message(&MessageId("A".into())), Unsent::ForNow(_)));
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
