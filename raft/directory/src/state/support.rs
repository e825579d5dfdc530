//! What the commands about support tickets do. All of it lies in the store.

use model::customer::Quota;
use model::id::{CustomerId, TicketId};
use model::ticket::{MESSAGES_PER_TICKET, TICKETS_PER_DAY, TicketStatus};
use model::time::{Day, Timestamp};

use super::DirectoryState;
use super::quotas::{open_tickets, recount_tickets};
use crate::command::{Rejection, Reply};
use crate::keys;
use crate::support::{TicketBook, TicketCommand, TicketMessage, TicketRecord, find};
use machine::State;
use machine::record::{decode, encode};

impl DirectoryState {
    pub(super) fn run_tickets(
        &mut self,
        command: TicketCommand,
        at: Timestamp,
        store: &mut dyn State,
    ) -> Result<Reply, Rejection> {
        match command {
            TicketCommand::Open { ticket, message, forward } => {
                let customer = self.live_customer(ticket.customer_id)?;
                let open = self.is_of_third_format().then(|| open_tickets(store, ticket.customer_id));
                self.judge_quota(&customer, Quota::TicketsOpen, u64::from(open.unwrap_or(0)))?;
                let open = open.map(|open| open + u32::from(ticket.status.is_open()));
                let number = count_ticket(ticket.customer_id, Day::of(at), open, store)?;
                store.put(&keys::ticket_of(ticket.customer_id, ticket.id), &[]);
                let ticket = TicketRecord { number, ..ticket };
                Ok(Reply::Ticket(Box::new(say(ticket, &message, forward, store))))
            }
            TicketCommand::Say { ticket, customer, message, status, forward } => {
                let ticket = find(store, ticket).ok_or(Rejection::TicketNotFound)?;
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
                let said = TicketRecord { status, updated_at: at, ..ticket.clone() };
                recount_tickets(&ticket, &said, store);
                Ok(Reply::Ticket(Box::new(say(said, &message, forward, store))))
            }
            TicketCommand::SetStatus { ticket, status } => {
                let ticket = find(store, ticket).ok_or(Rejection::TicketNotFound)?;
                if ticket.status == status {
                    return Err(Rejection::TicketUnchanged);
                }
                let changed = TicketRecord { status, updated_at: at, ..ticket.clone() };
                recount_tickets(&ticket, &changed, store);
                store.put(&keys::ticket(changed.id), &encode(&changed));
                Ok(Reply::Ticket(Box::new(changed)))
            }
            TicketCommand::Forwarded(messages) => {
                for (ticket, message) in messages {
                    store.delete(&keys::ticket_forward(message, ticket));
                }
                Ok(Reply::Done)
            }
        }
    }
}

/// Counts a ticket, and gives its number. `open` is how many there are with it, where they are counted.
fn count_ticket(customer: CustomerId, today: Day, open: Option<u32>, store: &mut dyn State) -> Result<u32, Rejection> {
    let key = keys::ticket_book(customer);
    let book: TicketBook = store.get(&key).map(|book| decode(&book)).unwrap_or_default();
    let opened = book.opened_on(today);
    if opened >= TICKETS_PER_DAY {
        return Err(Rejection::TicketLimit { limit: TICKETS_PER_DAY });
    }
    let book = TicketBook { number: book.number + 1, day: today.0, of_day: opened + 1, open: open.or(book.open) };
    store.put(&key, &encode(&book));
    Ok(book.number)
}

fn say(ticket: TicketRecord, message: &TicketMessage, forward: bool, store: &mut dyn State) -> TicketRecord {
    let ticket = TicketRecord { messages: ticket.messages + 1, ..ticket };
    store.put(&keys::ticket(ticket.id), &encode(&ticket));
    store.put(&keys::ticket_message(ticket.id, message.id), &encode(message));
    if forward {
        store.put(&keys::ticket_forward(message.id, ticket.id), &[]);
    }
    ticket
}

/// Deletes a customer's tickets, at most `most`. Says how many that were.
pub(super) fn forget_tickets(customer: CustomerId, most: usize, store: &mut dyn State) -> usize {
    let found = store.scan_range(keys::tickets_of(customer, None), most);
    for (key, _) in &found {
        if let Some(id) = keys::ticket_at_end(key) {
            forget_ticket(id, store);
        }
        store.delete(key);
    }
    if found.len() < most {
        store.delete(&keys::ticket_book(customer));
    }
    found.len()
}

/// A ticket's messages are few by their limit.
fn forget_ticket(id: TicketId, store: &mut dyn State) {
    for (key, _) in store.scan_range(keys::ticket_messages(id), usize::MAX) {
        if let Some(message) = keys::ticket_message_at_end(&key) {
            store.delete(&keys::ticket_forward(message, id));
        }
        store.delete(&key);
    }
    store.delete(&keys::ticket(id));
}
