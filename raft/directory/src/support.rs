//! Support tickets: what the directory holds of them, what can be asked about them, and reading them.
//!
//! Tickets lie on disk alone, as nothing needs them in memory. The support hears of what customers write through an outbox:
//! a row for each such message, in the entry that brings it, until somebody has taken it there.

use model::id::{ChannelId, CustomerId, TicketId, TicketMessageId};
use model::ticket::{Author, Category, Priority, TicketStatus};
use model::time::{Day, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys;
use machine::record::decode;
use machine::{View, scan_in_order};

/// Rows that are read from disk at a time.
const CHUNK: usize = 128;

/// A ticket of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TicketRecord {
    pub id: TicketId,
    pub customer_id: CustomerId,
    /// Counts the account's tickets from 1. The state machine gives it.
    pub number: u32,
    pub subject: String,
    pub category: Category,
    pub priority: Priority,
    pub status: TicketStatus,
    pub channel_id: Option<ChannelId>,
    pub request_id: Option<String>,
    /// The address of the member who opened it.
    pub created_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// How many messages it holds.
    pub messages: u32,
}

/// A message of a ticket; the first one opens it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageView", description = "")]
pub struct TicketMessage {
    pub id: TicketMessageId,
    /// Who wrote it.
    pub author: Author,
    /// What was written.
    pub message: String,
    pub created_at: Timestamp,
}

/// An account's count of tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketBook {
    /// Of the newest ticket.
    pub number: u32,
    /// The day of the newest ticket, in days from 1970, and how many it has seen.
    pub day: u32,
    pub of_day: u32,
    /// How many are neither solved nor closed; not counted before the cluster's format knew quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<u32>,
}

impl TicketBook {
    /// How many tickets were opened on a day, when nothing was opened later.
    pub fn opened_on(&self, day: Day) -> u32 {
        if self.day == day.0 { self.of_day } else { 0 }
    }
}

/// What can be asked of the directory about tickets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TicketCommand {
    /// `forward` leaves the message for the support to hear of.
    Open { ticket: TicketRecord, message: TicketMessage, forward: bool },
    /// A message more, of a ticket that is not closed. A customer's goes to the support's turn, and `customer` says whose
    /// ticket it must be.
    Say { ticket: TicketId, customer: Option<CustomerId>, message: TicketMessage, status: TicketStatus, forward: bool },
    /// Whose turn it is, or that it is closed.
    SetStatus { ticket: TicketId, status: TicketStatus },
    /// The support has heard of these messages, or never will.
    Forwarded(Vec<(TicketId, TicketMessageId)>),
}

/// A customer's message that the support is to hear of.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    pub ticket: TicketRecord,
    pub message: TicketMessage,
}

pub fn find(view: &(impl View + ?Sized), id: TicketId) -> Option<TicketRecord> {
    view.get(&keys::ticket(id)).map(|row| decode(&row))
}

/// Tickets of an account, or of all, the newest first and beginning after `after`.
pub fn list(
    view: &impl View,
    customer: Option<CustomerId>,
    status: Option<TicketStatus>,
    after: Option<TicketId>,
    limit: usize,
) -> Vec<TicketRecord> {
    let range = match customer {
        Some(customer) => keys::tickets_of(customer, after),
        None => keys::tickets(after),
    };
    let rows = scan_in_order(view, range, CHUNK, false);
    let tickets = rows.filter_map(|(key, _)| find(view, keys::ticket_at_end(&key)?));
    tickets.filter(|ticket| status.is_none_or(|status| ticket.status == status)).take(limit).collect()
}
