//! One channel at its owner, with its session: a short version of the real channel task, with the real outbox.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::address::Suffixes;
use model::event::{EventId, EventName};
use model::format::Format;
use model::id::{ChannelId, DeliveryId, EndpointId, MessageId, RowId};
use model::message::{Content, Surroundings};
use model::status::{Reason, Status};
use raft::rt;
use raft::simulation::clock;
use shard::command::{Command, Move, NewDelivery, NewEvent, NewMessage, Reply, Verdict};
use shard::history::{Direction, Source};
use shard::records::MessageRow;
use shard::simulation::{self, AccountBytes, LeadershipLost, Outbox};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::bug::Bug;
use super::messaging::SessionId;
use super::owner::Owner;
use super::scene::Scene;

/// Capacity of a channel's mailbox.
pub const MAILBOX: usize = 64;

/// The most messages, and the most session events, that one batch takes.
const TURN: usize = 64;

/// How often a channel checks its session and its outbox when nothing arrives.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// One-way latency between a channel and the network: well within the fence's margin, and never reordering.
const WIRE: Duration = Duration::from_millis(2);

/// Interval at which a session polls the network for items.
const ITEMS_EVERY: Duration = Duration::from_millis(100);

/// How many of a thousand acceptances by the network are lost on the way back while faults go on.
const ACCEPTANCES_LOST: u32 = 10;

/// The only endpoint. It receives the events of every other channel ([`hears_of`]).
const ENDPOINT: EndpointId = EndpointId(Uuid::from_u128(3));

/// Whether the endpoint receives a channel's events. Sends of the others are settled by the short command.
fn hears_of(channel: ChannelId) -> bool {
    channel.as_bytes()[0].is_multiple_of(2)
}

/// A message to a channel's task.
pub enum ToChannel {
    /// A send, with the reply channel of the caller that waits for its commit.
    Send(MessageId, oneshot::Sender<()>),
    /// Close the session; the reply is sent once the network knows of it.
    Close(oneshot::Sender<()>),
}

/// An event that a session reports.
enum Event {
    LoggedIn,
    Accepted(MessageId),
    Inbound(MessageId),
    Ended,
}

struct Session {
    id: SessionId,
    logged_in: bool,
}

struct Channel {
    owner: Arc<Owner>,
    id: ChannelId,
    outbox: Outbox,
    session: Option<Session>,
    events: mpsc::UnboundedSender<(SessionId, Event)>,
}

/// Runs until the owner loses its leadership.
pub async fn run(owner: Arc<Owner>, id: ChannelId, mailbox: mpsc::Receiver<ToChannel>) {
    let (events, reported) = mpsc::unbounded_channel();
    let lost = owner.lost.clone();
    let mut channel = Channel { owner, id, outbox: Outbox::default(), session: None, events };
    if let Some(Err(LeadershipLost)) = lost.run_until_cancelled(channel.live(mailbox, reported)).await {
        lost.cancel();
    }
    channel.end_session();
}

impl Channel {
    async fn live(
        &mut self,
        mut mailbox: mpsc::Receiver<ToChannel>,
        mut reported: mpsc::UnboundedReceiver<(SessionId, Event)>,
    ) -> Result<(), LeadershipLost> {
        self.load_outbox()?;
        let (mut work, mut events) = (Vec::new(), Vec::new());
        loop {
            self.keep_session();
            tokio::select! {
                biased;
                _ = mailbox.recv_many(&mut work, TURN) => {}
                _ = reported.recv_many(&mut events, TURN) => {}
                () = clock::sleep(LOOK_AGAIN) => {}
            }
            self.take_events(&mut events).await?;
            self.take_work(&mut work).await?;
            self.write_outbox();
        }
    }

    fn scene(&self) -> &Arc<Scene> {
        &self.owner.scene
    }

    /// Loads all stored pending messages into the outbox. An earlier owner may have written them to the network.
    fn load_outbox(&mut self) -> Result<(), LeadershipLost> {
        let stored = self.owner.group.view(|view| simulation::outbox(view, self.id)).ok_or(LeadershipLost)?;
        self.outbox = Outbox::default();
        stored.into_iter().for_each(|row| self.push(row, true));
        Ok(())
    }

