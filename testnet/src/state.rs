//! Everything the server knows, behind one lock. Its methods take what arrives and write what follows from it to the
//! outlets of connections, which never waits; what is due later stands in [`Timer`]s.

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

/// What is done later.
pub enum Timer {
    /// An answer to a message or to a question.
    Answer { connection: ConnectionId, stanza: Node },
    /// A phone reads what it got from somebody.
    Read { number: Number, id: String, from: Number },
}

pub struct State {
    pub accounts: BTreeMap<Number, Account>,
    /// By the user part of their address.
    pub groups: BTreeMap<String, Group>,
    pub connections: HashMap<ConnectionId, Connection>,
    pub keys: ServerKeys,
    pub faults: Faults,
    pub ledger: Ledger,
    pub check: Check,
    pub files: Files,
    /// Host and port of the media port.
    pub media_host: String,
    /// Of the control API, by which pictures are looked at.
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

    /// Forgets everything but its own key, which is the network's for good, and cuts everybody off.
    pub fn reset(&mut self) {
        for connection in self.connections.values() {
            connection.outlet.cut();
        }
        let (keys, counter) = (self.keys.clone(), self.counter);
        let (media, control) = (self.media_host.clone(), self.control_host.clone());
        *self = Self { keys, counter, ..Self::new(self.faults.qr_time_scale, media, control) };
    }

    /// A number that was not given out before.
    pub fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Seconds, as stanzas have them.
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

    /// Does what is due.
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

    /// What a client wrote.
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
