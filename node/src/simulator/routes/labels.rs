//! Labels of a phone, with the request and response bodies of the gateway's own routes.

use model::id::MessageId;
use model::label::{KnownLabel, Label, LabelAssociation, Labelled, read_label, read_label_changes, read_label_ids};
use network::operation::labels::{LabelAnswer, LabelOperation, LabelState};
use network::simulator::answers::ControlError;
use salvo::http::StatusCode;

use super::call::{Answer, Call, DELETE, GET, Outcome, PATCH, POST, PUT, Route};

pub const ROUTES: &[Route] = &[
    (GET, "labels", |call| run(call, StatusCode::OK, LabelOperation::List)),
    (POST, "labels", |call| {
        let (name, color) = call.read(read_label)?;
        run(call, StatusCode::CREATED, LabelOperation::Create { name, color })
    }),
    (PATCH, "labels/{label}", |call| {
        let changes = call.read(read_label_changes)?;
        run(call, StatusCode::OK, LabelOperation::Change { label: label(call), changes })
    }),
    (DELETE, "labels/{label}", |call| run(call, StatusCode::OK, LabelOperation::Delete { label: label(call) })),
    (GET, "labels/{label}/associations", |call| {
        let (state, label) = (state(call)?, label(call));
        Answer::list(bearers(&state, &label).map(|by| LabelAssociation::from(by.clone())))
    }),
    (PUT, "labels/{label}/chats/{chat}", |call| {
        let on = Labelled { chat: call.address("chat")?, message: None };
        run(call, StatusCode::OK, LabelOperation::Put { label: label(call), on })
    }),
    (DELETE, "labels/{label}/chats/{chat}", |call| {
        let from = Labelled { chat: call.address("chat")?, message: None };
        run(call, StatusCode::OK, LabelOperation::Take { label: label(call), from })
    }),
    (PUT, "labels/{label}/messages/{id}", |call| {
        let chat_id: String = call.field("chat_id")?;
        let on = message(call, &chat_id)?;
        run(call, StatusCode::OK, LabelOperation::Put { label: label(call), on })
    }),
    (DELETE, "labels/{label}/messages/{id}", |call| {
        let from = message(call, &call.text("chat_id").unwrap_or_default())?;
        run(call, StatusCode::OK, LabelOperation::Take { label: label(call), from })
    }),
    (GET, "chats/{chat}/labels", list_of_chat),
    (PUT, "chats/{chat}/labels", |call| {
        let labels = call.read(read_label_ids)?;
        call.simulator.operate(&call.phone, LabelOperation::Set { chat: call.address("chat")?, labels })?;
        list_of_chat(call)
    }),
];

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

/// All labels of the account, and what they are attached to.
fn state(call: &Call) -> Result<LabelState, ControlError> {
    match call.simulator.operate(&call.phone, LabelOperation::List)? {
        LabelAnswer::Labels(state) => Ok(state),
        _ => Ok(LabelState::default()),
    }
}

/// Everything that a label is attached to.
fn bearers<'a>(state: &'a LabelState, label: &'a str) -> impl Iterator<Item = &'a Labelled> {
    state.borne.iter().filter(move |borne| borne.labels.iter().any(|id| id == label)).map(|borne| &borne.by)
}

fn show(state: &LabelState, label: &KnownLabel) -> Label {
    label.show(bearers(state, &label.id).filter(|by| by.message.is_none()).count())
}

fn label(call: &Call) -> String {
    call.param("label").to_owned()
}

/// The message in the path, in a chat.
fn message(call: &Call, chat: &str) -> Result<Labelled, ControlError> {
    let message = Some(MessageId(call.param("id").to_owned()));
    Ok(Labelled { chat: call.simulator.address(chat)?, message })
}

fn list_of_chat(call: &Call) -> Outcome {
    let (state, chat) = (state(call)?, call.address("chat")?);
    let bears = |label: &&KnownLabel| bearers(&state, &label.id).any(|by| by.message.is_none() && by.chat == chat);
    Answer::list(state.labels.iter().filter(bears).map(|label| show(&state, label)))
}
