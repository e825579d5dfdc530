//! The engine: state and rules of the network, without clock, socket or randomness of its own.
//!
//! Every entry point gets the current time, changes the state, and leaves [`Effect`]s to carry out. Internal methods
//! read the time from the engine. Later work waits in a queue of [`timers`]; whoever runs the engine calls
//! [`Engine::advance`] at the time that [`Engine::next_due`] names. Randomness comes from the seed.
//!
//! - [`sessions`]: connections of nodes, logins, conflicts, fencing, ends.
//! - [`pairing`]: QR texts, pair codes, links, credentials.
//! - [`traffic`]: sends, acceptance, delivery, receipts; [`rules`]: what is refused; [`reading`]: what phones do with
//!   received messages.
//! - [`media`]: media of messages; [`pictures`]: pictures of groups, newsletters and profiles.
//! - [`operations`]: requests other than sends, and their notices; [`groups`], [`communities`], [`newsletters`]:
//!   members and rules; [`gatherings`]: their numbers; [`calls`]: calls; [`business`]: catalogs and orders.
//! - [`posting`]: posting of stories, which [`stories`] stores.
//! - [`control`], [`inbox`], [`writing`]: requests of the control API.
//! - [`stored`]: the state that is persisted.
//! - [`subscriber`], [`subscribers`], [`account`], [`message`], [`mailbox`], [`ledger`]: the state.

mod account;
mod business;
mod calls;
mod communities;
mod control;
mod gatherings;
pub mod groups;
mod inbox;
mod labels;
mod ledger;
mod mailbox;
mod media;
mod message;
pub mod newsletters;
mod operations;
mod pairing;
mod pictures;
mod posting;
mod reading;
mod rules;
mod sessions;
mod stored;
mod stories;
mod subscriber;
mod subscribers;
#[cfg(test)]
mod tests;
mod timers;
mod traffic;
mod writing;

use std::collections::{BTreeMap, HashMap};

use model::address::Suffixes;
use model::id::{Epoch, NodeId};
use model::time::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use self::business::Businesses;
use self::calls::Calls;
use self::communities::Communities;
use self::groups::Groups;
use self::ledger::Ledger;
pub use self::media::Granted;
use self::media::MediaStore;
use self::message::Messages;
use self::newsletters::Newsletters;
use self::pairing::LinkAs;
use self::pictures::Pictures;
use self::sessions::{LoginRecord, NodeLink};
pub use self::stored::{Snapshot, StoredError};
use self::stories::Stories;
use self::subscribers::Subscribers;
use self::timers::Timers;
use self::traffic::InFlight;
use super::answers::{ControlError, LoginEnd, Stats};
use super::faults::Faults;
use super::number::Number;
use crate::driver::EndReason;
use crate::operation::{Answer, Refused};
use crate::wire::{NetworkFrame, NodeFrame, SessionFrame, SessionNumber, WIRE_VERSION};

/// One TCP connection of a node, numbered by the server. Numbers are never reused.
pub type ConnectionId = u64;

/// Identifies a call of the control API that waits for a device to store its credentials.
pub type Ticket = u64;

/// One session of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub connection: ConnectionId,
    pub number: SessionNumber,
}

/// What the caller of the engine has to do.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Send a frame on a connection.
    Send { connection: ConnectionId, frame: NetworkFrame },
    /// Close a connection, whose sessions the engine has dropped already.
    Disconnect { connection: ConnectionId },
    /// Report the result of a link: the device's id, or why it failed.
    Linked { ticket: Ticket, outcome: Result<u32, ControlError> },
}

impl Effect {
    fn to(session: SessionId, frame: SessionFrame) -> Self {
        let frame = NetworkFrame::Session { session: session.number, frame };
        Self::Send { connection: session.connection, frame }
    }
}

/// Work that waits in the queue of timers.
#[derive(Debug)]
enum Later {
    RotateQr { session: SessionId, sequence: u8 },
    EndPairing { session: SessionId },
    Login { session: SessionId },
    Answer(Box<InFlight>),
    AutoRead { number: Number, position: u64 },
    CallTimeout { id: String },
}

pub struct Engine {
    /// The current time: the argument of [`Self::advance`] or, while a timer runs, the time at which it was due.
    now: Timestamp,
    rng: StdRng,
    suffixes: Suffixes,
    /// URL of the control API, without a trailing slash.
    control_url: String,
    /// Factor for QR lifetimes, unless a fault overrides it.
    base_time_scale: f64,
    /// Distinguishes this run's inbound items from those of other runs.
    item_tag: String,
    /// Number of the last inbound item. It survives a reset, so that no item id is reused.
    items: u64,
    subscribers: Subscribers,
    links: BTreeMap<ConnectionId, NodeLink>,
    qr_texts: HashMap<String, SessionId>,
    pair_codes: HashMap<String, SessionId>,
    messages: Messages,
    groups: Groups,
    communities: Communities,
    newsletters: Newsletters,
    calls: Calls,
    businesses: Businesses,
    stories: Stories,
    ledger: Ledger,
    media: MediaStore,
    pictures: Pictures,
    /// All logins; `login_seq` is the position plus 1.
    logins: Vec<LoginRecord>,
    /// Answers to operations, by subscriber and id.
    answered: HashMap<(Number, Uuid), Result<Box<Answer>, Refused>>,
    stats: Stats,
    faults: Faults,
    timers: Timers<Later>,
    effects: Vec<Effect>,
}

