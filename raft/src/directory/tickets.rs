//! Reads support tickets, which are on disk only.

use model::id::{CustomerId, TicketId};
use model::ticket::TicketStatus;

use super::handle::Directory;
use super::keys;
use super::state::open_tickets;
use super::support::{Forward, TicketMessage, TicketRecord, find, list};
use crate::machine::View;
use crate::record::decode;

impl Directory {
    /// A ticket of any account. Reads from disk.
    pub fn ticket(&self, id: TicketId) -> Option<TicketRecord> {
        find(&self.group().reader(), id)
    }

    /// Messages of a ticket, oldest first. Reads from disk.
    pub fn ticket_messages(&self, id: TicketId) -> Vec<TicketMessage> {
        let rows = self.group().reader().scan_range(keys::ticket_messages(id), usize::MAX);
        rows.iter().map(|(_, row)| decode(row)).collect()
    }

    /// Tickets of one account or of all, newest first, after `after`. Reads from disk.
    pub fn tickets(
        &self,
        customer: Option<CustomerId>,
        status: Option<TicketStatus>,
        after: Option<TicketId>,
        limit: usize,
    ) -> Vec<TicketRecord> {
        list(&self.group().reader(), customer, status, after, limit)
    }

    /// Number of an account's tickets that are neither solved nor closed. Reads from disk.
    pub fn open_tickets(&self, customer: CustomerId) -> u32 {
        open_tickets(&self.group().reader(), customer)
    }

    /// Messages that are to be forwarded to the support, oldest first. Reads from disk.
    pub fn forwards(&self, limit: usize) -> Vec<Forward> {
        let reader = self.group().reader();
        let waiting = reader.scan_range(keys::TICKET_FORWARDS.range(), limit);
        waiting
            .iter()
            .filter_map(|(key, _)| {
                let (message, ticket) = keys::parse_ticket_forward(key)?;
                let message = reader.get(&keys::ticket_message(ticket, message))?;
                Some(Forward { ticket: find(&reader, ticket)?, message: decode(&message) })
            })
            .collect()
    }
}
