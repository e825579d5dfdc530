//! Labels of the channel's business account, and the chats and messages that have them.

use model::address::{Address, Suffixes};
use model::chat::Chat;
use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::id::MessageId;
use model::label::{Label, LabelAssociation, Labelled, LabelledKind, read_label, read_label_changes, read_label_ids};
use model::page::ListId;
use network::operation::labels::{LabelAnswer, LabelOperation};
use serde_json::json;
use shard::call::read::{Filter, Read};
use shard::projection::labels::{self, Association};
use shard::projection::{BusinessAccount, Synced, check_business};

use super::chats::chat_id;
use crate::failure::of_kind;
use crate::projection::Page;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, PATCH, POST, PUT, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(GET, "/v1/channels/{id}/labels", list)
            .doc("list_labels", "List labels")
            .list::<Label>()
            .errors(&[E::Other]),
        Route::channel(POST, "/v1/channels/{id}/labels", create)
            .doc("create_label", "Create a label")
            .about("Without a `color` it gets the first unused one.")
            .body(read_label, json!({ "name": "Lead", "color": 1 }))
            .created::<Label>()
            .on_network()
            .errors(&[E::PlanLimit]),
        Route::channel(PATCH, "/v1/channels/{id}/labels/{label_id}", change)
            .doc("update_label", "Rename a label, or give it another colour")
            .body(read_label_changes, json!({ "name": "Customer" }))
            .ok::<Label>()
            .on_network()
            .errors(&[E::NoOp]),
        Route::channel(DELETE, "/v1/channels/{id}/labels/{label_id}", delete)
            .doc("delete_label", "Delete a label, and remove it from everything")
            .no_content()
            .on_network(),
        Route::channel(GET, "/v1/channels/{id}/labels/{label_id}/associations", list_associations)
            .doc("list_label_associations", "List the chats and messages that have a label")
            .query(|query| (read_kind(query), Page::read(query, ListId::only())))
            .page::<LabelAssociation>()
            .errors(&[E::Other]),
        Route::channel(PUT, "/v1/channels/{id}/labels/{label_id}/chats/{chat_id}", put_on_chat)
            .doc("label_chat", "Put a label on a chat")
            .no_content()
            .on_network()
            .errors(&[E::NoOp]),
        Route::channel(DELETE, "/v1/channels/{id}/labels/{label_id}/chats/{chat_id}", take_from_chat)
            .doc("unlabel_chat", "Remove a label from a chat")
            .no_content()
            .on_network()
            .errors(&[E::NoOp]),
        Route::channel(PUT, "/v1/channels/{id}/labels/{label_id}/messages/{message_id}", put_on_message)
            .doc("label_message", "Put a label on a message")
            .addressed_body(parse_chat, json!({ "chat_id": "15551234567" }))
            .no_content()
            .on_network()
            .errors(&[E::MessageNotFound, E::NoOp]),
        Route::channel(DELETE, "/v1/channels/{id}/labels/{label_id}/messages/{message_id}", take_from_message)
            .doc("unlabel_message", "Remove a label from a message")
            .query(|query| read_chat(query, &Suffixes::simulated()))
            .no_content()
            .on_network()
            .errors(&[E::NoOp]),
        Route::channel(GET, "/v1/channels/{id}/chats/{chat_id}/labels", list_of_chat)
            .doc("list_chat_labels", "List the labels of a chat")
            .list::<Label>()
            .errors(&[E::Other]),
        Route::channel(PUT, "/v1/channels/{id}/chats/{chat_id}/labels", set_of_chat)
            .doc("set_chat_labels", "Set the labels of a chat")
            .about("Labels that are not listed are removed.")
            .body(read_label_ids, json!({ "label_ids": ["1", "4"] }))
            .list::<Label>()
            .on_network()
            .errors(&[E::NotFound, E::NoOp]),
    ]
}

/// Checks whether the account may have labels. While connected, the network is asked about an unknown account.
///
/// # Errors
/// 422 `other` for an account that is no business.
async fn check_account(call: &mut ChannelCall) -> Result<(), CallError> {
    if call.find::<Synced>(labels::AREA).await?.is_none() {
        match call.operate(LabelOperation::List).await {
            Err(error) if !matches!(error.code, E::NotConnected | E::ChannelUnavailable) => return Err(error),
            _ => {}
        }
    }
    check_business(call.find::<BusinessAccount>(BusinessAccount::ID).await?.as_ref())
}

/// All labels, or those of a chat.
async fn labels_of(call: &mut ChannelCall, chat: Option<&Address>) -> Result<Vec<Label>, CallError> {
    call.read_many(Read::Labels { of: chat.cloned() }).await
}

