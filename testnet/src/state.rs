//! The whole state of the server, behind one lock. Its methods handle received stanzas and put the results into the
//! outlets of connections, which never blocks; later actions are [`Timer`]s.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use model::time::Timestamp;
use wacore_binary::{Node, NodeRef};

use crate::account::Account;
use crate::check::Check;
use crate::faults::Faults;
use crate::groups::Group;
use crate::ledger::Ledger;
use crate::login::{Connection, Phase};
use crate::media::Files;
use crate::number::Number;
use crate::wire::ServerKeys;

pub type ConnectionId = u64;

/// An action that is due later.
pub enum Timer {
    /// A response to a message or a query.
    Answer { connection: ConnectionId, stanza: Node },
    /// A phone reads a message.
    Read { number: Number, id: String, from: Number },
}

pub struct State {
    pub accounts: BTreeMap<Number, Account>,
    /// Groups by the user part of their address.
    pub groups: BTreeMap<String, Group>,
    pub connections: HashMap<ConnectionId, Connection>,
    pub keys: ServerKeys,
    pub faults: Faults,
    pub ledger: Ledger,
    pub check: Check,
    pub files: Files,
    /// Host and port of the media port.
    pub media_host: String,
    /// Host and port of the control API, for picture URLs.
    pub control_host: String,
    timers: BTreeMap<(Instant, u64), Timer>,
    counter: u64,
}

impl State {
    pub fn new(qr_time_scale: f64, media_host: String, control_host: String) -> Self {
        Self {
            accounts: BTreeMap::new(),
            groups: BTreeMap::new(),
            connections: HashMap::new(),
            keys: ServerKeys::generate(),
            faults: Faults::none(qr_time_scale),
            ledger: Ledger::default(),
            check: Check::default(),
            files: Files::default(),
            media_host,
            control_host,
            timers: BTreeMap::new(),
            counter: 0,
        }
    }

    /// Resets everything except the server's key, which is permanent, and closes all connections.
    pub fn reset(&mut self) {
        for connection in self.connections.values() {
            connection.outlet.cut();
        }
        let (keys, counter) = (self.keys.clone(), self.counter);
        let (media, control) = (self.media_host.clone(), self.control_host.clone());
        *self = Self { keys, counter, ..Self::new(self.faults.qr_time_scale, media, control) };
    }

    /// A unique number.
    pub fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// The current time in seconds, as stanzas use it.
    pub fn seconds(&self) -> i64 {
        self.now().unix_seconds()
    }

    pub fn later(&mut self, delay: Duration, timer: Timer) {
        self.at(Instant::now() + delay, timer);
    }

    pub fn at(&mut self, due: Instant, timer: Timer) {
        let order = self.next();
        self.timers.insert((due, order), timer);
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.timers.keys().next().map(|(due, _)| *due)
    }

    /// Runs all timers that are due.
    pub fn advance(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Timer::Answer { connection, stanza } => self.write(connection, stanza),
                Timer::Read { number, id, from } => self.read(number, &id, from),
            }
        }
    }

    pub fn write(&self, connection: ConnectionId, stanza: Node) {
        if let Some(connection) = self.connections.get(&connection)
            && !matches!(connection.phase, Phase::Ended)
        {
            connection.outlet.send(stanza);
        }
    }

    /// Handles a stanza of a client.
    pub fn take(&mut self, connection: ConnectionId, stanza: &NodeRef<'_>) {
        let Some(found) = self.connections.get(&connection) else { return };
        match &found.phase {
            Phase::Ended => self.count_late_write(),
            Phase::Registering(_) => self.take_registering(connection, stanza),
            Phase::LoggedIn { at, .. } => {
                let at = *at;
                match stanza.tag.as_ref() {
                    "iq" => self.take_query(connection, at, stanza),
                    "message" => self.take_message(connection, at, stanza),
                    "receipt" => self.take_receipt(connection, at, stanza),
                    "ack" => self.take_acknowledgement(connection, at, stanza),
                    "ib" => self.take_information(connection, at, stanza),
                    "presence" | "chatstate" => self.take_presence(at, stanza),
                    tag => tracing::trace!(tag, "a stanza without an answer"),
                }
            }
        }
    }

    pub fn count_late_write(&mut self) {
        self.ledger.stats.late_writes += 1;
    }
}
