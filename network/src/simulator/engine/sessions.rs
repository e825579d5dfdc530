//! Connections of nodes, and the life cycle of sessions: login, conflict and fencing, acknowledgement, end.

use std::collections::HashMap;

use bytes::Bytes;
use model::id::{Epoch, NodeId};
use model::msgpack;
use model::presence::Presence;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::pairing::Unpaired;
use super::subscriber::{Credentials, Standing};
use super::{ConnectionId, ControlError, Effect, Engine, Holder, Later, LoginEnd, SessionId};
use crate::driver::{EndReason, ItemId};
use crate::simulator::faults::RefuseLogins;
use crate::simulator::number::Number;
use crate::wire::{NetworkFrame, SessionFrame, SessionNumber};

/// A node's connection and its sessions.
#[derive(Debug)]
pub struct NodeLink {
    pub node: NodeId,
    pub sessions: HashMap<SessionNumber, Session>,
    /// The proxies of those sessions that use one.
    pub proxies: HashMap<SessionNumber, String>,
}

#[derive(Debug)]
pub struct Session {
    pub epoch: Epoch,
    pub phase: Phase,
}

#[derive(Debug)]
pub enum Phase {
    /// Shows QR texts and pair codes, or waits until its new credentials are stored.
    Unpaired(Box<Unpaired>),
    /// Linked, but not logged in yet.
    Linked,
    /// Requested to log in with these credentials.
    LoggingIn { credentials: Bytes },
    /// Logged in.
    Live(Live),
}

/// The subscriber and device of a live session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub number: Number,
    pub device: u32,
    /// Index of its login record.
    pub login: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoginRecord {
    pub number: Number,
    pub device: u32,
    pub node: NodeId,
    pub epoch: Epoch,
    pub at: Timestamp,
    pub end: Option<(Timestamp, LoginEnd)>,
}

/// The node of a login by a foreign copy of a device. No node of a cluster has this number.
pub const FOREIGN_NODE: NodeId = 0;

impl Engine {
    /// Welcomes a node. Its older connections are dead by then, even if their end was not noticed.
    pub(super) fn connect(&mut self, connection: ConnectionId, node: NodeId) {
        self.cut(|link| link.node == node);
        if self.faults.cut_node.contains(&node) {
            self.effects.push(Effect::Disconnect { connection });
            return;
        }
        self.links.insert(connection, NodeLink { node, sessions: HashMap::new(), proxies: HashMap::new() });
        self.effects.push(Effect::Send { connection, frame: NetworkFrame::Welcome });
    }

    /// Closes connections from this side.
    pub(super) fn cut(&mut self, is_cut: impl Fn(&NodeLink) -> bool) {
        let cut: Vec<_> = self.links.iter().filter(|(_, link)| is_cut(link)).map(|(id, _)| *id).collect();
        for connection in cut {
            self.lose(connection);
            self.effects.push(Effect::Disconnect { connection });
        }
    }

