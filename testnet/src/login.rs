//! Logins of devices, and how they end.

use std::time::Instant;

use model::time::Timestamp;
use network::simulator::answers::LoginEnd;
use network::simulator::faults::RefuseLogins;
use wacore_binary::{Node, NodeRef};
use waproto::whatsapp::ClientPayload;

use crate::account::StanzaKey;
use crate::number::{DeviceAddress, Naming, Number};
use crate::pairing::Registration;
use crate::stanza::{SERVER, element, parent, stream_error, text};
use crate::state::{ConnectionId, State};
use crate::wire::{Caller, Outlet};

/// A client that has completed the handshake.
pub struct Newcomer {
    pub caller: Caller,
    pub payload: ClientPayload,
    pub key: [u8; 32],
}

pub struct Connection {
    pub outlet: Outlet,
    pub caller: Caller,
    pub since: Timestamp,
    pub phase: Phase,
    /// Acknowledgements held back by the fault `hold_inbound_acks`.
    pub held: Vec<StanzaKey>,
    /// When the last response to a message is due, so that responses keep their order.
    pub answers_until: Option<Instant>,
}

pub enum Phase {
    Registering(Box<Registration>),
    LoggedIn {
        at: DeviceAddress,
        login_seq: u64,
        drain: Drain,
    },
    /// The stream has ended; further stanzas are late.
    Ended,
}

/// Progress of delivering the queue after a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// The client has not declared itself active.
    Inactive,
    /// The client requests batches; `sent` stanzas were sent.
    Batches { sent: usize },
    /// Stanzas are sent as soon as they arrive.
    Live,
}

/// Queued stanzas that are sent unrequested with the fault `offline_primer`.
const PRIMER: usize = 5;

impl State {
    /// Registers a client after its handshake, for pairing or login.
    pub fn arrive(&mut self, newcomer: Newcomer, outlet: Outlet) -> ConnectionId {
        let id = self.next();
        let Newcomer { caller, payload, key } = newcomer;
        let connection = Connection {
            outlet,
            caller,
            since: self.now(),
            phase: Phase::Ended,
            held: Vec::new(),
            answers_until: None,
        };
        self.connections.insert(id, connection);
        if self.faults.cut_node.contains(&caller.node) {
            self.connections[&id].outlet.cut();
        } else if payload.device_pairing_data.is_set() {
            self.register_companion(id, &payload, key);
        } else {
            match self.admit(&payload, key) {
                Ok(at) => self.log_in(id, at),
                Err(Refusal::Cut) => self.connections[&id].outlet.cut(),
                Err(Refusal::Failure(failure)) => {
                    let outlet = &self.connections[&id].outlet;
                    outlet.send(*failure);
                    outlet.close();
                }
            }
        }
        id
    }

    fn admit(&self, payload: &ClientPayload, key: [u8; 32]) -> Result<DeviceAddress, Refusal> {
        match self.faults.refuse_logins {
            Some(RefuseLogins::Transport) => return Err(Refusal::Cut),
            Some(RefuseLogins::Version) => return Err(Refusal::reason(405)),
            Some(RefuseLogins::Banned) => return Err(Refusal::reason(403)),
            None => {}
        }
        let number = payload.username.and_then(|user| Number::parse(&user.to_string()));
        let device = payload.device.and_then(|device| u16::try_from(device).ok());
        let (Some(number), Some(id)) = (number, device) else { return Err(Refusal::reason(401)) };
        let account = self.accounts.get(&number).ok_or_else(|| Refusal::reason(401))?;
        if let Some(ban) = account.ban {
            let left = ban.until.map(|until| until.since(self.now()).as_secs());
            return Err(match left {
                Some(0) | None => Refusal::reason(403),
                Some(left) => Refusal::failure(402, Some(101), Some(left)),
            });
        }
        let known = account.devices.get(&id).filter(|device| device.wire_key == key);
        let device = known.ok_or_else(|| Refusal::reason(401))?;
        if let Some(refused) = device.failure {
            return Err(Refusal::failure(refused.reason, refused.code, refused.expire_seconds));
        }
        Ok(number.device(id))
    }

