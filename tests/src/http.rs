//! Requests to the gateway and the simulator, and responses with assertions.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Once;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Certificate, Client, ClientBuilder, Method, RequestBuilder};
use serde_json::Value;

/// Longer than any wait that the API promises (10 s for a send, 5 s for a leader).
const TIMEOUT: Duration = Duration::from_secs(40);

/// A client of one node: a base URL and a bearer token.
#[derive(Clone, Debug)]
pub struct Api {
    client: Client,
    base: String,
    bearer: Option<String>,
}

/// Adds fields to a body, or replaces them.
pub fn merged(mut body: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    body
}

/// A client for plain HTTP. Connections belong to the runtime that opened them, so each test makes its own client.
pub fn client() -> Client {
    builder().build().expect("a plain client can be built")
}

/// Like [`client`], but its connections come from another address of this machine.
pub fn client_from(address: Ipv4Addr) -> Client {
    builder().local_address(IpAddr::from(address)).build().expect("a plain client can be built")
}

/// A client for HTTPS with a server that has this certificate.
pub fn client_of(certificate: &Certificate) -> Client {
    builder().tls_certs_only([certificate.clone()]).build().expect("a client of one server can be built")
}

fn builder() -> ClientBuilder {
    static PROVIDER: Once = Once::new();
    // reqwest needs a provider even without TLS. A second installation fails, which is harmless.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    Client::builder().no_proxy().tls_certs_only([]).redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT)
}

impl Api {
    pub fn new(client: Client, base: &str, bearer: Option<&str>) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), bearer: bearer.map(str::to_owned) }
    }

    /// The same node with another bearer token.
    pub fn with_key(&self, bearer: &str) -> Self {
        Self { bearer: Some(bearer.to_owned()), ..self.clone() }
    }

    /// The same node without a bearer token.
    pub fn without_key(&self) -> Self {
        Self { bearer: None, ..self.clone() }
    }

    pub fn bearer(&self) -> Option<&str> {
        self.bearer.as_deref()
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// A request with the bearer token, for the caller to complete.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.bearer {
            Some(bearer) => request.bearer_auth(bearer),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    /// A `POST` without a body, as the lifecycle routes take it.
    pub async fn act(&self, path: &str) -> Answer {
        answer(self.request(Method::POST, path)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        answer(self.request(Method::DELETE, path)).await
    }
}

/// Sends a request and reads the complete response.
///
/// # Panics
/// If there is no response. [`try_answer`] is for tests that expect a node to be down.
pub async fn answer(request: RequestBuilder) -> Answer {
    try_answer(request).await.unwrap_or_else(|error| panic!("no answer: {error:?}"))
}

/// Sends a request and reads the complete response.
///
/// # Errors
/// The error of the transport, if there is no response.
pub async fn try_answer(request: RequestBuilder) -> Result<Answer, reqwest::Error> {
    let (client, request) = request.build_split();
    let request = request?;
    let asked = format!("{} {}", request.method(), request.url());
    let response = client.execute(request).await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer { asked, status, headers, body: response.bytes().await? })
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Method and URL of the request, for messages.
    asked: String,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// # Panics
    /// If the body is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{}: {} with no JSON ({error}): {}", self.asked, self.status, self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn content_type(&self) -> Option<&str> {
        self.header(CONTENT_TYPE.as_str())
    }

    /// Asserts the status, and returns the body.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.asked, self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Asserts an error response: status, code, envelope, and one request id in body and header. Returns the details.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}: expected {code}: {}", self.asked, self.text());
        let body = self.json();
        assert_eq!(body["error"]["code"], code, "{}: {body}", self.asked);
        assert!(body["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{}: no message: {body}", self.asked);
        let request_id = body["request_id"].as_str();
        assert!(request_id.is_some(), "{}: no request_id: {body}", self.asked);
        assert_eq!(self.header("x-request-id"), request_id, "{}: X-Request-Id", self.asked);
        body["error"]["details"].clone()
    }

    /// Asserts that `Retry-After` is present in whole seconds, and returns it.
    #[track_caller]
    pub fn retry_after(&self) -> u64 {
        let text =
            self.header("retry-after").unwrap_or_else(|| panic!("{}: no Retry-After: {}", self.asked, self.text()));
        text.parse().unwrap_or_else(|_| panic!("{}: Retry-After is {text:?}", self.asked))
    }

    /// Asserts `invalid_request` with an issue at exactly this path and with one of these codes (`a|b`).
    #[track_caller]
    pub fn expect_issue(&self, path: &Value, codes: &str) {
        let details = self.expect_error(400, "invalid_request");
        let issues = details.as_array().unwrap_or_else(|| panic!("{}: details are no list: {details}", self.asked));
        for issue in issues {
            let whole = issue["path"].is_array() && issue["code"].is_string() && issue["message"].is_string();
            assert!(whole, "{}: an issue has path, code and message: {issue}", self.asked);
        }
        let found =
            issues.iter().any(|issue| issue["path"] == *path && codes.split('|').any(|code| issue["code"] == code));
        assert!(found, "{}: expected an issue at {path} with {codes}: {details}", self.asked);
    }
}

/// Parses a time of the API: ISO 8601 in UTC with milliseconds.
#[track_caller]
pub fn time(value: &Value) -> chrono::DateTime<chrono::Utc> {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    assert!(
        text.len() == 24 && text.ends_with('Z') && text.as_bytes()[19] == b'.',
        "not UTC with milliseconds: {text}"
    );
    text.parse().unwrap_or_else(|error| panic!("{text:?} is no time: {error}"))
}

/// Parses a UUID of the API.
#[track_caller]
pub fn uuid(value: &Value) -> uuid::Uuid {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no uuid: {value}"))
}

/// Reads a string of the API.
#[track_caller]
pub fn string(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no string: {value}")).to_owned()
}