    /// Handles the loss of a connection, and with it of all its sessions.
    pub(super) fn lose(&mut self, connection: ConnectionId) {
        let Some(link) = self.links.get(&connection) else { return };
        let mut numbers: Vec<_> = link.sessions.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.end_session(SessionId { connection, number }, LoginEnd::Lost, None);
        }
        self.links.remove(&connection);
    }

    /// Handles a login request, which is admitted at once or after an injected delay.
    pub(super) fn login(&mut self, id: SessionId, epoch: Epoch, credentials: Bytes) {
        let Some(link) = self.links.get_mut(&id.connection) else { return };
        let session = link.sessions.entry(id.number).or_insert(Session { epoch, phase: Phase::Linked });
        if !matches!(session.phase, Phase::Linked) {
            return;
        }
        session.phase = Phase::LoggingIn { credentials };
        if self.faults.login_delay_ms == 0 {
            self.admit(id);
        } else {
            let due = self.now.plus(std::time::Duration::from_millis(self.faults.login_delay_ms));
            self.timers.push(due, Later::Login { session: id });
        }
    }

    /// Makes a session live and ends the previous one: fenced by a higher epoch, else replaced in a conflict.
    pub(super) fn admit(&mut self, id: SessionId) {
        let Some(session) = self.session(id) else { return };
        let Phase::LoggingIn { credentials } = &session.phase else { return };
        let (epoch, shown) = (session.epoch, msgpack::from_slice::<Credentials>(credentials).ok());
        let (number, device_id) = match self.check_login(shown) {
            Ok(device) => device,
            Err(reason) => return self.dismiss(id, reason),
        };
        if let Some(old) = self.subscribers.get(&number).and_then(|s| s.device(device_id)).and_then(|d| d.live) {
            let fenced = self.session(old).is_some_and(|session| session.epoch < epoch);
            self.displace(old, fenced);
        }
        let holder = Holder { node: self.node_of(id), epoch };
        let login = self.record_login(number, device_id, holder);
        let Some(subscriber) = self.subscribers.get_mut(&number) else { return };
        let identity = subscriber.identity();
        if let Some(device) = subscriber.device_mut(device_id) {
            device.live = Some(id);
            device.mailbox.rewind();
        }
        if let Some(session) = self.session_mut(id) {
            session.phase = Phase::Live(Live { number, device: device_id, login });
        }
        self.stats.sessions += 1;
        self.emit(id, SessionFrame::LoggedIn(identity));
        self.pump(number, device_id);
    }

    /// The device that the credentials are for, or why the login is refused.
    fn check_login(&self, shown: Option<Credentials>) -> Result<(Number, u32), EndReason> {
        match self.faults.refuse_logins {
            None => {}
            Some(RefuseLogins::Transport) => return Err(EndReason::Transport("the network closed the stream".into())),
            Some(RefuseLogins::Version) => return Err(EndReason::ClientOutdated),
            Some(RefuseLogins::Banned) => return Err(EndReason::Banned { until: None }),
        }
        let shown = shown.ok_or(EndReason::Invalidated)?;
        let number = Number::parse(&shown.number.to_string()).ok_or(EndReason::Invalidated)?;
        let subscriber = self.subscribers.get(&number).ok_or(EndReason::Invalidated)?;
        let device = subscriber.device(shown.device).filter(|device| device.secret == shown.secret);
        match device.ok_or(EndReason::Invalidated)?.standing {
            Standing::Unlinked => return Err(EndReason::Unlinked),
            Standing::Invalidated => return Err(EndReason::Invalidated),
            Standing::Linked => {}
        }
        match subscriber.banned(self.now) {
            Some(ban) => Err(EndReason::Banned { until: ban.until }),
            None => Ok((number, shown.device)),
        }
    }

    /// Ends a live session because another login took its device.
    pub(super) fn displace(&mut self, old: SessionId, fenced: bool) {
        if fenced {
            self.stats.fenced += 1;
            self.end_session(old, LoginEnd::Fenced, Some(EndReason::Fenced));
        } else {
            self.stats.conflicts += 1;
            self.end_session(old, LoginEnd::Replaced, Some(EndReason::Replaced));
        }
    }

    pub(super) fn record_login(&mut self, number: Number, device: u32, holder: Holder) -> usize {
        self.stats.logins += 1;
        let Holder { node, epoch } = holder;
        self.logins.push(LoginRecord { number, device, node, epoch, at: self.now, end: None });
        self.logins.len() - 1
    }

    /// Ends a session in any phase. The node is told `reason`, if there is one.
    pub(super) fn end_session(&mut self, id: SessionId, end: LoginEnd, reason: Option<EndReason>) {
        let Some(link) = self.links.get_mut(&id.connection) else { return };
        link.proxies.remove(&id.number);
        let Some(session) = link.sessions.remove(&id.number) else { return };
        match session.phase {
            Phase::Live(live) => {
                self.stats.sessions -= 1;
                if let Some(record) = self.logins.get_mut(live.login) {
                    record.end = Some((self.now, end));
                }
                let mut subscriber = self.subscribers.get_mut(&live.number);
                if let Some(subscriber) = &mut subscriber {
                    subscriber.presence = Presence::Unavailable;
                }
                if let Some(device) = subscriber.and_then(|subscriber| subscriber.device_mut(live.device)) {
                    device.live = None;
                    device.answers.clear();
                    device.mailbox.rewind();
                }
            }
            Phase::Unpaired(unpaired) => self.remove_pairing(*unpaired),
            Phase::Linked | Phase::LoggingIn { .. } => {}
        }
        if let Some(reason) = reason {
            self.emit(id, SessionFrame::Ended(reason));
        }
    }

    /// Handles the gateway's request to unlink its own device.
    pub(super) fn logout(&mut self, id: SessionId) {
        if let Some(live) = self.live_or_late(id) {
            self.retire(live.number, live.device, Standing::Unlinked);
        }
    }

    /// Revokes a device's right to log in and ends its session.
    pub(super) fn retire(&mut self, number: Number, device: u32, standing: Standing) {
        let Some(device) = self.subscribers.device_mut(number, device) else { return };
        device.standing = standing;
        let live = device.live;
        let reason = if standing == Standing::Unlinked { EndReason::Unlinked } else { EndReason::Invalidated };
        device.mailbox.clear();
        if let Some(live) = live {
            self.dismiss(live, reason);
        }
    }

    /// Handles the acknowledgement of an inbound item.
    pub(super) fn acknowledge(&mut self, id: SessionId, item: &ItemId) {
        let Some(live) = self.live_or_late(id) else { return };
        let number = item.0.strip_prefix(&self.item_tag).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
        let device = self.subscribers.device_mut(live.number, live.device);
        if let (Some(device), Some(number)) = (device, number) {
            if self.faults.hold_inbound_acks {
                device.mailbox.hold(number);
            } else {
                device.mailbox.acknowledge(number);
                self.pump(live.number, live.device);
            }
        }
    }

    /// Sends inbound items to a live device as far as its window has room.
    pub(super) fn pump(&mut self, number: Number, device: u32) {
        let Some(device) = self.subscribers.device_mut(number, device) else { return };
        let Some(session) = device.live else { return };
        while let Some(sending) = device.mailbox.next_to_send() {
            self.stats.redelivered += u64::from(sending.again);
            let id = ItemId(format!("{}-{}", self.item_tag, sending.number));
            let item = Box::new(sending.what.item(id, number, &self.suffixes));
            self.effects.push(Effect::to(session, SessionFrame::Inbound(item)));
        }
        let unsent = device.mailbox.first_unsent();
        while let Some((_, frame)) = device.answers.pop_front_if(|(behind, _)| unsent.is_none_or(|item| item > *behind))
        {
            self.effects.push(Effect::to(session, frame));
        }
    }

    /// Records the proxy of a session that is about to open.
    pub(super) fn comes_via(&mut self, id: SessionId, proxy: String) {
        if let Some(link) = self.links.get_mut(&id.connection) {
            link.proxies.insert(id.number, proxy);
        }
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&Session> {
        self.links.get(&id.connection)?.sessions.get(&id.number)
    }

    pub(super) fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.links.get_mut(&id.connection)?.sessions.get_mut(&id.number)
    }

    pub(super) fn live(&self, id: SessionId) -> Option<Live> {
        match self.session(id)?.phase {
            Phase::Live(live) => Some(live),
            _ => None,
        }
    }

    /// The subscriber and device of a session that writes. Frames from ended sessions are counted.
    pub(super) fn live_or_late(&mut self, id: SessionId) -> Option<Live> {
        self.stats.late_writes += u64::from(self.session(id).is_none());
        self.live(id)
    }

    pub(super) fn node_of(&self, id: SessionId) -> NodeId {
        self.links.get(&id.connection).map_or(FOREIGN_NODE, |link| link.node)
    }

    /// Reports the result of a link to the waiting call.
    pub(super) fn answer_link(&mut self, ticket: super::Ticket, outcome: Result<u32, ControlError>) {
        self.effects.push(Effect::Linked { ticket, outcome });
    }
}
