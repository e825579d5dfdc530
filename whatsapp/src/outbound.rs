//! Sends messages, one after the other in the order in which they were queued, and handles the network's answers. The
//! next message of a chat waits for the answer to the one before it, which is sent again soon if the network refused it
//! temporarily; messages of other chats go out meanwhile.

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

/// Messages that may wait to be sent, and as many that may be held behind another message of their chat.
const MOST_WAITING: usize = 1_024;

/// How long sending one message may take, whatever it waits for. A message to somebody new waits for the end of the
/// offline messages, for which the library allows 60 s.
const WRITTEN_WITHIN: Duration = Duration::from_secs(90);

/// How long, and how often, sending a message is retried. Later messages wait, since they must not overtake it.
const TRIED_FOR: Duration = Duration::from_secs(10);
const TRIED_EVERY: Duration = Duration::from_millis(250);

/// How long the network may take to answer when the driver checks whether the network is why a message cannot be sent.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// The network's code for an outdated list of a group's members: the outbox sends the message again, to the current
/// ones.
const OTHER_MEMBERS: &str = "421";

/// The network's code for a device that sends or asks too much, regardless of the recipient.
const TOO_MANY: u16 = 429;
/// Code that stands for a request without an answer.
const NO_ANSWER: u16 = 408;

pub struct Outgoing {
    line: Arc<Line>,
    // Boxed, since the queue of each session allocates room for 32 of them up front.
    waiting: mpsc::Sender<Box<Outbound>>,
    state: Mutex<State>,
    names: Names,
    /// Notified after the login, when messages may be sent.
    open: Notify,
    /// Notified when the network has answered a message.
    heard: Notify,
}

impl Outgoing {
    pub fn new(line: Arc<Line>) -> (Arc<Self>, mpsc::Receiver<Box<Outbound>>) {
        let (waiting, messages) = mpsc::channel(MOST_WAITING);
        let (state, names) = (Mutex::default(), Names::default());
        (Arc::new(Self { line, waiting, state, names, open: Notify::new(), heard: Notify::new() }), messages)
    }

    /// Queues a message. A message that is queued already is not queued twice.
    ///
    /// # Errors
    /// The session may not send any more.
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

    /// Sends queued messages while the session lives. If a message cannot be sent and the network may be the reason,
    /// the session ends; the outbox then gives all messages to the next session, in order.
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

    /// Sends a message, unless the network has confirmed it meanwhile. `false` when this has ended the session.
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

    /// Marks devices as having a group's key once the network has the message that carried the key. A message that is
    /// refused or lost carried it to nobody.
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

    /// Sends a message, and retries for a while what may be temporary.
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
            // An earlier copy of the message has been accepted.
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

    /// Checks that a device of the recipient can read the message. Otherwise the library would encrypt it for the
    /// channel's own devices only, and report success. For a known peer this sends no request.
    async fn check_reach(&self, client: &Client, to: &Jid) -> Result<(), Unsent> {
        let signal = client.signal();
        let mut devices = signal.get_user_devices(std::slice::from_ref(to)).await.map_err(Unsent::of)?;
        // A message to the own number is for the account's other devices; the channel has no session with itself.
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

    /// The number of a group's members besides the channel. For a group written to before, this sends no request.
    async fn members(&self, client: &Client, group: &Jid) -> Result<u32, Unsent> {
        // Members may have come or gone while the channel was offline.
        caught_up(client).await?;
        let is_stale = self.state.lock().stale.contains(group);
        let freshness = if is_stale { Freshness::Refresh } else { Freshness::CachePreferred };
        let known = client.groups().query_info_with_freshness(group, freshness).await.map_err(|error| {
            match error.server_rejection() {
                // The group does not exist, or the channel is not a member.
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

    /// Marks a group's members as possibly changed, without a notice: the next message queries them first.
    pub fn doubt_members(&self, group: Jid) {
        self.state.lock().stale.insert(group);
    }

    /// Handles the network's acceptance of a message. A receipt implies it, too, and may come first; it must not be
    /// reported before the acceptance, or the owner would drop it as a receipt of an unsent message.
    pub fn accepted(&self, id: &MessageId, at: Timestamp) {
        let Some(recipients) = self.state.lock().accept(id) else { return };
        self.heard.notify_one();
        self.line.report(SessionEvent::Accepted { id: id.clone(), at, recipients });
        self.line.inbox().accepted(id);
    }

    /// Whether this session has reported the message as accepted.
    pub fn knows(&self, id: &MessageId) -> bool {
        self.state.lock().has_accepted(id)
    }

    /// Handles the network's answer to a message.
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

/// Waits for the end of the offline messages, before which ratchets are not stored with each message. The library waits
/// for it before it ensures a session, and the session with the channel's own phone exists already.
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

/// The refusal that a code of the network means; `None` when the message has to be sent again.
fn refusal(code: &str) -> Option<Refused> {
    let number = code.parse().unwrap_or(0);
    let (text, kind) = match number {
        // The group's members have changed, which only happens in groups; the others are temporary.
        421 | 429 | 500 | 503 => return None,
        404 | 406 => ("the recipient is not known", RefusedKind::Recipient),
        463 => ("reachout_timelock", RefusedKind::Other),
        475 => ("new_chats_capped", RefusedKind::Other),
        _ => ("the network refuses the message", RefusedKind::Other),
    };
    Some(Refused::new(number, text).of(kind))
}

/// Whether the network answers a ping.
async fn answers(client: &Client) -> bool {
    client.execute(KeepaliveSpec::with_timeout(ANSWERED_WITHIN)).await.is_ok()
}

/// Why a message was not sent.
enum Unsent {
    /// The network refuses the message for good.
    Refused(Refused),
    /// The network has refused a request that precedes the message, temporarily, with this code.
    ForNow(u16),
    /// The connection failed.
    Passing(String),
    /// Unknown: the network, the connection or the message itself may be the reason.
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

    /// The reason after retries failed while the network answers. A message that cannot be sent must not block all
    /// others of the channel forever.
    fn of_this_message(self, id: &MessageId) -> Self {
        match self {
            Self::Unclear(why) => {
                tracing::warn!(%id, why, "a message cannot be written, and is refused");
                Self::recipient("no device of the recipient can be written to")
            }
            // Requests for this message get no answer, while others do.
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

/// The name of an unsupported content in the error.
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
