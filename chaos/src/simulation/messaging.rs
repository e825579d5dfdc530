//! The messaging network of a run: devices with one live session each, the messages that they sent, and the items that
//! wait for them. Its rules are those of the simulator's engine: a higher epoch fences, any other second login is a
//! conflict, a late write is dropped, and a repeated id is accepted without effect.

use std::collections::{BTreeMap, VecDeque};

use model::id::{ChannelId, Epoch, MessageId};
use parking_lot::Mutex;
use raft::simulation::Life;

use super::checks::Checks;

/// The most items in flight to a session.
const WINDOW: usize = 4;

/// Identifies a session. Ids are never reused.
pub type SessionId = u64;

#[derive(Clone, Copy)]
struct Session {
    id: SessionId,
    life: Life,
    epoch: Epoch,
}

/// One channel's device.
#[derive(Default)]
struct Device {
    live: Option<Session>,
    highest: Epoch,
    /// Messages in the order of acceptance.
    ledger: Vec<MessageId>,
    /// Items that no session has acknowledged.
    mailbox: VecDeque<MessageId>,
}

#[derive(Default)]
struct Inner {
    devices: BTreeMap<ChannelId, Device>,
    arrived: BTreeMap<ChannelId, Vec<MessageId>>,
}

pub struct Messaging {
    inner: Mutex<Inner>,
    checks: Checks,
}

/// The session is not, or no longer, the live one of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl Messaging {
    pub fn new(checks: Checks) -> Self {
        Self { inner: Mutex::default(), checks }
    }

    fn live<T>(&self, channel: ChannelId, id: SessionId, with: impl FnOnce(&mut Device) -> T) -> Result<T, Ended> {
        let mut inner = self.inner.lock();
        let device = inner.devices.entry(channel).or_default();
        if device.live.is_some_and(|live| live.id == id) { Ok(with(device)) } else { Err(Ended) }
    }

    /// Logs a session in, in place of the one before. A device has one owner at a time, and epochs never fall (I3).
    pub fn login(&self, channel: ChannelId, id: SessionId, life: Life, epoch: Epoch) {
        let (before, highest) = {
            let mut inner = self.inner.lock();
            let device = inner.devices.entry(channel).or_default();
            let highest = device.highest;
            device.highest = highest.max(epoch);
            (device.live.replace(Session { id, life, epoch }), highest)
        };
        if epoch < highest {
            self.checks.violated(format_args!("channel {channel}: a login of epoch {epoch} after one of {highest}"));
        }
        if let Some(before) = before.filter(|before| before.epoch >= epoch) {
            self.checks.violated(format_args!(
                "channel {channel}: node {} in epoch {epoch} took the stream from node {} in epoch {}",
                life.node, before.life.node, before.epoch
            ));
        }
    }

    pub fn send(&self, channel: ChannelId, id: SessionId, message: &MessageId) -> Result<(), Ended> {
        self.live(channel, id, |device| {
            if !device.ledger.contains(message) {
                device.ledger.push(message.clone());
            }
        })
    }

    /// The items that wait for a device, oldest first, up to the window.
    pub fn items(&self, channel: ChannelId, id: SessionId) -> Result<Vec<MessageId>, Ended> {
        self.live(channel, id, |device| device.mailbox.iter().take(WINDOW).cloned().collect())
    }

    pub fn acknowledge(&self, channel: ChannelId, id: SessionId, item: &MessageId) -> Result<(), Ended> {
        self.live(channel, id, |device| device.mailbox.retain(|waiting| waiting != item))
    }

    pub fn close(&self, channel: ChannelId, id: SessionId) -> Result<(), Ended> {
        self.live(channel, id, |device| device.live = None)
    }

    /// Ends all sessions of a node, whose connection is lost.
    pub fn lost(&self, life: Life) {
        for device in self.inner.lock().devices.values_mut() {
            if device.live.is_some_and(|live| live.life == life) {
                device.live = None;
            }
        }
    }

    /// Adds an inbound message for a channel.
    pub fn arrives(&self, channel: ChannelId, item: MessageId) {
        let mut inner = self.inner.lock();
        inner.devices.entry(channel).or_default().mailbox.push_back(item.clone());
        inner.arrived.entry(channel).or_default().push(item);
    }

    pub fn ledger(&self, channel: ChannelId) -> Vec<MessageId> {
        self.inner.lock().devices.get(&channel).map(|device| device.ledger.clone()).unwrap_or_default()
    }

    pub fn arrived(&self, channel: ChannelId) -> Vec<MessageId> {
        self.inner.lock().arrived.get(&channel).cloned().unwrap_or_default()
    }

    /// Whether all items that arrived have been acknowledged.
    pub fn is_read(&self, channel: ChannelId) -> bool {
        self.inner.lock().devices.get(&channel).is_none_or(|device| device.mailbox.is_empty())
    }
}
