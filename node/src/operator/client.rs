//! Client for the operators' port of a cluster, through whichever node answers.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::List;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::access::{Access, how_dev_starts};
use super::{Verdict, show};
use crate::caller::{Caller, text_of, was_not_sent};
use crate::cli::operator::OperatorArgs;
use crate::config::{Ops, Secret};
use crate::refusal::{Refusal, distrust, in_short, is_full};

/// Timeout of a query at a node while another node can be asked: longer than the node's own wait for the other nodes,
/// and for a shard without an owner.
const ANSWER: Duration = Duration::from_secs(8);

/// How long a change is retried until a node that was just started opens its operators' port.
const STARTING: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// How long a command that follows something tolerates that no node answers.
const SILENCE: Duration = Duration::from_secs(30);

/// Remedy when something else answers on the port, or nothing.
const OPERATORS_PORT: &str = "name the operators' port (usually 8081) of a running node with --ops or GATEWAY_OPS, \
                              with https:// if it has a certificate";

/// Result of fetching bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    Whole,
    /// The cluster does not have the bytes, or no longer.
    Gone,
}

/// An operator's client of a cluster.
#[derive(Clone, Debug)]
pub struct Operator {
    caller: Caller,
    nodes: Vec<String>,
    /// Remedy when no node answers.
    remedy: String,
}

impl Operator {
    /// Finds the cluster from the arguments and the environment.
    ///
    /// # Errors
    /// A [`Refusal`] when no address or no token can be found.
    pub fn new(args: &OperatorArgs) -> anyhow::Result<Self> {
        Self::by(Access::find(args)?)
    }

