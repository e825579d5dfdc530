//! Messages: sending, and reading what was stored (interface 4.2, supplement 5).

mod deliveries;
mod history;
mod media;
mod send;

use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/channels/{id}/messages").plan_blocks().channel(send::send),
        Route::get("/v1/channels/{id}/messages").channel(history::of_channel),
        Route::get("/v1/channels/{id}/messages/{message_id}/media").channel(media::of_message),
        Route::get("/v1/messages").account(history::of_account),
        Route::get("/v1/messages/{message_id}/deliveries").account(deliveries::of_message),
    ]
}
