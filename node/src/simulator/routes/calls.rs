//! Calls that a phone makes and gets.

use network::operation::calls::CallOperation;
use network::simulator::answers::calls::NewCall;
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};

pub fn routes(routes: &Routes<'_>) -> Router {
    let call = Router::with_path("{call}")
        .push(Router::new().delete(routes.to(hang_up)))
        .push(Router::with_path("accept").post(routes.to(accept)))
        .push(Router::with_path("reject").post(routes.to(reject)));
    Router::with_path("calls").push(Router::new().get(routes.to(list)).post(routes.to(begin))).push(call)
}

fn begin(call: Call) -> Outcome {
    let new: NewCall = call.body()?;
    let call_id = call.act(|engine, now, number| engine.begin_call(now, number, &new))?;
    Answer::json(StatusCode::CREATED, &json!({ "call_id": call_id }))
}

fn list(call: Call) -> Outcome {
    let calls = call.act(|engine, _, number| engine.phone_calls(number))?;
    Answer::list(&calls)
}

fn hang_up(call: Call) -> Outcome {
    call.done(|engine, now, number| engine.hang_up(now, number, call.param("call")))
}

fn accept(call: Call) -> Outcome {
    call.done(|engine, now, number| engine.accept_call(now, number, call.param("call")))
}

fn reject(call: Call) -> Outcome {
    let call_id = call.param("call").to_owned();
    call.simulator.operate(&call.phone, CallOperation::Reject { call_id, from: None })?;
    Answer::done()
}
