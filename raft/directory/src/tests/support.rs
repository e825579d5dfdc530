//! Support tickets, and what is left of a deleted customer after its grace period.

use model::id::{CustomerId, TicketId, TicketMessageId};
use model::ticket::{Author, Category, MESSAGES_PER_TICKET, Priority, TICKETS_PER_DAY, TicketStatus};
use model::time::Timestamp;

use super::users::{session, user};
use super::{Rig, channel, endpoint, proposal, with_customer};
use crate::command::{Command, Proposal, Rejection, Reply};
use crate::keys;
use crate::support::{TicketCommand, TicketMessage, TicketRecord};
use crate::users::UserCommand;
use machine::View;

const DAY_MILLIS: i64 = 86_400_000;

fn message(author: Author) -> TicketMessage {
    TicketMessage { id: TicketMessageId::new(), author, message: "text".into(), created_at: Timestamp(5) }
}

fn ticket(customer_id: CustomerId) -> TicketRecord {
    TicketRecord {
        id: TicketId::new(),
        customer_id,
        number: 0,
        subject: "Help".into(),
        category: Category::Other,
        priority: Priority::Normal,
        status: TicketStatus::Open,
        channel_id: None,
        request_id: None,
        created_by: "ann@example.com".into(),
        created_at: Timestamp(5),
        updated_at: Timestamp(5),
        messages: 0,
    }
}

impl Rig {
    pub(super) fn tickets(&mut self, command: TicketCommand, at: i64) -> Result<TicketRecord, Rejection> {
        let proposal = Proposal { at: Timestamp(at), ..proposal(Command::Tickets(command)) };
        match self.propose(&proposal).result? {
            Reply::Ticket(ticket) => Ok(*ticket),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn open(&mut self, customer: CustomerId, at: i64) -> Result<TicketRecord, Rejection> {
        let open = TicketCommand::Open { ticket: ticket(customer), message: message(Author::Customer), forward: true };
        self.tickets(open, at)
    }

    pub(super) fn say(&mut self, id: TicketId, customer: Option<CustomerId>) -> Result<TicketRecord, Rejection> {
        let (author, status) = match customer {
            Some(_) => (Author::Customer, TicketStatus::Open),
            None => (Author::Support, TicketStatus::Waiting),
        };
        let message = message(author);
        self.tickets(TicketCommand::Say { ticket: id, customer, message, status, forward: false }, 10)
    }

    fn rows(&self, (from, to): (Vec<u8>, Vec<u8>)) -> usize {
        self.store.scan(&from, &to, usize::MAX).len()
    }
}

#[test]
fn tickets_are_numbered_by_account_and_so_many_are_opened_a_day() {
    let mut rig = Rig::new();
    let first = with_customer(&mut rig, None).id;
    let other = with_customer(&mut rig, None);
    for number in 1..=TICKETS_PER_DAY {
        assert_eq!(rig.open(first, 10).unwrap().number, number);
    }
    assert_eq!(rig.open(first, DAY_MILLIS - 1).unwrap_err(), Rejection::TicketLimit { limit: TICKETS_PER_DAY });
    assert_eq!(rig.open(other.id, 10).unwrap().number, 1);
    assert_eq!(rig.open(first, DAY_MILLIS).unwrap().number, TICKETS_PER_DAY + 1);
    assert_eq!(rig.open(CustomerId::random(), 10).unwrap_err(), Rejection::CustomerNotFound);
}

#[test]
fn a_ticket_goes_to_and_fro_until_it_is_closed() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, None).id;
    let id = rig.open(customer, 10).unwrap().id;
    assert_eq!(rig.say(id, None).unwrap().status, TicketStatus::Waiting);
    assert_eq!(rig.say(id, Some(customer)).unwrap().status, TicketStatus::Open);
    assert_eq!(rig.say(id, Some(CustomerId::random())).unwrap_err(), Rejection::TicketNotFound);
    let set = |rig: &mut Rig, status| rig.tickets(TicketCommand::SetStatus { ticket: id, status }, 20);
    assert_eq!(set(&mut rig, TicketStatus::Solved).unwrap().messages, 3);
    assert_eq!(set(&mut rig, TicketStatus::Solved).unwrap_err(), Rejection::TicketUnchanged);
    assert_eq!(rig.say(id, Some(customer)).unwrap().status, TicketStatus::Open, "written to, it is open again");
    set(&mut rig, TicketStatus::Closed).unwrap();
    assert_eq!(rig.say(id, Some(customer)).unwrap_err(), Rejection::TicketClosed);
    set(&mut rig, TicketStatus::Open).unwrap();
    while rig.rows(keys::ticket_messages(id)) < MESSAGES_PER_TICKET as usize {
        rig.say(id, None).unwrap();
    }
    assert_eq!(rig.say(id, None).unwrap_err(), Rejection::TicketFull { limit: MESSAGES_PER_TICKET });
}

#[test]
fn what_the_support_is_to_hear_of_waits_until_it_has() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, None).id;
    let opened = rig.open(customer, 10).unwrap();
    assert_eq!(rig.rows(keys::TICKET_FORWARDS.range()), 1);
    rig.say(opened.id, None).unwrap();
    let waiting = rig.store.scan_range(keys::TICKET_FORWARDS.range(), 10);
    let (message, ticket) = keys::parse_ticket_forward(&waiting[0].0).unwrap();
    assert_eq!((waiting.len(), ticket), (1, opened.id));
    rig.run(Command::Tickets(TicketCommand::Forwarded(vec![(ticket, message)]))).unwrap();
    assert_eq!(rig.rows(keys::TICKET_FORWARDS.range()), 0);
}

#[test]
fn of_a_deleted_customer_nothing_is_left_but_what_is_on_record() {
    let mut rig = Rig::new();
    let id = with_customer(&mut rig, None).id;
    let (member, kept) = (user(id, "ann@example.com"), user(id, "bob@example.com"));
    for command in [
        Command::Users(UserCommand::Create(member.clone())),
        Command::Users(UserCommand::Create(kept)),
        Command::Users(UserCommand::OpenSession(session(&member))),
        Command::CreateChannel { channel: channel(id, 5), scoped_key: None },
        Command::CreateEndpoint(endpoint(id)),
    ] {
        rig.run(command).unwrap();
    }
    for _ in 0..3 {
        rig.open(id, 10).unwrap();
    }
    let purge = || Command::PurgeCustomer { id, most: 2 };
    assert_eq!(rig.run(purge()).unwrap_err(), Rejection::CustomerLives);
    rig.run(Command::DeleteCustomer { id }).unwrap();
    assert_eq!(rig.shared.state.read().deleted_before(Timestamp(1000)), None);
    assert_eq!(rig.shared.state.read().deleted_before(Timestamp(1001)), Some(id));
    let mut steps = 0;
    while matches!(rig.run(purge()), Ok(Reply::Removed { more: true })) {
        steps += 1;
    }
    assert!((3..10).contains(&steps), "{steps} steps");
    assert_eq!(rig.run(purge()).unwrap_err(), Rejection::CustomerNotFound);
    assert_eq!(rig.shared.state.read().deleted_before(Timestamp(i64::MAX)), None);
    assert_eq!(rig.rows((vec![0], vec![b'o'])), 0, "replies to proposals are all that is left");
    assert_eq!(rig.rows((vec![b's'], vec![u8::MAX])), 0);
    assert!(rig.shared.state.read().channels.is_empty() && rig.shared.state.read().keys.is_empty());
    let newcomer = with_customer(&mut rig, None);
    rig.run(Command::Users(UserCommand::Create(user(newcomer.id, "ann@example.com")))).unwrap();
}