    fn push(&mut self, row: MessageRow, may_be_out: bool) {
        self.outbox.push(row, may_be_out, AccountBytes::default().take(0));
    }

    /// Opens a session if none is open and one is allowed, and ends it if the owner may not speak.
    fn keep_session(&mut self) {
        if !self.owner.may_speak() {
            return self.end_session();
        }
        if self.session.is_some() || self.owner.is_closing() {
            return;
        }
        let id = self.scene().number();
        self.session = Some(Session { id, logged_in: false });
        let (owner, channel, events) = (self.owner.clone(), self.id, self.events.clone());
        // The receiver is gone once the channel's task has ended; the event is of no use then.
        let report = move |event| drop(events.send((id, event)));
        clock::spawn(async move {
            clock::sleep(WIRE).await;
            let network = &owner.scene.network;
            network.login(channel, id, owner.life, owner.epoch);
            clock::sleep(WIRE).await;
            report(Event::LoggedIn);
            let mut given = BTreeSet::new();
            while let Ok(items) = network.items(channel, id) {
                items
                    .into_iter()
                    .filter(|item| given.insert(item.clone()))
                    .for_each(|item| report(Event::Inbound(item)));
                clock::sleep(ITEMS_EVERY).await;
            }
            report(Event::Ended);
        });
    }

    fn end_session(&mut self) {
        let Some(Session { id, .. }) = self.session.take() else { return };
        let (owner, channel) = (self.owner.clone(), self.id);
        clock::spawn(async move {
            clock::sleep(WIRE).await;
            // If another session took over the device meanwhile, it stays open.
            let _ = owner.scene.network.close(channel, id);
        });
    }

