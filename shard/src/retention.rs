//! How long a shard keeps what it stores (supplement 5.4 and 20.9).

use std::time::Duration;

use model::id::ChannelId;
use model::time::Timestamp;

/// What the deployment says.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Zero stores nothing that history could show.
    pub history: Duration,
    /// Whether messages are kept with their bodies, and not as metadata only.
    pub store_bodies: bool,
    /// How long at least a message's id and addresses are kept: the network repeats what was not acknowledged, and
    /// receipts come late. History shows nothing of what it keeps beyond its own time.
    pub envelopes: Duration,
    /// Deliveries that reached their endpoint.
    pub delivered: Duration,
    /// All other deliveries that have ended.
    pub deliveries: Duration,
    /// Between two looks at what is due.
    pub trim_every: Duration,
}

/// What holds for the messages of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub history: Duration,
    /// Whether bodies are stored at all.
    pub bodies: bool,
    /// See [`Retention::envelopes`]; never shorter than the history.
    pub envelopes: Duration,
}

impl Retention {
    /// What holds for a channel. One that settles its own retention is asked for here.
    pub fn of(&self, _channel: ChannelId) -> Keep {
        Keep {
            history: self.history,
            bodies: self.store_bodies && !self.history.is_zero(),
            envelopes: self.envelopes.max(self.history),
        }
    }
}

impl Keep {
    /// From when on messages are shown; `None` shows none.
    pub fn oldest(self, now: Timestamp) -> Option<Timestamp> {
        (!self.history.is_zero()).then(|| now.minus(self.history))
    }
}