impl Engine {
    pub fn new(seed: [u8; 32], control_url: String, qr_time_scale: f64) -> Self {
        let mut rng = StdRng::from_seed(seed);
        let item_tag = format!("{:08x}", rng.random::<u32>());
        Self {
            now: Timestamp(0),
            rng,
            suffixes: Suffixes::simulated(),
            control_url,
            base_time_scale: qr_time_scale,
            item_tag,
            items: 0,
            subscribers: Subscribers::default(),
            links: BTreeMap::new(),
            qr_texts: HashMap::new(),
            pair_codes: HashMap::new(),
            messages: Messages::default(),
            groups: Groups::default(),
            communities: Communities::default(),
            newsletters: Newsletters::default(),
            calls: Calls::default(),
            businesses: Businesses::default(),
            stories: Stories::default(),
            ledger: Ledger::default(),
            media: MediaStore::default(),
            pictures: Pictures::default(),
            logins: Vec::new(),
            answered: HashMap::new(),
            stats: Stats::default(),
            faults: Faults::none(qr_time_scale),
            timers: Timers::new(),
            effects: Vec::new(),
        }
    }

    /// Takes the accumulated effects, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`Self::advance`] must be called next.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next_due()
    }

    /// Runs all due timers, each at its own time. Must be called before anything else happens at `now`.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some((due, later)) = self.timers.pop_due(now) {
            self.now = due;
            match later {
                Later::RotateQr { session, sequence } => self.rotate_qr(session, sequence),
                Later::EndPairing { session } => self.end_pairing(session),
                Later::Login { session } => self.admit(session),
                Later::Answer(in_flight) => self.judge(*in_flight),
                Later::AutoRead { number, position } => self.auto_read(number, position),
                Later::CallTimeout { id } => self.call_timeout(&id),
            }
        }
        self.now = now;
    }

    /// Handles a frame from a node.
    pub fn frame(&mut self, now: Timestamp, connection: ConnectionId, frame: NodeFrame) {
        self.advance(now);
        let at = |number| SessionId { connection, number };
        if let NodeFrame::Hello { version, node } = frame {
            if version == WIRE_VERSION {
                self.connect(connection, node);
            } else {
                self.effects.push(Effect::Disconnect { connection });
            }
            return;
        }
        if !self.links.contains_key(&connection) {
            // The connection sent no hello, or was cut a moment ago.
            self.effects.push(Effect::Disconnect { connection });
            return;
        }
        match frame {
            // Media is handled outside the engine, which only decides about it.
            NodeFrame::Hello { .. } | NodeFrame::Pong | NodeFrame::Transfer { .. } => {}
            NodeFrame::Login { session, epoch, credentials } => self.login(at(session), epoch, credentials),
            NodeFrame::Via { session, proxy } => self.comes_via(at(session), proxy),
            NodeFrame::Pair { session, epoch, device_name, full_history } => {
                self.pair(at(session), epoch, LinkAs { name: device_name, full_history });
            }
            NodeFrame::PairCode { session, phone } => self.pair_code(at(session), &phone),
            NodeFrame::Stored { session } => self.stored(at(session)),
            NodeFrame::Send { session, message } => self.send(at(session), *message),
            NodeFrame::Operate { session, id, operation } => self.operate(at(session), id, *operation),
            NodeFrame::Acknowledge { session, item } => self.acknowledge(at(session), &item),
            NodeFrame::Logout { session } => self.logout(at(session)),
            NodeFrame::Close { session } => {
                self.end_session(at(session), LoginEnd::Closed, None);
                self.emit(at(session), SessionFrame::Closed);
            }
            NodeFrame::Reset { session } => self.end_session(at(session), LoginEnd::Lost, None),
        }
    }

    /// Reports that a connection is gone.
    pub fn disconnected(&mut self, now: Timestamp, connection: ConnectionId) {
        self.advance(now);
        self.lose(connection);
    }

    fn emit(&mut self, session: SessionId, frame: SessionFrame) {
        self.effects.push(Effect::to(session, frame));
    }

    /// Ends a session from the network's side and tells the node why.
    fn dismiss(&mut self, session: SessionId, reason: EndReason) {
        self.end_session(session, LoginEnd::Closed, Some(reason));
    }

    /// Returns `true` with a probability of `percent`.
    fn chance(&mut self, percent: f64) -> bool {
        percent > 0.0 && self.rng.random_bool((percent / 100.0).min(1.0))
    }
}

/// The node and epoch that hold a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    node: NodeId,
    epoch: Epoch,
}
