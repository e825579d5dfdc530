//! The owner of a shard in a run: what the real one does with commands, the fence and the network, without its tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::address::Suffixes;
use model::event::{EventId, EventName};
use model::format::Format;
use model::id::{ChannelId, DeliveryId, EndpointId, Epoch, MessageId, NodeId, RowId, ShardId};
use model::message::{Content, Surroundings};
use model::msgpack;
use model::status::{Reason, Status};
use parking_lot::Mutex;
use raft::directory::command::Command as DirectoryCommand;
use raft::directory::layout::LayoutCommand;
use raft::directory::records::PlacementRecord;
use raft::simulation::clock::Instant;
use raft::simulation::{Life, SimulatedGroup, clock};
use shard::command::{Batch, BatchReply, Command, Move, NewDelivery, NewEvent, NewMessage, Reply, Verdict};
use shard::history::{Direction, Source};
use shard::records::MessageRow;
use shard::simulation::{Step, channel as channel_row, may_vote, next_step, outbox};
use uuid::Uuid;

use super::bug::Bug;
use super::directory;
use super::messaging::SessionId;
use super::scene::Scene;

/// How often an owner looks at what there is to do, and follows its quorum contact with the fence.
const TURN: Duration = Duration::from_millis(20);

/// What a fence is kept short of the earliest election, as the real owner does it.
const FENCE_MARGIN: Duration = Duration::from_millis(20);

/// How long anything takes to the network, or back: well within the margin, and never out of order.
const WIRE: Duration = Duration::from_millis(2);

/// How long an entry may take.
const COMMIT_PATIENCE: Duration = Duration::from_secs(5);

/// After what time a send without acceptance is written again.
const RESEND: Duration = Duration::from_millis(700);

/// How often the members of the group and the place of the leadership are looked at, in turns.
const MEMBERS_EVERY: u64 = 12;

/// How often the network is asked for items, in turns.
const ITEMS_EVERY: u64 = 5;

/// How many entries a replica may be behind to vote, or to take the leadership: fewer than in a real group, as a run's
/// logs keep some tens of entries, and a replica that lacks more needs a snapshot.
const MOST_BEHIND: u64 = 50;

/// How long one change of the group's members may take.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);

/// Of a thousand acceptances of the network, how many get lost on their way back.
const ACCEPTANCES_LOST: u32 = 30;

/// Of a thousand sends, how many find the process busy with something else between their making and their proposal, and
/// for how long at most.
const PAUSED: u32 = 40;
const PAUSE: Duration = Duration::from_millis(1_500);

/// The one endpoint, which hears of everything in every other channel ([`hears_of`]).
const ENDPOINT: EndpointId = EndpointId(Uuid::from_u128(3));

/// Whether an endpoint hears of a channel. Of the others' sends the shard is told by the short command.
fn hears_of(channel: ChannelId) -> bool {
    channel.as_bytes()[0].is_multiple_of(2)
}

struct Session {
    id: SessionId,
    written: BTreeMap<MessageId, Instant>,
    /// Items are being asked for.
    asking: bool,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<ChannelId, Session>,
    /// Sends that the network accepted, and items that it gave, to be committed.
    accepted: Vec<(ChannelId, MessageId)>,
    items: Vec<(ChannelId, SessionId, MessageId)>,
    committing: bool,
    changing: bool,
    transferring: bool,
}

/// One ownership.
pub struct Owner {
    scene: Arc<Scene>,
    life: Life,
    shard: ShardId,
    epoch: Epoch,
    group: SimulatedGroup,
    lost: AtomicBool,
    state: Mutex<State>,
}

/// Hosts a replica: owns the shard whenever this node leads it.
pub async fn host(scene: Arc<Scene>, life: Life, shard: ShardId, stop: Arc<AtomicBool>) {
    let group = scene.group(life, shard);
    while scene.lives(life) && !stop.load(Ordering::Relaxed) {
        if let Some(epoch) = group.leadership().ready_epoch {
            let owner = Arc::new(Owner {
                scene: scene.clone(),
                life,
                shard,
                epoch,
                group: group.clone(),
                lost: AtomicBool::new(false),
                state: Mutex::default(),
            });
            owner.own(&stop).await;
        }
        clock::sleep(TURN).await;
    }
}

