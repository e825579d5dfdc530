//! `POST /console/phones`: a phone of the simulated network scans a code, for users who try out the console without a
//! phone. The route exists only if `network.phones` names a simulated network.

use std::time::Duration;

use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::issue::{IssueCode, Violation};
use reqwest::{Client, redirect};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::session::require_own_page;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;

/// Timeout of a call. The simulated network is on the same machine.
const ANSWER: Duration = Duration::from_secs(5);

/// The longest text that is accepted as a code, in characters.
const LONGEST_CODE: usize = 4096;

/// The prefix of fictional phone numbers.
const PREFIX: &str = "1555";

#[derive(Serialize, JsonSchema)]
pub struct SimulatedPhone {
    number: String,
}

/// Creates a phone, which then scans the code.
pub async fn scan(ctx: &mut RequestContext) -> Outcome {
    let base = ctx.app.config.simulated_phones.clone().ok_or_else(CallError::route_not_found)?;
    require_own_page(ctx)?;
    let raw = parse(&ctx.optional_object().await?)?;
    let number = format!("{PREFIX}{:07}", rand::random::<u32>() % 10_000_000);
    let phones = format!("{base}/phones");
    let client = Client::builder().timeout(ANSWER).redirect(redirect::Policy::none()).no_proxy().build();
    let client = client.map_err(|error| failure::internal("no way to the simulated network", &error))?;
    if !tell(&client, &phones, json!({ "number": number, "name": "Simulated phone" })).await? {
        return Err(CallError::new(ErrorCode::Other, "the simulated network cannot have another phone"));
    }
    if !tell(&client, &format!("{phones}/{number}/link"), json!({ "raw": raw })).await? {
        let why = "the network shows no such code any more; scan the next one";
        return Err(Violation::new(IssueCode::Format, why).at(&["raw"]));
    }
    Ok(Reply::ok(&SimulatedPhone { number }))
}

/// Posts to the simulated network. Returns whether it accepted the request.
async fn tell(client: &Client, url: &str, body: Value) -> Result<bool, CallError> {
    let answer = client.post(url).json(&body).send().await;
    answer.map(|answer| answer.status().is_success()).map_err(|error| {
        CallError::new(ErrorCode::Other, format!("the simulated network does not answer: {}", error.without_url()))
    })
}

/// Reads `{ "raw" }`, the text of a code.
fn parse(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("raw", rule::text(1..=LONGEST_CODE)))
}
