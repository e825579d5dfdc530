//! Labels of a phone, with the bodies and answers of the gateway's own routes.

use model::address::Address;
use model::id::MessageId;
use model::label::{KnownLabel, Label, LabelAssociation, Labelled, read_label, read_label_changes, read_label_ids};
use network::operation::labels::{LabelAnswer, LabelOperation, LabelState};
use network::simulator::answers::ControlError;
use salvo::http::StatusCode;
use salvo::prelude::Router;

use super::call::{Answer, Call, Outcome, Routes};

pub fn routes(routes: &Routes<'_>) -> Router {
    let label = Router::with_path("{label}")
        .push(Router::new().patch(routes.to(change)).delete(routes.to(delete)))
        .push(Router::with_path("associations").get(routes.to(list_associations)))
        .push(Router::with_path("chats/{chat}").put(routes.to(put_on_chat)).delete(routes.to(take_from_chat)))
        .push(Router::with_path("messages/{id}").put(routes.to(put_on_message)).delete(routes.to(take_from_message)));
    Router::with_path("labels").push(Router::new().get(routes.to(list)).post(routes.to(create))).push(label)
}

/// Below a chat.
pub fn of_chat(routes: &Routes<'_>) -> Router {
    Router::with_path("labels").get(routes.to(list_of_chat)).put(routes.to(set_of_chat))
}

fn run(call: &Call, status: StatusCode, operation: LabelOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        LabelAnswer::Done => Answer::done(),
        LabelAnswer::Label(label) => {
            let shown = show(&state(call)?, &label);
            Answer::json(status, &shown)
        }
        LabelAnswer::Labels(state) => Answer::list(state.labels.iter().map(|label| show(&state, label))),
    }
}

/// All that the account has.
fn state(call: &Call) -> Result<LabelState, ControlError> {
    match call.simulator.operate(&call.phone, LabelOperation::List)? {
        LabelAnswer::Labels(state) => Ok(state),
        _ => Ok(LabelState::default()),
    }
}

/// What bears a label.
fn bearers<'a>(state: &'a LabelState, label: &'a str) -> impl Iterator<Item = &'a Labelled> {
    state.borne.iter().filter(move |borne| borne.labels.iter().any(|id| id == label)).map(|borne| &borne.by)
}

fn show(state: &LabelState, label: &KnownLabel) -> Label {
    label.show(bearers(state, &label.id).filter(|by| by.message.is_none()).count())
}

fn list(call: Call) -> Outcome {
    run(&call, StatusCode::OK, LabelOperation::List)
}

fn create(call: Call) -> Outcome {
    let (name, color) = call.read(read_label)?;
    run(&call, StatusCode::CREATED, LabelOperation::Create { name, color })
}

fn label(call: &Call) -> String {
    call.param("label").to_owned()
}

fn change(call: Call) -> Outcome {
    let changes = call.read(read_label_changes)?;
    run(&call, StatusCode::OK, LabelOperation::Change { label: label(&call), changes })
}

fn delete(call: Call) -> Outcome {
    run(&call, StatusCode::OK, LabelOperation::Delete { label: label(&call) })
}

fn list_associations(call: Call) -> Outcome {
    let (state, label) = (state(&call)?, label(&call));
    Answer::list(bearers(&state, &label).map(|by| LabelAssociation::from(by.clone())))
}

/// The chat of the path.
fn chat(call: &Call) -> Result<Address, ControlError> {
    call.simulator.address(call.param("chat"))
}

fn put_on_chat(call: Call) -> Outcome {
    let on = Labelled { chat: chat(&call)?, message: None };
    run(&call, StatusCode::OK, LabelOperation::Put { label: label(&call), on })
}

fn take_from_chat(call: Call) -> Outcome {
    let from = Labelled { chat: chat(&call)?, message: None };
    run(&call, StatusCode::OK, LabelOperation::Take { label: label(&call), from })
}

/// The message of the path, in a chat.
fn message(call: &Call, chat: &str) -> Result<Labelled, ControlError> {
    let message = Some(MessageId(call.param("id").to_owned()));
    Ok(Labelled { chat: call.simulator.address(chat)?, message })
}

fn put_on_message(call: Call) -> Outcome {
    let chat_id: String = call.field("chat_id")?;
    let on = message(&call, &chat_id)?;
    run(&call, StatusCode::OK, LabelOperation::Put { label: label(&call), on })
}

fn take_from_message(call: Call) -> Outcome {
    let from = message(&call, &call.text("chat_id").unwrap_or_default())?;
    run(&call, StatusCode::OK, LabelOperation::Take { label: label(&call), from })
}

fn list_of_chat(call: Call) -> Outcome {
    let (state, chat) = (state(&call)?, chat(&call)?);
    let bears = |label: &&KnownLabel| bearers(&state, &label.id).any(|by| by.message.is_none() && by.chat == chat);
    Answer::list(state.labels.iter().filter(bears).map(|label| show(&state, label)))
}

fn set_of_chat(call: Call) -> Outcome {
    let labels = call.read(read_label_ids)?;
    call.simulator.operate(&call.phone, LabelOperation::Set { chat: chat(&call)?, labels })?;
    list_of_chat(call)
}
