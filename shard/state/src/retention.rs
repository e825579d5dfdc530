//! How long a shard keeps its data, and the commands that delete expired data.

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

/// The retention periods of the deployment.
#[derive(Clone, Debug)]
pub struct Retention {
    /// How long the history shows messages; zero stores nothing that it could show.
    pub history: Duration,
    /// Whether messages are stored with their bodies, not only as metadata.
    pub store_bodies: bool,
    /// The least time that a message's id and addresses are kept: the network repeats messages that were not
    /// acknowledged, and receipts come late. The history shows nothing beyond its own period.
    pub envelopes: Duration,
    /// How long deliveries that reached their endpoint are kept.
    pub delivered: Duration,
    /// How long all other deliveries that have ended are kept.
    pub deliveries: Duration,
    /// How long the row of a deleted channel is kept, and the most such rows in a shard.
    pub deleted_channels: Duration,
    pub most_deleted_channels: usize,
    /// How long the phone address behind a LID is kept after it was first seen, and the most such rows of a channel.
    pub lids: Duration,
    pub most_lids: usize,
    /// Pause between two searches for expired data.
    pub expire_every: Duration,
}

/// The retention of one channel's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub history: Duration,
    /// Whether bodies are stored at all.
    pub bodies: bool,
    /// See [`Retention::envelopes`]; never shorter than the history.
    pub envelopes: Duration,
}

/// Rows that the owner found to be expired, for the state machine to delete: the rows of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Expire {
    /// The bodies of messages; the ids, addresses and times stay for repeats and receipts.
    Bodies { channel: ChannelId, rows: Vec<Place> },
    /// Messages with all their rows.
    Messages { channel: ChannelId, rows: Vec<Place> },
    /// Deliveries of an endpoint that have ended, with their attempts, and with events that no other delivery needs.
    Deliveries { endpoint: EndpointId, deliveries: Vec<DeliveryId> },
    /// The row saying that a customer has deliveries of an endpoint, if there are none.
    Endpoint { customer: CustomerId, endpoint: EndpointId },
    /// Transitions of the status machine, by time and version.
    StatusChanges { channel: ChannelId, changes: Vec<(Timestamp, u64)> },
    /// The usage of an hour.
    Usage { rows: Vec<UsagePlace> },
    /// Rows of the projection, by kind and id.
    Projected { channel: ChannelId, rows: Vec<(Kind, String)> },
    /// The rows of channels that are deleted and wiped. From format 3 on.
    Channels { channels: Vec<ChannelId> },
    /// The phone addresses behind LIDs. From format 3 on.
    Lids { channel: ChannelId, lids: Vec<Address> },
}

/// How many days a customer's usage is kept: the 93 days that can be queried, and a margin. The current day counts.
pub const USAGE_DAYS: u32 = 100;

/// The key of a usage row.
pub type UsagePlace = (CustomerId, Hour, ChannelId);

impl Expire {
    /// Its label in metrics, and the number of rows.
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
    /// The retention of a channel with these settings. If the deployment stores no bodies, no channel does.
    pub fn of(&self, settings: &Settings) -> Keep {
        let history = settings.history_retention_days.map_or(self.history, |days| DAY * days);
        Keep {
            history,
            bodies: self.store_bodies && settings.store_bodies && !history.is_zero(),
            envelopes: self.envelopes.max(history),
        }
    }

    /// The time from which on a channel's messages are shown; `None` shows none.
    pub fn oldest_shown(&self, view: &dyn View, channel: ChannelId, now: Timestamp) -> Option<Timestamp> {
        self.of(&SettingsRow::of(view, channel).settings).oldest(now)
    }
}

impl Keep {
    /// The time from which on messages are shown; `None` shows none.
    pub fn oldest(self, now: Timestamp) -> Option<Timestamp> {
        (!self.history.is_zero()).then(|| now.minus(self.history))
    }
}
