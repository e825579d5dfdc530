//! `/v1/admin/failpoints`: makes a running node of a test build fail on purpose.
//!
//! The routes exist only in builds with failpoints, never in releases, so they are not in the OpenAPI document.

use model::error::CallError;
use model::field::{Body, rule};
use raft::failpoint;

use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{DELETE, GET, PUT, Route};

/// The longest actions of a failpoint, in characters.
const LONGEST_ACTIONS: usize = 256;

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/failpoints", list),
        Route::operator(PUT, "/v1/admin/failpoints/{name}", arm).alone(),
        Route::operator(DELETE, "/v1/admin/failpoints/{name}", disarm).alone(),
    ]
}

async fn list(_: &mut OperatorCall) -> Outcome {
    Ok(Reply::ok(&List::whole(failpoint::list())))
}

fn parse_actions(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("actions", rule::text(1..=LONGEST_ACTIONS)))
}

async fn arm(call: &mut OperatorCall) -> Outcome {
    let actions = parse_actions(&call.object().await?)?;
    let name = call.parameter("name");
    failpoint::arm(name, &actions).map_err(|error| CallError::bad_request(error.to_string()))?;
    tracing::warn!(name, actions, "a failpoint is armed");
    Ok(Reply::no_content())
}

async fn disarm(call: &mut OperatorCall) -> Outcome {
    let name = call.parameter("name");
    failpoint::disarm(name).map_err(|error| CallError::bad_request(error.to_string()))?;
    tracing::warn!(name, "a failpoint is disarmed");
    Ok(Reply::no_content())
}