    /// Commits what the session has reported, then acknowledges the items.
    async fn take_events(&mut self, events: &mut Vec<(SessionId, Event)>) -> Result<(), LeadershipLost> {
        let (mut commands, mut items, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
        for (of, event) in events.drain(..) {
            let Some(session) = self.session.as_mut().filter(|session| session.id == of) else { continue };
            match event {
                Event::LoggedIn => {
                    session.logged_in = true;
                    self.outbox.clear_writes();
                    commands.extend(self.connected());
                }
                Event::Accepted(message) => {
                    if self.outbox.take(&message).is_some() {
                        verdicts.push(self.settle(message));
                    }
                }
                Event::Inbound(item) => {
                    commands.push(Command::Receive {
                        customer: self.scene().customer,
                        message: NewMessage::of(&self.row(item.clone(), Direction::Inbound)),
                        event: self.event(EventName::MessageReceived),
                    });
                    items.push((of, item));
                }
                Event::Ended => self.session = None,
            }
        }
        if !verdicts.is_empty() {
            drop(self.owner.committer.commit_deferred(verdicts).await?);
        }
        if !commands.is_empty() {
            self.owner.committer.commit(commands).await?;
        }
        for (session, item) in items {
            let (owner, channel) = (self.owner.clone(), self.id);
            clock::spawn(async move {
                clock::sleep(WIRE).await;
                // After the end of the session the acknowledgement fails, and the network delivers the item again.
                let _ = owner.scene.network.acknowledge(channel, session, &item);
            });
        }
        Ok(())
    }

    async fn take_work(&mut self, work: &mut Vec<ToChannel>) -> Result<(), LeadershipLost> {
        let mut sends = Vec::new();
        for message in work.drain(..) {
            match message {
                ToChannel::Send(id, reply) => sends.push((self.row(id, Direction::Outbound), reply)),
                ToChannel::Close(done) => {
                    self.commit_sends(std::mem::take(&mut sends)).await?;
                    self.end_session();
                    clock::sleep(WIRE).await;
                    self.load_outbox()?;
                    // The task that transfers the leadership may have given up waiting.
                    let _ = done.send(());
                }
            }
        }
        self.commit_sends(sends).await
    }

    async fn commit_sends(&mut self, sends: Vec<(MessageRow, oneshot::Sender<()>)>) -> Result<(), LeadershipLost> {
        if sends.is_empty() {
            return Ok(());
        }
        let send = |row: &MessageRow| Command::Send { message: NewMessage::of(row), projected: Vec::new() };
        let commands = sends.iter().map(|(row, _)| send(row)).collect();
        let (rows, mut callers): (Vec<_>, Vec<_>) = sends.into_iter().map(|(row, reply)| (row, Some(reply))).unzip();
        // The caller may have gone away and then needs no answer.
        let answer = |caller: &mut Option<oneshot::Sender<()>>| drop(caller.take().map(|caller| caller.send(())));
        if self.scene().bug == Some(Bug::AckBeforeCommit) {
            callers.iter_mut().for_each(answer);
        }
        let replies = self.owner.committer.commit(commands).await?;
        for ((row, mut caller), reply) in rows.into_iter().zip(callers).zip(replies) {
            match reply {
                Reply::Done => self.push(row, false),
                Reply::Unchanged => {}
                _ => continue,
            }
            answer(&mut caller);
        }
        Ok(())
    }

    /// Writes the messages that are due.
    fn write_outbox(&mut self) {
        let Some(Session { id, logged_in: true }) = self.session else { return };
        for message in self.outbox.due(rt::now()) {
            if !self.owner.may_speak() {
                return;
            }
            let message = message.id;
            self.outbox.written(&message, rt::now());
            let is_lost = !self.scene().is_over() && self.scene().chance.hits(ACCEPTANCES_LOST);
            let (owner, channel, events) = (self.owner.clone(), self.id, self.events.clone());
            clock::spawn(async move {
                clock::sleep(WIRE).await;
                let sent = owner.scene.network.send(channel, id, &message);
                clock::sleep(WIRE).await;
                let event = match sent {
                    Ok(()) if is_lost => return,
                    Ok(()) => Event::Accepted(message),
                    Err(_) => Event::Ended,
                };
                // The receiver is gone once the channel's task has ended; the event is of no use then.
                let _ = events.send((id, event));
            });
        }
    }

    /// The transition to `Connected`, unless the channel's row shows it already.
    fn connected(&self) -> Option<Command> {
        let customer = self.scene().customer;
        let row = self.owner.group.view(|view| simulation::channel(view, self.id, customer))?;
        (row.status != Status::Connected).then(|| {
            Command::Move(Move {
                channel: self.id,
                customer,
                expect: row.version,
                to: Status::Connected,
                reason: Reason::LoginOk,
                at: self.scene().now(),
                wipe_credentials: false,
                identity: None,
                disabled_by_operator: false,
                moved_by: None,
                events: vec![self.event(EventName::ChannelStatus)],
                details: None,
            })
        })
    }

    fn settle(&self, message: MessageId) -> Command {
        let settle = Command::Settle {
            channel: self.id,
            message,
            verdict: Verdict::Accepted { recipients: None },
            at: self.scene().now(),
            events: vec![self.event(EventName::MessageSent)],
            projected: Vec::new(),
        };
        settle.shortened(Format::LATEST)
    }

    fn row(&self, message_id: MessageId, direction: Direction) -> MessageRow {
        let peer = Suffixes::simulated().phone_address("15551230000");
        let now = self.scene().now();
        MessageRow {
            id: RowId(self.scene().uuid()),
            message_id,
            channel: self.id,
            direction,
            source: if direction == Direction::Outbound { Source::Api } else { Source::Network },
            chat: peer.clone(),
            is_group: false,
            from: peer.clone(),
            from_resolved: true,
            from_lid: None,
            from_phone: None,
            to: peer,
            participant: None,
            push_name: None,
            content: Content::Text { text: "hi".into() },
            around: Surroundings::default(),
            client_ref: None,
            request_id: None,
            correlation_id: "simulated".into(),
            occurred_at: now,
            created_at: now,
        }
    }

    /// An event, with a delivery if the endpoint receives events of this channel.
    fn event(&self, name: EventName) -> NewEvent {
        let delivery = DeliveryId(self.scene().uuid());
        let mut random = [0; 10];
        random.copy_from_slice(&delivery.as_bytes()[..10]);
        let delivery = NewDelivery { id: delivery, endpoint: ENDPOINT, url: "https://example.com".into() };
        NewEvent {
            id: EventId::mint(self.scene().now(), random),
            name,
            channel: self.id,
            customer: self.scene().customer,
            message: None,
            correlation_id: None,
            chat: None,
            body: Bytes::from_static(b"{}"),
            at: self.scene().now(),
            deliveries: if hears_of(self.id) { vec![delivery] } else { Vec::new() },
            streamed: None,
            outdated: false,
        }
    }
}
