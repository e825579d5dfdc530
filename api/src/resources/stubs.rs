//! Declared stubs: they authenticate, cost their tokens, and answer 501 (interface 4.1 and 9, rule 5).

use model::error::ApiError;

use crate::exchange::ChannelCall;
use crate::reply::Outcome;
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/channels/{id}/stories").channel(list_stories),
        Route::get("/v1/channels/{id}/calls").channel(list_calls),
        Route::post("/v1/channels/{id}/calls/{call_id}/accept").channel(accept_call),
    ]
}

async fn list_stories(_: &mut ChannelCall) -> Outcome {
    Err(ApiError::not_implemented("stories.list"))
}

async fn list_calls(_: &mut ChannelCall) -> Outcome {
    Err(ApiError::not_implemented("calls.list"))
}

async fn accept_call(_: &mut ChannelCall) -> Outcome {
    Err(ApiError::not_implemented("calls.accept"))
}