impl Owner {
    async fn own(self: Arc<Self>, stop: &AtomicBool) {
        // Over a state that shows everything that was committed before.
        if self.commit(Vec::new()).await.is_none() {
            return;
        }
        self.scene.checks.owns(self.life, self.shard, self.epoch);
        self.scene.owners.lock().insert((self.life, self.shard), self.clone());
        let mut turn = 0;
        while self.is_live() && !stop.load(Ordering::Relaxed) {
            self.clone().speak(turn % ITEMS_EVERY == 0);
            self.clone().settle();
            if turn % MEMBERS_EVERY == 0 {
                self.clone().keep_members();
            }
            turn += 1;
            clock::sleep(TURN).await;
        }
        self.lost.store(true, Ordering::Relaxed);
        self.scene.owners.lock().remove(&(self.life, self.shard));
        self.close_sessions();
    }

    fn is_live(&self) -> bool {
        self.scene.lives(self.life)
            && !self.lost.load(Ordering::Relaxed)
            && self.group.leadership().ready_epoch == Some(self.epoch)
    }

    /// Whether the owner may speak to the network: no other can have been elected yet.
    fn may_speak(&self) -> bool {
        if self.scene.bug == Some(Bug::NoFence) {
            return self.scene.lives(self.life);
        }
        let contact = self.group.quorum_contact();
        let until = contact.map(|contact| contact + self.scene.timing.election_min - FENCE_MARGIN);
        self.is_live() && until.is_some_and(|until| clock::now() < until)
    }

    /// Commits commands; `None` when they may not stand, which ends the ownership.
    async fn commit(&self, commands: Vec<Command>) -> Option<Vec<Reply>> {
        let entry = self.entry(commands);
        let answer = self.group.propose(entry, COMMIT_PATIENCE).await;
        let replies = answer.ok().and_then(|answer| match msgpack::from_slice(&answer).ok()? {
            BatchReply::Replies(replies, _) => Some(replies),
            BatchReply::Fenced => None,
        });
        if replies.is_none() {
            self.lost.store(true, Ordering::Relaxed);
        }
        replies.filter(|_| self.scene.lives(self.life))
    }

    fn entry(&self, commands: Vec<Command>) -> Bytes {
        let batch = Batch { version: Format::LATEST, epoch: self.epoch, node: self.life.node, commands };
        Bytes::from(msgpack::to_vec_named(&batch).expect("a batch of plain fields is always written"))
    }

    /// Takes a send: whether it stands. `None`: ask the next owner.
    pub async fn accept(&self, channel: ChannelId, message: MessageId) -> Option<()> {
        if !self.is_live() || self.state.lock().transferring {
            return None;
        }
        let row = self.row(channel, message, Direction::Outbound);
        let command = Command::Send { message: NewMessage::of(&row), projected: Vec::new() };
        if self.scene.chance.hits(PAUSED) {
            clock::sleep(self.scene.chance.time(&(Duration::ZERO..PAUSE))).await;
        }
        if self.scene.bug == Some(Bug::AckBeforeCommit) {
            return self.group.submit(self.entry(vec![command])).ok().map(|_| ());
        }
        match self.commit(vec![command]).await?.pop()? {
            Reply::Done | Reply::Unchanged => Some(()),
            _ => None,
        }
    }

    /// Opens the sessions that are missing, writes what the outbox holds, and asks for what waits.
    fn speak(self: Arc<Self>, asks: bool) {
        if !self.may_speak() {
            return self.close_sessions();
        }
        if self.state.lock().transferring {
            return;
        }
        for channel in self.scene.channels_of(self.shard) {
            let (id, is_new) = {
                let mut state = self.state.lock();
                let known = state.sessions.contains_key(&channel);
                let session = state.sessions.entry(channel).or_insert_with(|| Session {
                    id: self.scene.number(),
                    written: BTreeMap::new(),
                    asking: false,
                });
                (session.id, !known)
            };
            if is_new {
                self.clone().say(move |owner| owner.scene.network.login(channel, id, owner.life, owner.epoch));
            }
            self.write_outbox(channel);
            if asks {
                self.ask_items(channel, id);
            }
        }
    }

    fn write_outbox(self: &Arc<Self>, channel: ChannelId) {
        let waiting = self.group.view(|view| outbox(view, channel)).unwrap_or_default();
        for message in waiting {
            let message = message.id;
            let id = {
                let mut state = self.state.lock();
                let Some(session) = state.sessions.get_mut(&channel) else { return };
                let now = clock::now();
                let written = session.written.get(&message);
                if written.is_some_and(|written| *written + RESEND > now) {
                    continue;
                }
                session.written.insert(message.clone(), now);
                session.id
            };
            let lost = self.scene.chance.hits(ACCEPTANCES_LOST);
            let owner = self.clone();
            clock::spawn(async move {
                clock::sleep(WIRE).await;
                let sent = owner.scene.network.send(channel, id, &message);
                clock::sleep(WIRE).await;
                match sent {
                    Ok(()) if !lost => owner.state.lock().accepted.push((channel, message)),
                    Ok(()) => {}
                    Err(_) => owner.session_ended(channel, id),
                }
            });
        }
    }

