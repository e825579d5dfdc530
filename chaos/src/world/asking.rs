//! Requests of the harness itself: with a timeout, and with an error rather than a panic when the node is gone.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use reqwest::Method;
use serde_json::Value;
use tests::http::{Api, try_answer};

/// Timeout of one request.
const ANSWER: Duration = Duration::from_secs(10);

/// Pause between two checks of an awaited condition.
const LOOK: Duration = Duration::from_millis(100);

/// Sends a request and returns the body of a 2xx response.
///
/// # Errors
/// When no response arrives in time, or one with another status.
pub async fn ask(api: &Api, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
    ask_within(api, method, path, body, ANSWER).await
}

/// As [`ask`], with a timeout of its own.
///
/// # Errors
/// As [`ask`].
pub async fn ask_within(
    api: &Api,
    method: Method,
    path: &str,
    body: Option<Value>,
    patience: Duration,
) -> anyhow::Result<Value> {
    let asked = format!("{method} {}{path}", api.base());
    let mut request = api.request(method, path).timeout(patience);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = try_answer(request).await.with_context(|| asked.clone())?;
    ensure!((200..300).contains(&answer.status), "{asked}: {} {}", answer.status, answer.text());
    if answer.body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&answer.body).with_context(|| asked)
}

/// Sends a GET request.
///
/// # Errors
/// As [`ask`].
pub async fn get(api: &Api, path: &str) -> anyhow::Result<Value> {
    ask(api, Method::GET, path, None).await
}

/// Retries `look` until it succeeds.
///
/// # Errors
/// The last error of `look`, once `within` has passed.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(seen) => return Ok(seen),
            Err(last) if start.elapsed() >= within => bail!("not within {within:?}: {what}; last seen: {last:#}"),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}
