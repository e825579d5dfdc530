//! What a channel asks of the network beside sending messages.
//!
//! [`journal`] remembers what was asked: the same id may come again in a later session. [`groups`] does what is about groups,
//! [`contacts`] about people, and [`presence`] shows the channel. An area that is not here is refused by its name.

mod contacts;
mod groups;
mod journal;
mod presence;

use std::sync::Arc;
use std::time::Duration;

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

/// How long the network may take; the owner waits a little longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(18);

/// The network's code for what is so already.
const CONFLICT: u16 = 409;

/// Why a question has no answer.
enum Outcome {
    Refused(Refused),
    /// Nobody knows. The owner gives it up, or asks the next session.
    Open,
}

type Answered<T> = Result<T, Outcome>;

pub struct Operations {
    line: Arc<Line>,
    journal: Journal,
}

impl Operations {
    pub fn new(line: Arc<Line>) -> Self {
        let journal = Journal::new(Arc::clone(line.log()));
        Self { line, journal }
    }

    /// Takes up what earlier sessions noted; true where nobody heard what became of some of it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn take_up(&self) -> Result<bool, network::driver::AuthError> {
        self.journal.take_up()
    }

    /// Asks, and reports the answer behind the notices of what it changed.
    pub async fn perform(&self, client: &Client, id: Uuid, operation: Operation) {
        let is_noted = changes(&operation);
        let before = if is_noted { self.journal.begin(id) } else { Before::Nothing };
        if let Before::Answered(answer) = before {
            return self.report(id, Ok(answer));
        }
        let asked = Asked { line: &self.line, client, id, own: Own::of(client), before };
        match tokio::time::timeout(ANSWERED_WITHIN, asked.ask(operation)).await {
            Ok(Ok(answer)) => {
                if is_noted {
                    self.journal.answered(id, &answer);
                }
                self.report(id, Ok(Box::new(answer)));
            }
            Ok(Err(Outcome::Refused(refused))) => {
                if is_noted {
                    self.journal.forget(id);
                }
                self.report(id, Err(refused));
            }
            Ok(Err(Outcome::Open)) | Err(_) => {}
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
