//! Declared stubs: they authenticate, cost tokens, and answer 501.

use model::error::{CallError, ErrorCode};

use crate::reply::Outcome;
use crate::request_context::ChannelCall;
use crate::route::{GET, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(GET, "/v1/channels/{id}/stories", list_stories).doc("list_stories", "List stories").also(stub),
        Route::channel(GET, "/v1/channels/{id}/calls", list_calls).doc("list_calls", "List calls").also(stub),
        Route::channel(POST, "/v1/channels/{id}/calls/{call_id}/accept", accept_call)
            .doc("accept_call", "Accept a call")
            .also(stub),
    ]
}

fn stub(route: Route) -> Route {
    route.about("Not implemented yet: it answers 501.").errors(&[ErrorCode::NotImplemented])
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
