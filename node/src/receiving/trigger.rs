//! `gateway trigger`: sends an example event to an endpoint or a URL.

use anyhow::{anyhow, bail};
use model::event::{Event, EventId};
use model::time::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::access::{Account, failure};
use super::forward::Receiver;
use crate::caller::{Caller, was_not_sent};
use crate::cli::receiving::TriggerArgs;
use crate::console::say;
use crate::refusal::{Refusal, distrust, in_short};

/// Sends the event once.
///
/// # Errors
/// A [`Refusal`] when the request is wrong; any other error when the event was not accepted.
pub async fn run(args: TriggerArgs) -> anyhow::Result<()> {
    let TriggerArgs { event, account, endpoint, forward_to, signing_secret } = args;
    if let Some(url) = forward_to {
        let mut example = Event::example(event);
        example.occurred_at = Timestamp::now();
        example.id = EventId::mint(example.occurred_at, rand::random());
        let body = String::from_utf8(example.to_test_bytes())?;
        let receiver = Receiver::new(url.clone(), signing_secret)?;
        let sent = receiver.send(event.as_str(), example.id.as_str(), body).await;
        let (status, took) =
            sent.map_err(|error| anyhow!("{}; check that a receiver listens there", in_short(&error)))?;
        if !status.is_success() {
            bail!("{url} answered {event} with {status} instead of a 2xx");
        }
        say(format_args!("{event} was accepted by {url}: {status} after {} ms", took.as_millis()));
        return Ok(());
    }
    let account = Account::find(&account)?;
    let endpoint = match endpoint {
        Some(id) => id.to_string(),
        None => only_endpoint(&account).await?,
    };
    let path = format!("/v1/webhook-endpoints/{endpoint}/test");
    let result = ask(&account, Method::POST, &path, Some(&json!({ "event": event }))).await?;
    if result["ok"] != true {
        let said = result["error"]["message"].as_str().unwrap_or("for an unknown reason");
        bail!("endpoint {endpoint} did not accept {event}: {said}");
    }
    say(format_args!(
        "{event} was accepted by endpoint {endpoint}: {} after {} ms",
        result["http_status"], result["latency_ms"]
    ));
    Ok(())
}

/// The account's endpoint, if it has exactly one.
async fn only_endpoint(account: &Account) -> anyhow::Result<String> {
    let list = ask(account, Method::GET, "/v1/webhook-endpoints", None).await?;
    let endpoints = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let [one] = endpoints {
        return Ok(one["id"].as_str().unwrap_or_default().to_owned());
    }
    let named = |endpoint: &Value| format!("{} ({})", text(&endpoint["id"]), text(&endpoint["url"]));
    let (problem, remedy) = match endpoints {
        [] => ("the account has none".to_owned(), "create one, or name a URL with --forward-to"),
        several => {
            let all: Vec<String> = several.iter().map(named).collect();
            (format!("the account has several: {}", all.join(", ")), "name one with --endpoint")
        }
    };
    Err(Refusal::new("the endpoint", problem, remedy).into())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Calls the first node that answers.
async fn ask(account: &Account, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let caller = Caller::trusting("", Some(&account.key), &account.trust)?;
    let mut last = anyhow!("no node to ask");
    for node in &account.nodes {
        match caller.at(node.clone()).call(method.clone(), path, body).await {
            Ok((status, answer)) if status.is_success() => return Ok(answer),
            Ok((status, answer)) => {
                let scopes = "use a key with the scopes webhooks.read and webhooks.write";
                return Err(failure(node, status, &answer, scopes, "list them with GET /v1/webhook-endpoints"));
            }
            // The next node is tried only if nothing was sent to this one.
            Err(error) if was_not_sent(&error) => last = error,
            Err(error) => return Err(error),
        }
    }
    let remedy = distrust(&last).map_or_else(|| account.remedy(), str::to_owned);
    Err(anyhow!("{}; {remedy}", in_short(&last)))
}
