//! Calls: rejecting them. Listing and accepting are stubs.

use model::address::{Address, Suffixes};
use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use network::operation::calls::CallOperation;
use serde_json::json;

use crate::reply::Outcome;
use crate::request_context::ChannelCall;
use crate::route::{POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(POST, "/v1/channels/{id}/calls/{call_id}/reject", reject)
            .doc("reject_call", "Reject a ringing call")
            .optional_body(|body| parse_caller(body, &Suffixes::simulated()), json!({ "from": "15551234567" }))
            .no_content()
            .on_network()
            .errors(&[ErrorCode::NotFound]),
    ]
}

/// Parses the address of the caller, which the gateway itself knows only for two minutes after the call was offered.
fn parse_caller(body: &Body, suffixes: &Suffixes) -> Result<Option<Address>, CallError> {
    body.read(|fields| Some(fields.optional("from", rule::address(suffixes))))
}

async fn reject(call: &mut ChannelCall) -> Outcome {
    let from = parse_caller(&call.optional_object().await?, &call.app.config.suffixes)?;
    let call_id = call.parameter("call_id").to_owned();
    call.done(CallOperation::Reject { call_id, from }).await
}
