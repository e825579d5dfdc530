//! Declared stubs: they authenticate, cost their tokens, and answer 501.

use model::error::{CallError, ErrorCode};

use crate::openapi::Doc;
use crate::reply::Outcome;
use crate::request_context::ChannelCall;
use crate::route::{GET, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(GET, "/v1/channels/{id}/stories", list_stories).doc(stub("list_stories", "List stories")),
        Route::channel(GET, "/v1/channels/{id}/calls", list_calls).doc(stub("list_calls", "List calls")),
        Route::channel(POST, "/v1/channels/{id}/calls/{call_id}/accept", accept_call)
            .doc(stub("accept_call", "Accept a call")),
    ]
}

fn stub(id: &'static str, summary: &'static str) -> Doc {
    Doc::new(id, summary).about("Declared, and not there yet: it answers 501.").errors(&[ErrorCode::NotImplemented])
}

async fn list_stories(_: &mut ChannelCall) -> Outcome {
    Err(CallError::not_implemented("stories.list"))
}

async fn list_calls(_: &mut ChannelCall) -> Outcome {
    Err(CallError::not_implemented("calls.list"))
}

async fn accept_call(_: &mut ChannelCall) -> Outcome {
    Err(CallError::not_implemented("calls.accept"))
}
