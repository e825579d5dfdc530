//! Requests of a channel to the network, other than messages.
//!
//! [`journal`] records requests, since the same id may come again in a later session. [`groups`], [`contacts`] and
//! [`presence`] implement an area each. Requests of any other area are refused by its name.

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

/// The network's code for a state that exists already.
const CONFLICT: u16 = 409;

/// Why a request has no answer.
enum Outcome {
    Refused(Refused),
    /// The result is unknown. The owner has given up, or asks the next session.
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

    /// Reads the journal of earlier sessions; `true` if it has requests whose outcome is unknown.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn take_up(&self) -> Result<bool, network::driver::AuthError> {
        self.journal.take_up()
    }

    /// Runs a request, and reports its answer after the notices of what it changed. An answer that comes after the
    /// owner gave up still counts: the library learns a group's members from it, and the changes are reported. The
    /// library waits up to 75 s for each answer.
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

/// A request in progress.
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

    /// Whether an earlier session may have executed the request.
    fn is_again(&self) -> bool {
        matches!(self.before, Before::Asked(_))
    }

    /// Reports what this request changed; the network notifies only others. `part` tells several notices apart.
    fn tell(&self, part: u8, news: News) {
        let notice = Notice { actor: self.own.phone().cloned(), news };
        let id = network::driver::ItemId(format!("o/{}/{part}", self.id));
        let now = model::time::Timestamp::now();
        self.line.keep(Some(id), now, network::driver::InboundKind::Notice(Box::new(notice)));
    }
}

/// Whether executing the request twice could change something twice. Requests that only read are not recorded.
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

/// The group whose members a request may change.
fn changes_members_of(operation: &Operation) -> Option<&Address> {
    let Operation::Groups(operation) = operation else { return None };
    match operation {
        GroupOperation::Participants { group, .. }
        | GroupOperation::Leave { group }
        | GroupOperation::DecideRequests { group, .. } => Some(group),
        _ => None,
    }
}

/// Maps an error of the library to the outcome of the request.
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

/// The name of an unsupported area in the error.
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
