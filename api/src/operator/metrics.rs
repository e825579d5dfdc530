//! `GET /metrics`: Prometheus text. No token, since the port is private and the text holds no tenant's data.

use crate::exchange::Exchange;
use crate::reply::{Outcome, Reply};
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![Route::get("/metrics").public(text)]
}

async fn text(exchange: &mut Exchange) -> Outcome {
    let text = (exchange.app.config.metrics_text)();
    Ok(Reply::content("text/plain; version=0.0.4; charset=utf-8", text))
}
