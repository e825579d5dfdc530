//! Chats and contacts of a phone, with the request bodies of the gateway's own routes.

use model::chat::ChatChanges;
use model::field::Change;
use model::id::MessageId;
use network::operation::chats::{ChatAnswer, ChatOperation};
use network::operation::contacts::{ContactAnswer, ContactOperation};
use serde::{Deserialize, Deserializer};

use super::call::{Answer, Call, GET, Outcome, PATCH, POST, Route};

pub const ROUTES: &[Route] = &[
    (GET, "chats", |call| run_chat(call, ChatOperation::List)),
    (PATCH, "chats/{chat}", |call| {
        let PatchChat { pinned, archived, muted_until, unread, ephemeral_expiration } = call.body()?;
        let changes = ChatChanges { pinned, archived, muted_until, unread, ephemeral_expiration };
        run_chat(call, ChatOperation::Change { chat: call.address("chat")?, changes })
    }),
    (POST, "chats/{chat}/clear", |call| {
        let delete = call.field::<Option<bool>>("delete_chat")?.unwrap_or_default();
        run_chat(call, ChatOperation::Clear { chat: call.address("chat")?, delete })
    }),
    (POST, "chats/{chat}/read", |call| {
        let messages = call.field::<Option<Vec<MessageId>>>("message_ids")?.unwrap_or_default();
        run_chat(call, ChatOperation::Read { chat: call.address("chat")?, messages, participant: None })
    }),
    (GET, "contacts", |call| run_contact(call, ContactOperation::List)),
    (GET, "contacts/{contact}", |call| run_contact(call, ContactOperation::Show { contact: call.address("contact")? })),
    (PATCH, "contacts/{contact}", |call| {
        let Rename { name } = call.body()?;
        run_contact(call, ContactOperation::Rename { contact: call.address("contact")?, name })
    }),
];

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

/// Changes of a chat; `muted_until` may be `null`.
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

#[derive(Deserialize)]
struct Rename {
    name: Option<String>,
}
