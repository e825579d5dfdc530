//! Calls to and from a phone.

use network::operation::calls::CallOperation;
use network::simulator::answers::calls::NewCall;
use salvo::http::StatusCode;
use serde_json::json;

use super::call::{Answer, DELETE, GET, POST, Route};

pub const ROUTES: &[Route] = &[
    (GET, "calls", |call| Answer::list(call.act(|engine, _, number| engine.phone_calls(number))?)),
    (POST, "calls", |call| {
        let new: NewCall = call.body()?;
        let call_id = call.act(|engine, now, number| engine.begin_call(now, number, &new))?;
        Answer::json(StatusCode::CREATED, &json!({ "call_id": call_id }))
    }),
    (DELETE, "calls/{call}", |call| call.done(|engine, now, number| engine.hang_up(now, number, call.param("call")))),
    (POST, "calls/{call}/accept", |call| {
        call.done(|engine, now, number| engine.accept_call(now, number, call.param("call")))
    }),
    (POST, "calls/{call}/reject", |call| {
        let call_id = call.param("call").to_owned();
        call.simulator.operate(&call.phone, CallOperation::Reject { call_id, from: None })?;
        Answer::done()
    }),
];
