//! Support tickets: records, commands, and reads.
//!
//! Tickets are on disk only, as nothing needs them in memory. Customers' messages reach the support through an outbox:
//! the entry that adds a message also adds a row, which stays until the message was forwarded.

use model::id::{ChannelId, CustomerId, TicketId, TicketMessageId};
use model::ticket::{Author, Category, Priority, TicketStatus};
use model::time::{Day, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys;
use machine::record::decode;
use machine::{View, scan_in_order};

/// Rows read from disk at a time.
const CHUNK: usize = 128;

/// A ticket of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TicketRecord {
    pub id: TicketId,
    pub customer_id: CustomerId,
    /// Sequence number among the account's tickets, from 1. Assigned by the state machine.
    pub number: u32,
    pub subject: String,
    pub category: Category,
    pub priority: Priority,
    pub status: TicketStatus,
    pub channel_id: Option<ChannelId>,
    pub request_id: Option<String>,
    /// Address of the member who opened it.
    pub created_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Number of its messages.
    pub messages: u32,
}

/// A message of a ticket; the first one opens it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageView", description = "")]
pub struct TicketMessage {
    pub id: TicketMessageId,
    /// Author of the message.
    pub author: Author,
    /// Text of the message.
    pub message: String,
    pub created_at: Timestamp,
}

/// An account's count of tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketBook {
    /// Number of the newest ticket.
    pub number: u32,
    /// Day of the newest ticket, in days since 1970, and the number of tickets on that day.
    pub day: u32,
    pub of_day: u32,
    /// Number of tickets that are neither solved nor closed; not counted before the cluster's format knew quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<u32>,
}

impl TicketBook {
    /// Number of tickets opened on `day`, if none was opened on a later day.
    pub fn opened_on(&self, day: Day) -> u32 {
        if self.day == day.0 { self.of_day } else { 0 }
    }
}

/// Commands about tickets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TicketCommand {
    /// Opens a ticket. `forward` adds the message to the outbox for the support.
    Open { ticket: TicketRecord, message: TicketMessage, forward: bool },
    /// Adds a message to a ticket that is not closed, and sets its status. For a message of a customer, `customer` says
    /// whose ticket it must be.
    Say { ticket: TicketId, customer: Option<CustomerId>, message: TicketMessage, status: TicketStatus, forward: bool },
    /// Sets the status: whose turn it is, or that the ticket is closed.
    SetStatus { ticket: TicketId, status: TicketStatus },
    /// Removes these messages from the outbox: they were forwarded, or never will be.
    Forwarded(Vec<(TicketId, TicketMessageId)>),
}

/// A customer's message that is to be forwarded to the support.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    pub ticket: TicketRecord,
    pub message: TicketMessage,
}

pub fn find(view: &(impl View + ?Sized), id: TicketId) -> Option<TicketRecord> {
    view.get(&keys::ticket(id)).map(|row| decode(&row))
}

/// Tickets of one account or of all, newest first, after `after`.
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