    fn log_in(&mut self, id: ConnectionId, at: DeviceAddress) {
        let caller = self.connections[&id].caller;
        let before = self.device(at).and_then(|device| device.connection);
        if let Some(before) = before {
            let theirs = self.connections.get(&before).map_or(0, |connection| connection.caller.epoch);
            if caller.epoch > theirs {
                self.ledger.stats.fenced += 1;
                self.end(before, Some("409"), LoginEnd::Fenced);
            } else {
                self.ledger.stats.conflicts += 1;
                self.end(before, Some("409"), LoginEnd::Replaced);
            }
        }
        let now = self.now();
        let Some(device) = self.device_mut(at) else { return };
        let highest = device.highest_epoch;
        device.connection = Some(id);
        device.last_login_at = Some(now);
        device.highest_epoch = highest.max(caller.epoch);
        if caller.epoch < highest {
            self.check.lower_epoch(at, caller.epoch, highest);
        }
        let login_seq = self.ledger.logged_in(at, caller.node, caller.epoch, now);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.phase = Phase::LoggedIn { at, login_seq, drain: Drain::Inactive };
        }
        let success = element("success")
            .attr("t", now.unix_seconds())
            .attr("props", 27)
            .attr("companion_enc_static", "testnet")
            .attr("location", "testnet")
            .attr("lid", at.jid(Naming::Lid))
            .build();
        self.write(id, success);
    }

    /// Ends a connection, with a stream error or without one.
    pub fn end(&mut self, id: ConnectionId, code: Option<&str>, how: LoginEnd) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let phase = std::mem::replace(&mut connection.phase, Phase::Ended);
        match code {
            Some(code) => {
                connection.outlet.send(stream_error(code));
                connection.outlet.close();
            }
            None => connection.outlet.cut(),
        }
        self.ended(id, phase, how);
    }

    fn ended(&mut self, id: ConnectionId, phase: Phase, how: LoginEnd) {
        let now = self.now();
        match phase {
            Phase::LoggedIn { at, login_seq, .. } => {
                self.ledger.logged_out(login_seq, how, now);
                if let Some(device) = self.device_mut(at)
                    && device.connection == Some(id)
                {
                    device.connection = None;
                }
            }
            Phase::Registering(mut registration) => registration.refuse("the device went away"),
            Phase::Ended => {}
        }
    }

    /// Removes a closed connection.
    pub fn leave(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.ended(id, connection.phase, LoginEnd::Lost);
        }
    }

    /// Handles a client that declares itself active: it is told how many stanzas are queued.
    pub fn activate(&mut self, id: ConnectionId, at: DeviceAddress) {
        let Some(device) = self.device_mut(at) else { return };
        let (mut redelivered, mut classes) = (0, [0_usize; 4]);
        for waiting in &mut device.queue {
            redelivered += u64::from(waiting.sent_on.take().is_some());
            let class =
                ["message", "receipt", "notification", "call"].iter().position(|name| *name == waiting.key.class);
            classes[class.unwrap_or(2)] += 1;
        }
        let count = device.queue.len();
        self.ledger.stats.redelivered += redelivered;
        let preview = element("offline_preview")
            .attr("count", count)
            .attr("message", classes[0])
            .attr("receipt", classes[1])
            .attr("notification", classes[2])
            .attr("call", classes[3])
            .attr("appdata", 0)
            .build();
        self.write(id, information(preview));
        self.set_drain(id, Drain::Batches { sent: 0 });
        if count == 0 {
            self.send_waiting(id, at, 0);
        } else if self.faults.offline_primer {
            self.send_waiting(id, at, PRIMER);
        }
    }

    pub fn take_information(&mut self, id: ConnectionId, at: DeviceAddress, stanza: &NodeRef<'_>) {
        if let Some(batch) = stanza.get_optional_child("offline_batch") {
            let count = text(batch, "count").and_then(|count| count.parse().ok()).unwrap_or(0);
            self.send_waiting(id, at, count);
        }
    }

    /// Sends the next `count` queued stanzas, and the end marker after the last one.
    fn send_waiting(&mut self, id: ConnectionId, at: DeviceAddress, count: usize) {
        let Some(Drain::Batches { mut sent }) = self.drain(id) else { return };
        let Some(device) = self.device_mut(at) else { return };
        let mut batch = Vec::new();
        let mut left = 0_usize;
        for waiting in device.queue.iter_mut().filter(|waiting| waiting.sent_on != Some(id)) {
            if batch.len() == count {
                left += 1;
                continue;
            }
            waiting.sent_on = Some(id);
            let mut stanza = waiting.stanza.clone();
            stanza.attrs.insert("offline", sent.to_string());
            sent += 1;
            batch.push((waiting.key.clone(), stanza));
        }
        for (key, stanza) in batch {
            if let Some(device) = self.device_mut(at) {
                device.remember(&key);
            }
            self.write(id, stanza);
        }
        if left == 0 {
            self.write(id, information(element("offline").attr("count", sent).build()));
            self.set_drain(id, Drain::Live);
        } else {
            self.set_drain(id, Drain::Batches { sent });
        }
    }

    pub fn drain(&self, id: ConnectionId) -> Option<Drain> {
        match self.connections.get(&id)?.phase {
            Phase::LoggedIn { drain, .. } => Some(drain),
            _ => None,
        }
    }

    fn set_drain(&mut self, id: ConnectionId, to: Drain) {
        if let Some(Phase::LoggedIn { drain, .. }) =
            self.connections.get_mut(&id).map(|connection| &mut connection.phase)
        {
            *drain = to;
        }
    }

    /// Closes the connections of the nodes named by the fault `cut_node`.
    pub fn cut_nodes(&mut self) {
        let cut: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| self.faults.cut_node.contains(&connection.caller.node))
            .map(|(id, _)| *id)
            .collect();
        for id in cut {
            self.end(id, None, LoginEnd::Lost);
        }
    }
}

enum Refusal {
    /// The connection is closed without a stanza.
    Cut,
    Failure(Box<Node>),
}

impl Refusal {
    fn reason(reason: u16) -> Self {
        Self::failure(reason, None, None)
    }

    fn failure(reason: u16, code: Option<u16>, expire_seconds: Option<u64>) -> Self {
        let mut failure = element("failure").attr("reason", reason).attr("location", "testnet");
        if let Some(code) = code {
            failure = failure.attr("code", code);
        }
        if let Some(seconds) = expire_seconds {
            failure = failure.attr("expire", seconds);
        }
        Self::Failure(Box::new(failure.build()))
    }
}

fn information(child: Node) -> Node {
    let mut information = parent("ib", [child]);
    information.attrs.insert("from", SERVER);
    information
}
