//! What a channel asks of the network beside sending messages.
//!
//! [`journal`] remembers what was asked: the same id may come again in a later session. [`groups`] does what is about groups,
//! [`contacts`] about people, and [`presence`] shows the channel. An area that is not here is refused by its name.

mod contacts;
mod groups;
mod journal;
mod presence;

use std::sync::Arc;

use model::address::Address;
use network::driver::SessionEvent;
use network::notice::{News, Notice};
use network::operation::contacts::{ContactAnswer, ContactOperation};
use network::operation::groups::GroupOperation;
use network::operation::presence::{PresenceAnswer, PresenceOperation};
use network::operation::{Answer, Operation, Refused, RefusedKind};
use uuid::Uuid;
use whatsapp_rust::{Client, ErrorChainExt};

use self::journal::{Before, Journal};
use crate::inbound::message::Own;
use crate::line::Line;
use crate::outbound::Outgoing;

/// The network's code for what is so already.
const CONFLICT: u16 = 409;

/// Why a question has no answer.
enum Outcome {
    Refused(Refused),
    /// Nobody knows. The owner has given it up, or asks the next session.
    Open,
}

type Answered<T> = Result<T, Outcome>;

pub struct Operations {
    line: Arc<Line>,
    outgoing: Arc<Outgoing>,
    journal: Journal,
}

impl Operations {
    pub fn new(line: Arc<Line>, outgoing: Arc<Outgoing>) -> Self {
        let journal = Journal::new(Arc::clone(line.log()));
        Self { line, outgoing, journal }
    }

    /// Takes up what earlier sessions noted; true where nobody heard what became of some of it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn take_up(&self) -> Result<bool, network::driver::AuthError> {
        self.journal.take_up()
    }

    /// Asks, and reports the answer behind the notices of what it changed. One that comes after the owner has given it up counts, too:
    /// the library takes from it who is in a group, and what was done is told. The library itself waits 75 s for each.
    pub async fn perform(&self, client: &Client, id: Uuid, operation: Operation) {
        let is_noted = changes(&operation);
        let before = if is_noted { self.journal.begin(id) } else { Before::Nothing };
        if let Before::Answered(answer) = before {
            return self.report(id, Ok(answer));
        }
        let group = changes_members_of(&operation).and_then(|group| jid(group).ok());
        let asked = Asked { line: &self.line, client, id, own: Own::of(client), before };
        match asked.ask(operation).await {
            Ok(answer) => {
                if is_noted {
                    self.journal.answered(id, &answer);
                }
                self.report(id, Ok(Box::new(answer)));
            }
            Err(Outcome::Refused(refused)) => {
                if is_noted {
                    self.journal.forget(id);
                }
                self.report(id, Err(refused));
            }
            Err(Outcome::Open) => {
                if let Some(group) = group {
                    self.outgoing.doubt_members(group);
                }
            }
        }
    }

    fn report(&self, id: Uuid, result: Result<Box<Answer>, Refused>) {
        self.line.inbox().tell_behind(SessionEvent::Operated { id, result: Box::new(result) });
    }
}

/// One question.
struct Asked<'a> {
    line: &'a Line,
    client: &'a Client,
    id: Uuid,
    own: Own,
    before: Before,
}

impl Asked<'_> {
    async fn ask(&self, operation: Operation) -> Answered<Answer> {
        match operation {
            Operation::Groups(operation) => self.groups(operation).await.map(Answer::Groups),
            Operation::Contacts(ContactOperation::Check { phones }) => {
                self.check(phones).await.map(|checks| Answer::Contacts(ContactAnswer::Checked(checks)))
            }
            Operation::Presence(PresenceOperation::Show { presence, to }) => {
                self.show(presence, to).await.map(|()| Answer::Presence(PresenceAnswer::Done))
            }
            other => Err(unsupported(feature(&other))),
        }
    }

    /// Whether an earlier session may have done it.
    fn is_again(&self) -> bool {
        matches!(self.before, Before::Asked(_))
    }

    /// Reports what this question changed: the network tells the others. `part` tells the news of one question apart.
    fn tell(&self, part: u8, news: News) {
        let notice = Notice { actor: self.own.phone().cloned(), news };
        let id = network::driver::ItemId(format!("o/{}/{part}", self.id));
        let now = model::time::Timestamp::now();
        self.line.keep(Some(id), now, network::driver::InboundKind::Notice(Box::new(notice)));
    }
}

/// Whether asking twice might do something twice. What only looks needs no note.
fn changes(operation: &Operation) -> bool {
    let Operation::Groups(operation) = operation else { return false };
    match operation {
        GroupOperation::List
        | GroupOperation::Show { .. }
        | GroupOperation::Invite { .. }
        | GroupOperation::Preview { .. }
        | GroupOperation::JoinRequests { .. } => false,
        GroupOperation::Create { .. }
        | GroupOperation::Change { .. }
        | GroupOperation::SetPicture { .. }
        | GroupOperation::Participants { .. }
        | GroupOperation::Leave { .. }
        | GroupOperation::RevokeInvite { .. }
        | GroupOperation::Join { .. }
        | GroupOperation::DecideRequests { .. } => true,
    }
}

/// The group whose members a question may change.
fn changes_members_of(operation: &Operation) -> Option<&Address> {
    let Operation::Groups(operation) = operation else { return None };
    match operation {
        GroupOperation::Participants { group, .. }
        | GroupOperation::Leave { group }
        | GroupOperation::DecideRequests { group, .. } => Some(group),
        _ => None,
    }
}

/// What an error of the library means for whoever asked.
fn outcome(error: impl std::error::Error + 'static) -> Outcome {
    if let Some(rejection) = error.server_rejection() {
        let refused = Refused::new(rejection.code, rejection.text);
        return Outcome::Refused(match rejection.code {
            CONFLICT => refused.of(RefusedKind::Conflict),
            _ => refused,
        });
    }
    if error.is_timeout() || error.is_transport_unavailable() {
        return Outcome::Open;
    }
    Outcome::Refused(Refused::new(0, error.to_string()))
}

fn unsupported(feature: &str) -> Outcome {
    Outcome::Refused(Refused::new(0, feature).of(RefusedKind::Unsupported))
}

fn jid(address: &Address) -> Answered<wacore_binary::Jid> {
    let parsed = address.as_str().parse();
    parsed.map_err(|_| Outcome::Refused(Refused::new(404, "this is no address of the network")))
}

/// What an operation is called where it is not supported.
fn feature(operation: &Operation) -> &'static str {
    match operation {
        Operation::Groups(_) => "groups",
        Operation::Calls(_) => "calls",
        Operation::Chats(_) => "chats",
        Operation::Contacts(_) => "contacts",
        Operation::Presence(_) => "presences",
        Operation::Communities(_) => "communities",
        Operation::Newsletters(_) => "newsletters",
        Operation::Business(_) => "business",
        Operation::Blacklist(_) => "blacklist",
        Operation::Profile(_) => "profile",
        Operation::Privacy(_) => "privacy",
        Operation::Labels(_) => "labels",
    }
}
