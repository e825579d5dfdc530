//! Chats: the conversations of a channel's account, and their flags.

use model::address::{Address, Suffixes};
use model::chat::{Chat, ChatChanges, ChatKind, ChatSort, EPHEMERAL};
use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::id::MessageId;
use model::issue::{IssueCode, Violation};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use network::operation::chats::ChatOperation;
use serde_json::{Value, json};
use shard::call::read::Read;
use shard::projection::chats::{ChatFilter, ChatPage, ChatPlace, ListedChat};

use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{GET, PATCH, POST, Route};

/// The most messages that one call may mark as read.
const MOST_READ: usize = 100;

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(GET, "/v1/channels/{id}/chats", list)
            .doc("list_chats", "List chats")
            .query(|query| read_page(query, |_| ListId::only()))
            .page::<Chat>(),
        Route::channel(GET, "/v1/channels/{id}/chats/{chat_id}", show).doc("get_chat", "Get a chat").ok::<Chat>(),
        Route::channel(PATCH, "/v1/channels/{id}/chats/{chat_id}", change)
            .doc("update_chat", "Change the flags of a chat")
            .body(|body| parse_changes(body, Timestamp(0)), json!({ "archived": true }))
            .ok::<Chat>()
            .on_network()
            .errors(&[E::NoOp, E::ConcurrentModification]),
        Route::channel(POST, "/v1/channels/{id}/chats/{chat_id}/clear", clear)
            .doc("clear_chat", "Clear a chat, and optionally delete it")
            .optional_body(parse_clear, json!({ "delete_chat": true }))
            .no_content()
            .on_network(),
        Route::channel(POST, "/v1/channels/{id}/chats/{chat_id}/read", read)
            .doc("read_chat", "Send read receipts")
            .about("Without `message_ids`, for all unread messages.")
            .optional_body(
                |body| parse_reading(body, &Suffixes::simulated()),
                json!({ "message_ids": ["3EB0A1B2C3D4E5F60718293A4B5C6D7E8F901234"] }),
            )
            .no_content()
            .on_network()
            .errors(&[E::MessageNotFound, E::NoOp]),
    ]
}

model::cursor! {
    /// The last chat of a page.
    ChatCursor("chats.1") { id: String, at: Option<Timestamp> }
}

/// Reads a page's parameters. `list` makes the list's id from its order (whether it is ascending).
fn read_page(query: &Query<'_>, list: impl FnOnce(bool) -> ListId) -> ChatPage {
    let sort = query.word("sort", ChatSort::WORDS, ChatSort::parse).unwrap_or_default();
    let after = query.cursor::<ChatCursor>(list(sort == ChatSort::Id));
    ChatPage {
        filter: ChatFilter {
            archived: query.flag("archived"),
            pinned: query.flag("pinned"),
            unread: query.flag("unread"),
            muted: query.flag("muted"),
            kind: query.word("kind", ChatKind::WORDS, ChatKind::parse),
        },
        sort,
        after: after.map(|ChatCursor { id, at }| ChatPlace { id, at }),
        limit: query.limit().unwrap_or(DEFAULT_LIMIT),
    }
}

async fn list(call: &mut ChannelCall) -> Outcome {
    let list_of = |ascending| call.account.list(Some(call.channel.id.0), ascending);
    let page = call.asked(|query| read_page(query, list_of))?;
    let (of, limit) = (list_of(page.sort == ChatSort::Id), page.limit);
    let read = Read::Chats(ChatPage { limit: limit + 1, ..page });
    let rows = call.read_many::<ListedChat>(read).await?;
    let page = List::first(rows, limit, |row| ChatCursor { id: row.chat.id.to_string(), at: row.at }.encode(of));
    Ok(Reply::ok(&page.map(|row| row.chat)))
}

/// The chat that the path names.
pub fn chat_id(call: &ChannelCall) -> Result<Address, CallError> {
    let text = call.parameter("chat_id");
    Address::parse_or_digits(text, &call.app.config.suffixes).map_err(|_| CallError::chat_not_found(text))
}

async fn found(call: &mut ChannelCall, id: &Address) -> Outcome {
    let chat = call.read_one::<Chat>(Read::Chat(id.clone())).await?;
    Ok(Reply::ok(&chat.ok_or_else(|| CallError::chat_not_found(id.as_str()))?))
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let id = chat_id(call)?;
    found(call, &id).await
}

/// Reads the flags that a patch sets.
fn parse_changes(body: &Body, now: Timestamp) -> Result<ChatChanges, CallError> {
    let until = |value: &Value| match rule::integer(0..=i64::MAX as u64)(value)? {
        0 => Ok(0),
        seconds if seconds as i64 > now.unix_seconds() => Ok(seconds as i64),
        _ => Err(Violation::new(IssueCode::TooSmall, "must lie in the future, or be 0 for ever")),
    };
    body.read_patch(|fields| {
        Some(ChatChanges {
            pinned: fields.optional("pinned", rule::boolean),
            archived: fields.optional("archived", rule::boolean),
            muted_until: fields.nullable("muted_until", until).into(),
            unread: fields.optional("unread", rule::boolean),
            ephemeral_expiration: fields.optional("ephemeral_expiration", ephemeral),
        })
    })
}

/// Validates one of the times that disappearing messages may be set to.
pub fn ephemeral(value: &Value) -> Result<u32, Violation> {
    let seconds =
        rule::described(|| json!({ "enum": EPHEMERAL }), rule::integer(0..=u64::from(u32::MAX)))(value)? as u32;
    if EPHEMERAL.contains(&seconds) {
        return Ok(seconds);
    }
    let known: Vec<String> = EPHEMERAL.iter().map(u32::to_string).collect();
    Err(Violation::new(IssueCode::Enum, format!("must be one of {}", known.join(", "))))
}

async fn change(call: &mut ChannelCall) -> Outcome {
    let changes = parse_changes(&call.object().await?, call.now)?;
    let chat = chat_id(call)?;
    call.operate(ChatOperation::Change { chat: chat.clone(), changes }).await?;
    found(call, &chat).await
}

/// Reads `{ "delete_chat"?: boolean }`.
fn parse_clear(body: &Body) -> Result<bool, CallError> {
    body.read(|fields| Some(fields.optional("delete_chat", rule::boolean).unwrap_or(false)))
}

async fn clear(call: &mut ChannelCall) -> Outcome {
    let delete = parse_clear(&call.optional_object().await?)?;
    let chat = chat_id(call)?;
    call.done(ChatOperation::Clear { chat, delete }).await
}

/// Reads `{ "message_ids"?: [string], "participant"?: address }`.
fn parse_reading(body: &Body, suffixes: &Suffixes) -> Result<(Vec<MessageId>, Option<Address>), CallError> {
    body.read(|fields| {
        let id = |value: &Value| rule::text(1..=255)(value).map(MessageId);
        let messages = fields.list("message_ids", MOST_READ, id).unwrap_or_default();
        Some((messages, fields.optional("participant", rule::address(suffixes))))
    })
}

async fn read(call: &mut ChannelCall) -> Outcome {
    let (messages, participant) = parse_reading(&call.optional_object().await?, &call.app.config.suffixes)?;
    let chat = chat_id(call)?;
    call.done(ChatOperation::Read { chat, messages, participant }).await
}