    /// A client of this node's own operators' port.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn at(ops: &Ops, token: &Secret) -> anyhow::Result<Self> {
        Self::by(Access::at(ops, token.clone()))
    }

    fn by(Access { nodes, token, trust, dev }: Access) -> anyhow::Result<Self> {
        let remedy = dev.as_deref().map_or_else(|| OPERATORS_PORT.to_owned(), how_dev_starts);
        Ok(Self { caller: Caller::trusting("", Some(&token.0), &trust)?, nodes, remedy })
    }

    /// Sends a query to each node until one answers.
    ///
    /// # Errors
    /// A [`Refusal`] when the cluster refuses the query; otherwise the error of the last node.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let mut last = None;
        for (index, node) in self.nodes.iter().enumerate() {
            let caller = self.caller.at(node.clone());
            let asking = caller.call(Method::GET, path, None);
            let answer = match index + 1 < self.nodes.len() {
                true => match tokio::time::timeout(ANSWER, asking).await {
                    Ok(answer) => answer,
                    Err(_) => Err(anyhow::anyhow!("GET {node}{path} was not answered within {ANSWER:?}")),
                },
                false => asking.await,
            };
            match answer.and_then(|(status, body)| judge(&Method::GET, node, path, status, body)) {
                Ok(body) => return Ok(body),
                // A refusal is the cluster's answer: every node would give it.
                Err(error) if error.is::<Refusal>() => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(unanswered(last, &self.remedy))
    }

    /// Like [`get`](Self::get), but retries while no node answers, for commands that follow a process.
    ///
    /// # Errors
    /// As [`get`](Self::get), once no node has answered for half a minute.
    pub async fn get_patiently(&self, path: &str) -> anyhow::Result<Value> {
        let give_up = Instant::now() + SILENCE;
        loop {
            match self.get(path).await {
                Err(error) if !error.is::<Refusal>() && Instant::now() < give_up => {
                    tracing::debug!(%error, path, "asking again");
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                Err(error) if !error.is::<Refusal>() => {
                    return Err(error.context("what was started continues by itself; check again later"));
                }
                answered => return answered,
            }
        }
    }

    /// Like [`get_patiently`](Self::get_patiently), parsed as `T`.
    ///
    /// # Errors
    /// As [`get_patiently`](Self::get_patiently), or the response has another shape.
    pub async fn read_patiently<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        as_type(path, self.get_patiently(path).await?)
    }

    /// Passes a long response to `keep`, from the first node that starts to answer.
    ///
    /// # Errors
    /// As [`get`](Self::get), or an error of `keep`.
    pub async fn fetch(
        &self,
        path: &str,
        keep: impl AsyncFnOnce(Response) -> anyhow::Result<()>,
    ) -> anyhow::Result<Fetched> {
        let mut last = None;
        for node in &self.nodes {
            match self.caller.at(node.clone()).open(path).await {
                Ok(response) if response.status().is_success() => {
                    return match keep(response).await {
                        Ok(()) => Ok(Fetched::Whole),
                        // A full disk on this machine is not the node's fault.
                        Err(error) if is_full(&error) => Err(error),
                        Err(error) => Err(error.context(format!("GET {node}{path}"))),
                    };
                }
                Ok(response) if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::GONE) => {
                    return Ok(Fetched::Gone);
                }
                Ok(response) => {
                    let (status, text) = (response.status(), text_of(response).await.unwrap_or_default());
                    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
                    match judge(&Method::GET, node, path, status, body) {
                        Err(error) if error.is::<Refusal>() => return Err(error),
                        judged => last = judged.err(),
                    }
                }
                Err(error) => last = Some(error),
            }
        }
        Err(unanswered(last, &self.remedy))
    }

    /// Like [`get`](Self::get), parsed as `T`.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the response has another shape.
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        as_type(path, self.get(path).await?)
    }

    /// All rows of a paged list; `path` must already have a query.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn all(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        self.at_most(path, usize::MAX).await
    }

    /// The first `most` rows of a paged list; `path` must already have a query.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn at_most(&self, path: &str, most: usize) -> anyhow::Result<Vec<Value>> {
        let mut rows = Vec::new();
        let mut page: List<Value> = self.read(path).await?;
        loop {
            rows.append(&mut page.data);
            let Some(cursor) = page.next_cursor.flatten().filter(|_| rows.len() < most) else { break };
            page = self.read(&format!("{path}&cursor={cursor}")).await?;
        }
        rows.truncate(most);
        Ok(rows)
    }

    /// Sends a change. The next node is tried only if nothing was sent to this one: after any other failure, it is
    /// unknown whether the change was made.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn change(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let give_up = Instant::now() + STARTING;
        loop {
            let mut last = None;
            for node in &self.nodes {
                match self.caller.at(node.clone()).call(method.clone(), path, body).await {
                    Ok((status, answer)) => return judge(&method, node, path, status, answer),
                    Err(error) if was_not_sent(&error) => last = Some(error),
                    Err(error) => {
                        return Err(error.context("it is not known whether this was done; check before you try again"));
                    }
                }
            }
            if Instant::now() >= give_up {
                return Err(unanswered(last, &self.remedy));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Like [`post`](Self::post), for a request or a response of bytes: `fill` sets the body of the request.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub async fn exchange(
        &self,
        path: &str,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> anyhow::Result<Vec<u8>> {
        let mut last = None;
        for node in &self.nodes {
            match self.caller.at(node.clone()).exchange(path, &fill).await {
                Ok((status, answer)) => {
                    if !status.is_success() {
                        let said = String::from_utf8_lossy(&answer).into_owned();
                        let body = serde_json::from_str(&said).unwrap_or(Value::String(said));
                        judge(&Method::POST, node, path, status, body)?;
                    }
                    return Ok(answer);
                }
                Err(error) if was_not_sent(&error) => last = Some(error),
                Err(error) => {
                    return Err(error.context("it is not known whether this was done; check before you try again"));
                }
            }
        }
        Err(unanswered(last, &self.remedy))
    }

    /// Like [`change`](Self::change), with `POST`.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.change(Method::POST, path, Some(body)).await
    }
}

/// Percent-encodes a text for a path segment or a query value.
pub fn in_path(text: &str) -> String {
    /// All characters but the unreserved ones (RFC 3986, section 2.3).
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Parses a response as `T`.
///
/// # Errors
/// The response has another shape.
pub fn as_type<T: DeserializeOwned>(path: &str, answer: Value) -> anyhow::Result<T> {
    serde_json::from_value(answer).with_context(|| format!("the answer to {path} is from another release"))
}

/// Prints a response: unchanged as JSON, or with `print` for people. Returns the parsed response, for the verdict.
///
/// # Errors
/// As [`as_type`].
pub fn shown<T: DeserializeOwned>(
    args: &OperatorArgs,
    path: &str,
    answer: Value,
    print: impl FnOnce(&T),
) -> anyhow::Result<T> {
    if args.json {
        show::json(&answer);
    }
    let said = as_type(path, answer)?;
    if !args.json {
        print(&said);
    }
    Ok(said)
}

/// Like [`shown`], for commands whose verdict does not depend on the response: with `--json`, the response of another
/// release is accepted.
///
/// # Errors
/// As [`as_type`].
pub fn told<T: DeserializeOwned>(
    args: &OperatorArgs,
    path: &str,
    answer: Value,
    print: impl FnOnce(T),
) -> anyhow::Result<Verdict> {
    if args.json {
        show::json(&answer);
    } else {
        print(as_type(path, answer)?);
    }
    Ok(Verdict::Well)
}

/// The error of the last node that was asked.
fn unanswered(last: Option<anyhow::Error>, remedy: &str) -> anyhow::Error {
    let Some(error) = last else { return anyhow::anyhow!("no node to ask") };
    let is_of_http = error.chain().any(|cause| cause.is::<reqwest::Error>());
    match distrust(&error).or(is_of_http.then_some(remedy)) {
        Some(remedy) => anyhow::anyhow!("{}; {remedy}", in_short(&error)),
        None => error,
    }
}

/// The body of a successful response, or an error with a remedy.
fn judge(method: &Method, node: &str, path: &str, status: StatusCode, body: Value) -> anyhow::Result<Value> {
    if status.is_success() {
        return Ok(body);
    }
    let Some(code) = body.pointer("/error/code").and_then(Value::as_str) else {
        bail!("{method} {node}{path} answered {status}: {body}");
    };
    let message = spelt_out(&body);
    let remedy = match status {
        StatusCode::UNAUTHORIZED => "give the token of this cluster with --token-file or GATEWAY_OPERATOR_TOKEN_FILE",
        // The client only uses routes of the operators' port.
        StatusCode::NOT_FOUND if message.contains("no such route") => OPERATORS_PORT,
        StatusCode::NOT_FOUND => match body.pointer("/error/details/resource").and_then(Value::as_str) {
            Some("node") => "gateway nodes lists the nodes",
            Some("shard") => "gateway shards lists the shards",
            Some("customer") => "gateway customer list lists the customers",
            Some("api_key") => "gateway keys lists the keys",
            _ => "check the id",
        },
        // The node throttles this address because of wrong tokens, whoever sends the next one.
        StatusCode::TOO_MANY_REQUESTS => {
            bail!("{method} {node}{path}: {message} ({code}); check the token, and try again in a minute")
        }
        status if status.is_client_error() => "nothing was changed",
        _ => bail!("{method} {node}{path}: {message} ({code})"),
    };
    Err(Refusal::new(code, message, remedy).into())
}

/// The message of an error, with all of its issues.
fn spelt_out(body: &Value) -> String {
    let mut text = body.pointer("/error/message").and_then(Value::as_str).unwrap_or("no message").to_owned();
    let issues = body.pointer("/error/details").and_then(Value::as_array);
    for issue in issues.into_iter().flatten() {
        let path: Vec<String> = issue["path"].as_array().into_iter().flatten().map(step).collect();
        let issue = format!("{}: {}", path.join("."), issue["message"].as_str().unwrap_or_default());
        // With a single issue, the message contains it already.
        if !text.contains(&issue) {
            text.push_str("; ");
            text.push_str(&issue);
        }
    }
    text
}

fn step(step: &Value) -> String {
    step.as_str().map_or_else(|| step.to_string(), str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn failure(status: u16, body: Value) -> anyhow::Error {
        judge(&Method::GET, "http://n", "/x", StatusCode::from_u16(status).unwrap(), body).unwrap_err()
    }

    #[test]
    fn what_the_caller_did_wrong_is_a_refusal_with_all_issues() {
        let issue = json!({ "path": ["plan", "channel_limit"], "code": "type", "message": "must be a number" });
        let body =
            json!({ "error": { "code": "invalid_request", "message": "the body is wrong", "details": [issue] } });
        let error = failure(400, body);
        assert!(error.is::<Refusal>());
        assert!(error.to_string().contains("plan.channel_limit: must be a number"), "{error}");
        let single = json!([{ "path": ["name"], "code": "required", "message": "is required" }]);
        let body = json!({ "error": { "code": "invalid_request", "message": "name: is required", "details": single } });
        assert_eq!(failure(400, body).to_string(), "invalid_request: name: is required; nothing was changed");
        let wrong_token = failure(401, json!({ "error": { "code": "auth_invalid", "message": "no" } }));
        assert!(wrong_token.to_string().contains("--token-file"), "{wrong_token}");
    }

    #[test]
    fn what_is_not_there_is_answered_with_where_to_look() {
        let missing = |details: Value| {
            let body = json!({ "error": { "code": "not_found", "message": "no such thing", "details": details } });
            failure(404, body).to_string()
        };
        assert!(missing(json!({ "resource": "api_key" })).ends_with("; gateway keys lists the keys"));
        assert!(missing(json!({ "resource": "channel" })).ends_with("; check the id"));
        assert!(missing(Value::Null).ends_with("; check the id"));
    }

    #[test]
    fn a_certificate_that_nobody_vouches_for_is_answered_with_how_to() {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error = anyhow::Error::new(std::io::Error::other(unknown)).context("GET https://n/x");
        let said = unanswered(Some(error), OPERATORS_PORT).to_string();
        assert!(said.starts_with("GET https://n/x: ") && said.ends_with("with --ca-file"), "{said}");
        let own = anyhow::anyhow!("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))");
        let said = unanswered(Some(own.context("GET https://n/x")), OPERATORS_PORT).to_string();
        assert!(said.contains("CA:FALSE") && !said.contains("--ca-file"), "{said}");
    }

    #[test]
    fn a_text_in_a_path_is_one_segment() {
        assert_eq!(in_path("3EB0/a b&c"), "3EB0%2Fa%20b%26c");
    }

    #[test]
    fn what_the_cluster_cannot_do_is_none() {
        let busy = failure(503, json!({ "error": { "code": "worker_at_capacity", "message": "no leader" } }));
        assert!(!busy.is::<Refusal>() && busy.to_string().contains("no leader"), "{busy}");
        let too_many = failure(429, json!({ "error": { "code": "rate_limited", "message": "too many" } }));
        assert!(!too_many.is::<Refusal>() && too_many.to_string().contains("try again"), "{too_many}");
        let other_port = failure(404, json!({ "error": { "code": "not_found", "message": "no such route" } }));
        assert!(other_port.is::<Refusal>() && other_port.to_string().contains("--ops"), "{other_port}");
        let proxy = failure(502, json!("<html>"));
        assert!(!proxy.is::<Refusal>() && proxy.to_string().contains("502"), "{proxy}");
    }
}