    fn ask_items(self: &Arc<Self>, channel: ChannelId, id: SessionId) {
        {
            let mut state = self.state.lock();
            let Some(session) = state.sessions.get_mut(&channel).filter(|session| !session.asking) else { return };
            session.asking = true;
        }
        let owner = self.clone();
        clock::spawn(async move {
            clock::sleep(WIRE).await;
            let items = owner.scene.network.items(channel, id);
            clock::sleep(WIRE).await;
            let Ok(items) = items else { return owner.session_ended(channel, id) };
            let mut state = owner.state.lock();
            if let Some(session) = state.sessions.get_mut(&channel) {
                session.asking = false;
            }
            for item in items {
                if !state.items.iter().any(|(_, _, known)| *known == item) {
                    state.items.push((channel, id, item));
                }
            }
        });
    }

    /// Says something to the network, which hears it a moment later, whether or not this node still lives then.
    fn say(self: Arc<Self>, what: impl FnOnce(&Self) + Send + 'static) {
        clock::spawn(async move {
            clock::sleep(WIRE).await;
            what(&self);
        });
    }

    fn session_ended(&self, channel: ChannelId, id: SessionId) {
        let mut state = self.state.lock();
        if state.sessions.get(&channel).is_some_and(|session| session.id == id) {
            state.sessions.remove(&channel);
        }
    }

    fn close_sessions(self: &Arc<Self>) {
        let sessions = std::mem::take(&mut self.state.lock().sessions);
        for (channel, session) in sessions {
            // Whoever took the device meanwhile keeps it.
            self.clone().say(move |owner| {
                let _ = owner.scene.network.close(channel, session.id);
            });
        }
    }

    /// Commits what the network has said, and that channels are connected.
    fn settle(self: Arc<Self>) {
        let (accepted, items) = {
            let mut state = self.state.lock();
            if state.committing {
                return;
            }
            (std::mem::take(&mut state.accepted), std::mem::take(&mut state.items))
        };
        let mut commands: Vec<Command> = self.connects();
        commands.extend(accepted.into_iter().map(|(channel, message)| {
            let settle = Command::Settle {
                channel,
                message,
                verdict: Verdict::Accepted { recipients: None },
                at: self.scene.now(),
                events: vec![self.event(channel, EventName::MessageSent)],
                projected: Vec::new(),
            };
            settle.shortened(Format::LATEST)
        }));
        commands.extend(items.iter().map(|(channel, _, item)| Command::Receive {
            customer: self.scene.customer,
            message: NewMessage::of(&self.row(*channel, item.clone(), Direction::Inbound)),
            event: self.event(*channel, EventName::MessageReceived),
        }));
        if commands.is_empty() {
            return;
        }
        self.state.lock().committing = true;
        clock::spawn(async move {
            if self.commit(commands).await.is_some() {
                for (channel, id, item) in items {
                    // A session that has ended gets the item again.
                    self.clone().say(move |owner| {
                        let _ = owner.scene.network.acknowledge(channel, id, &item);
                    });
                }
            }
            self.state.lock().committing = false;
        });
    }

    /// Moves for the channels that have a session and are not shown as connected.
    fn connects(&self) -> Vec<Command> {
        let channels: Vec<_> = self.state.lock().sessions.keys().copied().collect();
        let moves = channels.into_iter().filter_map(|channel| {
            let row = self.group.view(|view| channel_row(view, channel, self.scene.customer))?;
            (row.status != Status::Connected).then(|| {
                Command::Move(Move {
                    channel,
                    customer: self.scene.customer,
                    expect: row.version,
                    to: Status::Connected,
                    reason: Reason::LoginOk,
                    at: self.scene.now(),
                    wipe_credentials: false,
                    identity: None,
                    disabled_by_operator: false,
                    moved_by: None,
                    events: vec![self.event(channel, EventName::ChannelStatus)],
                    details: None,
                })
            })
        });
        moves.collect()
    }

