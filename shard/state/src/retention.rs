//! How long a shard keeps what it stores, and the words in which what is past is deleted.

use std::time::Duration;

use machine::View;
use model::address::Address;
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId};
use model::settings::Settings;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::history::Place;
use crate::projection::Kind;
use crate::settings::SettingsRow;
use crate::usage::Hour;

const DAY: Duration = Duration::from_secs(86_400);

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
    /// How long the row of a deleted channel is kept, and how many of them in a shard.
    pub deleted_channels: Duration,
    pub most_deleted_channels: usize,
    /// How long the phone address behind a LID is kept after it was first seen, and how many of a channel.
    pub lids: Duration,
    pub most_lids: usize,
    /// Between two looks at what is due.
    pub expire_every: Duration,
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

/// What the owner found to be past its time, to be deleted by the state machine; a step's worth of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Expire {
    /// The bodies of messages; who wrote to whom and when stays for repeats and receipts.
    Bodies { channel: ChannelId, rows: Vec<Place> },
    /// Messages with all that belongs to them.
    Messages { channel: ChannelId, rows: Vec<Place> },
    /// Deliveries of an endpoint that have ended, with their attempts, and with the events that nothing else delivers.
    Deliveries { endpoint: EndpointId, deliveries: Vec<DeliveryId> },
    /// The note that a customer has deliveries of an endpoint, when there are none.
    Endpoint { customer: CustomerId, endpoint: EndpointId },
    /// Moves of the status machine, by time and version.
    StatusChanges { channel: ChannelId, changes: Vec<(Timestamp, u64)> },
    /// What was used in an hour.
    Usage { rows: Vec<UsagePlace> },
    /// Rows of the projection, by kind and id.
    Projected { channel: ChannelId, rows: Vec<(Kind, String)> },
    /// The rows of channels that are deleted and wiped. Of the third format.
    Channels { channels: Vec<ChannelId> },
    /// The phone addresses behind LIDs. Of the third format.
    Lids { channel: ChannelId, lids: Vec<Address> },
}

/// How long is kept what a customer has used: the 93 days that can be asked for, and a margin. The day that has just
/// begun counts as one.
pub const USAGE_DAYS: u32 = 100;

/// Where a row of use stands.
pub type UsagePlace = (CustomerId, Hour, ChannelId);

impl Expire {
    /// The word for it in metrics, and how many things it names.
    pub fn counted(&self) -> (&'static str, usize) {
        match self {
            Self::Bodies { rows, .. } => ("bodies", rows.len()),
            Self::Messages { rows, .. } => ("messages", rows.len()),
            Self::Deliveries { deliveries, .. } => ("deliveries", deliveries.len()),
            Self::Endpoint { .. } => ("endpoints", 1),
            Self::StatusChanges { changes, .. } => ("status_changes", changes.len()),
            Self::Usage { rows } => ("usage", rows.len()),
            Self::Projected { rows, .. } => ("projected", rows.len()),
            Self::Channels { channels } => ("channels", channels.len()),
            Self::Lids { lids, .. } => ("lids", lids.len()),
        }
    }
}

impl Retention {
    /// What holds for a channel with these settings. Where the deployment stores no bodies, no channel does.
    pub fn of(&self, settings: &Settings) -> Keep {
        let history = settings.history_retention_days.map_or(self.history, |days| DAY * days);
        Keep {
            history,
            bodies: self.store_bodies && settings.store_bodies && !history.is_zero(),
            envelopes: self.envelopes.max(history),
        }
    }

    /// From when on a channel's messages are shown; `None` shows none.
    pub fn oldest_shown(&self, view: &dyn View, channel: ChannelId, now: Timestamp) -> Option<Timestamp> {
        self.of(&SettingsRow::of(view, channel).settings).oldest(now)
    }
}

impl Keep {
    /// From when on messages are shown; `None` shows none.
    pub fn oldest(self, now: Timestamp) -> Option<Timestamp> {
        (!self.history.is_zero()).then(|| now.minus(self.history))
    }
}