async fn found(call: &mut ChannelCall, id: &str) -> Result<Label, CallError> {
    let labels = labels_of(call, None).await?;
    labels.into_iter().find(|label| label.id == id).ok_or_else(|| CallError::not_found("label", id))
}

fn label_id(call: &ChannelCall) -> String {
    call.parameter("label_id").to_owned()
}

async fn list(call: &mut ChannelCall) -> Outcome {
    check_account(call).await?;
    Ok(Reply::ok(&List::whole(labels_of(call, None).await?)))
}

async fn create(call: &mut ChannelCall) -> Outcome {
    let (name, color) = read_label(&call.object().await?)?;
    let answer = call.operate(LabelOperation::Create { name, color }).await?;
    of_kind!(answer, LabelAnswer::Label(made) => Reply::created(&found(call, &made.id).await?))
}

async fn change(call: &mut ChannelCall) -> Outcome {
    let changes = read_label_changes(&call.object().await?)?;
    let label = label_id(call);
    call.operate(LabelOperation::Change { label: label.clone(), changes }).await?;
    Ok(Reply::ok(&found(call, &label).await?))
}

async fn delete(call: &mut ChannelCall) -> Outcome {
    call.done(LabelOperation::Delete { label: label_id(call) }).await
}

fn read_kind(query: &Query<'_>) -> Option<LabelledKind> {
    query.word("kind", LabelledKind::WORDS, LabelledKind::parse)
}

async fn list_associations(call: &mut ChannelCall) -> Outcome {
    let label = label_id(call);
    let page =
        call.asked(|query| call.page_under::<Association>(query, Association::under(&label, read_kind(query))))?;
    check_account(call).await?;
    found(call, &label).await?;
    let list = call.page_of::<Association>(Filter::All, page).await?;
    Ok(Reply::ok(&list.map(LabelAssociation::from)))
}

/// The chat that the path names.
fn labelled_chat(call: &ChannelCall) -> Result<Labelled, CallError> {
    Ok(Labelled { chat: chat_id(call)?, message: None })
}

async fn put_on_chat(call: &mut ChannelCall) -> Outcome {
    call.done(LabelOperation::Put { label: label_id(call), on: labelled_chat(call)? }).await
}

async fn take_from_chat(call: &mut ChannelCall) -> Outcome {
    call.done(LabelOperation::Take { label: label_id(call), from: labelled_chat(call)? }).await
}

/// The message that the path names, in a chat.
fn labelled_message(call: &ChannelCall, chat: Address) -> Labelled {
    Labelled { chat, message: Some(MessageId(call.parameter("message_id").to_owned())) }
}

/// Reads `{ "chat_id": address }`.
fn parse_chat(body: &Body, suffixes: &Suffixes) -> Result<Address, CallError> {
    body.read(|fields| fields.required("chat_id", rule::address(suffixes)))
}

async fn put_on_message(call: &mut ChannelCall) -> Outcome {
    let chat = parse_chat(&call.object().await?, call.suffixes())?;
    let (label, on) = (label_id(call), labelled_message(call, chat));
    call.done(LabelOperation::Put { label, on }).await
}

fn read_chat(query: &Query<'_>, suffixes: &Suffixes) -> Option<Address> {
    let chat = query.address("chat_id", suffixes);
    query.require("chat_id");
    chat
}

async fn take_from_message(call: &mut ChannelCall) -> Outcome {
    let chat = call.asked(|query| read_chat(query, call.suffixes()))?;
    let chat = chat.ok_or_else(|| CallError::chat_not_found(""))?;
    let (label, from) = (label_id(call), labelled_message(call, chat));
    call.done(LabelOperation::Take { label, from }).await
}

async fn list_of_chat(call: &mut ChannelCall) -> Outcome {
    let chat = chat_id(call)?;
    check_account(call).await?;
    if call.read_one::<Chat>(Read::Chat(chat.clone())).await?.is_none() {
        return Err(CallError::chat_not_found(chat.as_str()));
    }
    Ok(Reply::ok(&List::whole(labels_of(call, Some(&chat)).await?)))
}

async fn set_of_chat(call: &mut ChannelCall) -> Outcome {
    let labels = read_label_ids(&call.object().await?)?;
    let chat = chat_id(call)?;
    call.operate(LabelOperation::Set { chat: chat.clone(), labels }).await?;
    Ok(Reply::ok(&List::whole(labels_of(call, Some(&chat)).await?)))
}