    /// Brings the group to its placement, step by step, and the leadership to where it should be.
    fn keep_members(self: Arc<Self>) {
        if std::mem::replace(&mut self.state.lock().changing, true) {
            return;
        }
        let owner = self.clone();
        clock::spawn(async move {
            owner.change_members().await;
            owner.state.lock().changing = false;
        });
    }

    async fn change_members(self: &Arc<Self>) {
        let place = self.scene.copy(self.life).read(|state| state.placement.get(&self.shard).cloned());
        let Some(place) = place else { return };
        if !place.formed {
            let formed = DirectoryCommand::ShardFormed(self.shard);
            directory::update(&self.scene, self.life, formed, CHANGE_PATIENCE).await;
            return;
        }
        let members = self.group.members();
        if let Some(step) = next_step(&place, &members, self.life.node) {
            self.scene.trace.note(format_args!("node {}: shard {}: {step:?}", self.life.node, self.shard));
            return self.take(&place, step).await;
        }
        let must_go = !place.replicas.contains(&self.life.node);
        let mut wanted = [place.leader].into_iter().chain(place.replicas.iter().copied());
        let target = wanted.find(|node| (must_go || *node == place.leader) && self.may_hand_to(*node));
        if let Some(target) = target.filter(|_| must_go || place.leader != self.life.node) {
            self.transfer(target).await;
        }
    }

    async fn take(&self, place: &PlacementRecord, step: Step) {
        // What fails is seen at the next look, and tried again.
        let _ = match step {
            Step::Add(node) => self.group.add_learner(node, CHANGE_PATIENCE).await,
            Step::Vote(voters) => {
                let present = self.group.members().voters;
                let all = voters.union(&present).copied();
                let caught_up: BTreeSet<NodeId> = all.filter(|node| self.has_caught_up(*node)).collect();
                if !may_vote(&voters, &present, &caught_up) {
                    return;
                }
                self.group.change_members(voters, CHANGE_PATIENCE).await
            }
            Step::Drop(nodes) => self.group.remove_learners(nodes, CHANGE_PATIENCE).await,
            Step::Say => {
                let settled = LayoutCommand::Settled { shard: self.shard, replicas: place.replicas.clone() };
                let settled = DirectoryCommand::Layout(settled);
                if directory::update(&self.scene, self.life, settled, CHANGE_PATIENCE).await {
                    self.scene.checks.count(|counts| counts.moves += 1);
                }
                Ok(())
            }
        };
    }

    fn has_caught_up(&self, node: NodeId) -> bool {
        let applied = self.group.position().map_or(0, |position| position.index);
        let theirs = self.group.replicated().get(&node).copied().flatten();
        node == self.life.node || theirs.is_some_and(|theirs| theirs + MOST_BEHIND >= applied)
    }

    /// Closes the sessions in order and transfers the leadership.
    pub async fn transfer(self: &Arc<Self>, target: NodeId) {
        self.scene.trace.note(format_args!("node {} hands shard {} to {target}", self.life.node, self.shard));
        self.state.lock().transferring = true;
        self.close_sessions();
        clock::sleep(WIRE * 2).await;
        let _ = self.group.transfer_leader(target, CHANGE_PATIENCE).await;
        self.state.lock().transferring = false;
    }

    /// Whether the leadership can go to a node just now.
    pub fn may_hand_to(&self, node: NodeId) -> bool {
        node != self.life.node && self.group.members().voters.contains(&node) && self.has_caught_up(node)
    }

    fn row(&self, channel: ChannelId, message_id: MessageId, direction: Direction) -> MessageRow {
        let peer = Suffixes::simulated().phone_address("15551230000");
        let now = self.scene.now();
        MessageRow {
            id: RowId(self.scene.uuid()),
            message_id,
            channel,
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

    /// An event, with a delivery where the endpoint hears of it.
    fn event(&self, channel: ChannelId, name: EventName) -> NewEvent {
        let delivery = DeliveryId(self.scene.uuid());
        let mut random = [0; 10];
        random.copy_from_slice(&delivery.as_bytes()[..10]);
        let delivery = NewDelivery { id: delivery, endpoint: ENDPOINT, url: "https://example.com".into() };
        NewEvent {
            id: EventId::mint(self.scene.now(), random),
            name,
            channel,
            customer: self.scene.customer,
            message: None,
            correlation_id: None,
            chat: None,
            body: Bytes::from_static(b"{}"),
            at: self.scene.now(),
            deliveries: if hears_of(channel) { vec![delivery] } else { Vec::new() },
            streamed: None,
            outdated: false,
        }
    }
}
