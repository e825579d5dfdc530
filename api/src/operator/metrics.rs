//! `GET /metrics`: Prometheus text. Needs no token, since the port is private and the text holds no tenant's data.

use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;
use crate::route::{GET, Route};

/// The content type of Prometheus text.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub fn routes() -> Vec<Route> {
    vec![
        Route::public(GET, "/metrics", text)
            .doc("get_prometheus_metrics", "Get the node's metrics in the format of Prometheus")
            .content(TEXT),
    ]
}

async fn text(ctx: &mut RequestContext) -> Outcome {
    let text = (ctx.app.config.metrics_text)();
    Ok(Reply::content(TEXT, text))
}
