//! Commands about support tickets. All data is in the store.

use model::customer::Quota;
use model::id::{CustomerId, TicketId};
use model::ticket::{MESSAGES_PER_TICKET, TICKETS_PER_DAY, TicketStatus};
use model::time::Day;

use super::quotas::{open_tickets, recount_tickets};
use super::{DirectoryState, Update};
use crate::command::{Rejection, Reply};
use crate::keys;
use crate::support::{TicketBook, TicketCommand, TicketMessage, TicketRecord, find};
use machine::record::decode;

impl DirectoryState {
    pub(super) fn run_tickets(&mut self, command: TicketCommand, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        match command {
            TicketCommand::Open { ticket, message, forward } => {
                let customer = self.live_customer(ticket.customer_id)?;
                let open = self.is_of_third_format().then(|| open_tickets(&*update.store, ticket.customer_id));
                self.judge_quota(&customer, Quota::TicketsOpen, u64::from(open.unwrap_or(0)))?;
                let open = open.map(|open| open + u32::from(ticket.status.is_open()));
                let number = count_ticket(ticket.customer_id, open, update)?;
                update.store.put(&keys::ticket_of(ticket.customer_id, ticket.id), &[]);
                let ticket = TicketRecord { number, ..ticket };
                Ok(Reply::Ticket(Box::new(say(ticket, &message, forward, update))))
            }
            TicketCommand::Say { ticket, customer, message, status, forward } => {
                let ticket = find(&*update.store, ticket).ok_or(Rejection::TicketNotFound)?;
                if customer.is_some_and(|customer| customer != ticket.customer_id) {
                    return Err(Rejection::TicketNotFound);
                }
                self.live_customer(ticket.customer_id)?;
                if ticket.status == TicketStatus::Closed {
                    return Err(Rejection::TicketClosed);
                }
                if ticket.messages >= MESSAGES_PER_TICKET {
                    return Err(Rejection::TicketFull { limit: MESSAGES_PER_TICKET });
                }
                let said = TicketRecord { status, updated_at: update.at, ..ticket.clone() };
                recount_tickets(&ticket, &said, update);
                Ok(Reply::Ticket(Box::new(say(said, &message, forward, update))))
            }
            TicketCommand::SetStatus { ticket, status } => {
                let ticket = find(&*update.store, ticket).ok_or(Rejection::TicketNotFound)?;
                if ticket.status == status {
                    return Err(Rejection::TicketUnchanged);
                }
                let changed = TicketRecord { status, updated_at: update.at, ..ticket.clone() };
                recount_tickets(&ticket, &changed, update);
                update.put(&keys::ticket(changed.id), &changed);
                Ok(Reply::Ticket(Box::new(changed)))
            }
            TicketCommand::Forwarded(messages) => {
                for (ticket, message) in messages {
                    update.store.delete(&keys::ticket_forward(message, ticket));
                }
                Ok(Reply::Done)
            }
        }
    }
}

/// Counts a ticket, and returns its number. `open` is the number of open tickets including it, if these are counted.
fn count_ticket(customer: CustomerId, open: Option<u32>, update: &mut Update<'_>) -> Result<u32, Rejection> {
    let today = Day::of(update.at);
    let key = keys::ticket_book(customer);
    let book: TicketBook = update.store.get(&key).map(|book| decode(&book)).unwrap_or_default();
    let opened = book.opened_on(today);
    if opened >= TICKETS_PER_DAY {
        return Err(Rejection::TicketLimit { limit: TICKETS_PER_DAY });
    }
    let book = TicketBook { number: book.number + 1, day: today.0, of_day: opened + 1, open: open.or(book.open) };
    update.put(&key, &book);
    Ok(book.number)
}

fn say(ticket: TicketRecord, message: &TicketMessage, forward: bool, update: &mut Update<'_>) -> TicketRecord {
    let ticket = TicketRecord { messages: ticket.messages + 1, ..ticket };
    update.put(&keys::ticket(ticket.id), &ticket);
    update.put(&keys::ticket_message(ticket.id, message.id), message);
    if forward {
        update.store.put(&keys::ticket_forward(message.id, ticket.id), &[]);
    }
    ticket
}

/// Deletes at most `most` of a customer's tickets; returns their number.
pub(super) fn delete_tickets(customer: CustomerId, most: usize, update: &mut Update<'_>) -> usize {
    let found = update.store.scan_range(keys::tickets_of(customer, None), most);
    for (key, _) in &found {
        if let Some(id) = keys::ticket_at_end(key) {
            delete_ticket(id, update);
        }
        update.store.delete(key);
    }
    if found.len() < most {
        update.store.delete(&keys::ticket_book(customer));
    }
    found.len()
}

/// A ticket has few messages, because of their limit.
fn delete_ticket(id: TicketId, update: &mut Update<'_>) {
    for (key, _) in update.store.scan_range(keys::ticket_messages(id), usize::MAX) {
        if let Some(message) = keys::ticket_message_at_end(&key) {
            update.store.delete(&keys::ticket_forward(message, id));
        }
        update.store.delete(&key);
    }
    update.store.delete(&keys::ticket(id));
}
