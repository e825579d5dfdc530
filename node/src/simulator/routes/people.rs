//! Chats and contacts of a phone, with the bodies of the gateway's own routes.

use model::address::Address;
use model::chat::ChatChanges;
use model::field::Change;
use model::id::MessageId;
use network::operation::chats::{ChatAnswer, ChatOperation};
use network::operation::contacts::{ContactAnswer, ContactOperation};
use network::simulator::answers::ControlError;
use salvo::prelude::Router;
use serde::{Deserialize, Deserializer};

use super::call::{Answer, Call, Outcome, Routes};
use super::labels;

pub fn chats(routes: &Routes<'_>) -> Router {
    let chat = Router::with_path("{chat}")
        .push(Router::new().patch(routes.to(change_chat)))
        .push(Router::with_path("clear").post(routes.to(clear_chat)))
        .push(Router::with_path("read").post(routes.to(read_chat)))
        .push(labels::of_chat(routes));
    Router::with_path("chats").push(Router::new().get(routes.to(list_chats))).push(chat)
}

pub fn contacts(routes: &Routes<'_>) -> Router {
    let contact = Router::with_path("{contact}").get(routes.to(show_contact)).patch(routes.to(rename));
    Router::with_path("contacts").push(Router::new().get(routes.to(list_contacts))).push(contact)
}

fn named(call: &Call, parameter: &str) -> Result<Address, ControlError> {
    call.simulator.address(call.param(parameter))
}

fn run_chat(call: &Call, operation: ChatOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        ChatAnswer::Done => Answer::done(),
        ChatAnswer::Chats(chats) => Answer::list(&chats),
    }
}

fn run_contact(call: &Call, operation: ContactOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        ContactAnswer::Done => Answer::done(),
        ContactAnswer::People(people) => Answer::list(&people),
        ContactAnswer::Person(person) => Answer::ok(&person),
        ContactAnswer::Checked(checks) => Answer::list(&checks),
    }
}

fn list_chats(call: Call) -> Outcome {
    run_chat(&call, ChatOperation::List)
}

/// The patch of a chat; `muted_until` may be `null`.
#[derive(Deserialize)]
struct PatchChat {
    pinned: Option<bool>,
    archived: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    muted_until: Change<Option<i64>>,
    unread: Option<bool>,
    ephemeral_expiration: Option<u32>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Change<Option<i64>>, D::Error> {
    Option::deserialize(deserializer).map(Change::To)
}

fn change_chat(call: Call) -> Outcome {
    let PatchChat { pinned, archived, muted_until, unread, ephemeral_expiration } = call.body()?;
    let changes = ChatChanges { pinned, archived, muted_until, unread, ephemeral_expiration };
    run_chat(&call, ChatOperation::Change { chat: named(&call, "chat")?, changes })
}

fn clear_chat(call: Call) -> Outcome {
    let delete = call.field::<Option<bool>>("delete_chat")?.unwrap_or_default();
    run_chat(&call, ChatOperation::Clear { chat: named(&call, "chat")?, delete })
}

fn read_chat(call: Call) -> Outcome {
    let messages = call.field::<Option<Vec<MessageId>>>("message_ids")?.unwrap_or_default();
    run_chat(&call, ChatOperation::Read { chat: named(&call, "chat")?, messages, participant: None })
}

fn list_contacts(call: Call) -> Outcome {
    run_contact(&call, ContactOperation::List)
}

fn show_contact(call: Call) -> Outcome {
    run_contact(&call, ContactOperation::Show { contact: named(&call, "contact")? })
}

#[derive(Deserialize)]
struct Rename {
    name: Option<String>,
}

fn rename(call: Call) -> Outcome {
    let Rename { name } = call.body()?;
    run_contact(&call, ContactOperation::Rename { contact: named(&call, "contact")?, name })
}
