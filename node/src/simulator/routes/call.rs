//! Parsing of requests and writing of responses, shared by all routes of the control API.

use std::net::IpAddr;

use bytes::Bytes;
use futures::future::BoxFuture;
use model::address::Address;
use model::error::CallError;
use model::time::Timestamp;
use network::operation::picture::Picture;
use network::simulator::Simulator;
use network::simulator::answers::ControlError;
use network::simulator::engine::Engine;
use network::simulator::number::Number;
use salvo::http::StatusCode;
use salvo::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, ORIGIN};
use salvo::http::uri::Authority;
use salvo::prelude::{Depot, FlowCtrl, Request, Response, Router, Text};
use salvo::{Handler, async_trait};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Size limit of a body: a phone may send media of 25 MB as base64.
const MAX_BODY: usize = 40 * 1024 * 1024;

/// A route: its method, path and handler.
pub type Route = (Method, &'static str, fn(&Call) -> Outcome);

pub type Method = fn(Router, Endpoint) -> Router;

pub const GET: Method = Router::get;
pub const POST: Method = Router::post;
pub const PUT: Method = Router::put;
pub const PATCH: Method = Router::patch;
pub const DELETE: Method = Router::delete;

/// A request, parsed as far as all routes need it.
pub struct Call {
    pub simulator: Simulator,
    /// The path's `{n}`; empty if the route has none.
    pub phone: String,
    /// The other path parameters and their values.
    params: Vec<(String, String)>,
    queries: Vec<(String, String)>,
    body: Vec<u8>,
}

pub type Outcome = Result<Answer, ControlError>;

pub struct Answer {
    status: StatusCode,
    body: Option<Body>,
}

enum Body {
    /// Serialized immediately, so that fields keep the order of their declaration.
    Json(String),
    Jpeg(Bytes),
}

impl Call {
    /// Performs an action on the phone named in the path.
    pub fn act<T>(
        &self,
        act: impl FnOnce(&mut Engine, Timestamp, Number) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        self.simulator.act_for(&self.phone, act)
    }

    /// Like [`Self::act`], without a result.
    pub fn done(&self, act: impl FnOnce(&mut Engine, Timestamp, Number) -> Result<(), ControlError>) -> Outcome {
        self.act(act)?;
        Answer::done()
    }

    pub fn body<T: DeserializeOwned>(&self) -> Result<T, ControlError> {
        serde_json::from_slice(&self.body).map_err(|error| ControlError::Invalid(format!("the body: {error}")))
    }

    /// Parses the body with the parser of the gateway's own route.
    pub fn read<T>(&self, parser: impl FnOnce(&model::field::Body) -> Result<T, CallError>) -> Result<T, ControlError> {
        let refuse = |error: CallError| {
            let details = error.details.map(|details| format!(": {details}")).unwrap_or_default();
            ControlError::Invalid(format!("{}{details}", error.message))
        };
        parser(&self.body::<Value>()?.try_into().map_err(refuse)?).map_err(refuse)
    }

    /// A field of the body; `null` if the field or the whole body is missing.
    pub fn field<T: DeserializeOwned>(&self, name: &str) -> Result<T, ControlError> {
        let mut body: Map<String, Value> = if self.body.is_empty() { Map::new() } else { self.body()? };
        let value = body.remove(name).unwrap_or_default();
        serde_json::from_value(value).map_err(|error| ControlError::Invalid(format!("the body: {name}: {error}")))
    }

    /// The body as a picture. A phone crops pictures itself, so the bytes are used unchanged.
    pub fn picture(&self) -> Result<Picture, ControlError> {
        let bytes = Bytes::from(self.body.clone());
        // JSON with a URL, which the gateway's route accepts, is not supported.
        if bytes.is_empty() || bytes.starts_with(b"{") {
            return Err(ControlError::Invalid("the body must be the bytes of a JPEG".into()));
        }
        Ok(Picture { full: bytes.clone(), preview: bytes })
    }

    /// The value of the path parameter `{name}`; empty if the route has none.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The address or phone number in the path parameter `{name}`.
    pub fn address(&self, name: &str) -> Result<Address, ControlError> {
        self.simulator.address(self.param(name))
    }

    /// The addresses in a field of the body.
    pub fn addresses(&self, name: &str) -> Result<Vec<Address>, ControlError> {
        self.named(&self.field::<Vec<String>>(name)?)
    }

    pub fn named(&self, people: &[String]) -> Result<Vec<Address>, ControlError> {
        people.iter().map(|text| self.simulator.address(text)).collect()
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.queries.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, ControlError> {
        let parse = |text: String| {
            text.parse().map_err(|_| ControlError::Invalid(format!("{name} must be a whole number, not {text:?}")))
        };
        self.text(name).map(parse).transpose()
    }

    pub fn limit(&self) -> Result<Option<usize>, ControlError> {
        Ok(self.number("limit")?.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)))
    }
}

impl Answer {
    pub fn json(status: StatusCode, body: &impl Serialize) -> Outcome {
        let body = serde_json::to_string(body).map_err(|error| ControlError::Invalid(error.to_string()))?;
        Ok(Self { status, body: Some(Body::Json(body)) })
    }

    pub fn ok(body: &impl Serialize) -> Outcome {
        Self::json(StatusCode::OK, body)
    }

    /// Rows with their count.
    pub fn list(rows: impl IntoIterator<Item = impl Serialize>) -> Outcome {
        let rows: Vec<_> = rows.into_iter().collect();
        Self::ok(&json!({ "total": rows.len(), "data": rows }))
    }

    pub fn jpeg(bytes: Bytes) -> Outcome {
        Ok(Self { status: StatusCode::OK, body: Some(Body::Jpeg(bytes)) })
    }

    pub fn done() -> Outcome {
        Ok(Self { status: StatusCode::NO_CONTENT, body: None })
    }
}

/// Whether a browser sent the request for a page of another origin. The API has no authentication that would stop such
/// a page.
fn is_of_a_foreign_page(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let Some(Ok(authority)) = authority.map(|(_, authority)| authority.parse::<Authority>()) else { return true };
    let host = authority.host();
    host != "localhost" && !host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Handler of a route's requests.
pub struct Endpoint {
    pub simulator: Simulator,
    pub run: Run,
}

pub enum Run {
    Now(fn(&Call) -> Outcome),
    /// For routes that wait for a node.
    Waiting(fn(Call) -> BoxFuture<'static, Outcome>),
}

impl Endpoint {
    async fn answer(&self, request: &mut Request) -> Outcome {
        let body = request.payload_with_max_size(MAX_BODY).await.map(|body| body.to_vec());
        if is_of_a_foreign_page(request.headers()) {
            return Err(ControlError::Invalid("pages of elsewhere may not ask this machine's simulator".into()));
        }
        let body = body.map_err(|error| ControlError::Invalid(format!("the body: {error}")))?;
        let queries = request.queries().iter_all();
        let queries = queries.flat_map(|(key, values)| values.iter().map(|value| (key.clone(), value.clone())));
        let call = Call {
            simulator: self.simulator.clone(),
            phone: request.param("n").unwrap_or_default(),
            params: request.params().iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            queries: queries.collect(),
            body,
        };
        match self.run {
            Run::Now(run) => run(&call),
            Run::Waiting(run) => run(call).await,
        }
    }
}

#[async_trait]
impl Handler for Endpoint {
    async fn handle(&self, request: &mut Request, _depot: &mut Depot, response: &mut Response, _flow: &mut FlowCtrl) {
        let answer = self.answer(request).await.unwrap_or_else(|error| {
            let status = match error {
                ControlError::Invalid(_) => StatusCode::BAD_REQUEST,
                ControlError::NotFound(_) => StatusCode::NOT_FOUND,
            };
            Answer { status, body: Some(Body::Json(json!({ "error": error.to_string() }).to_string())) }
        });
        response.status_code(answer.status);
        match answer.body {
            Some(Body::Json(body)) => response.render(Text::Json(body)),
            Some(Body::Jpeg(bytes)) => {
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("image/jpeg"));
                // This cannot fail, because nothing was written to the response before.
                let _ = response.write_body(bytes);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_elsewhere_ask_for_nothing() {
        let table = [
            (None, false),
            (Some("http://localhost:3000"), false),
            (Some("http://[::1]:3000"), false),
            (Some("http://127.0.0.1:8001"), false),
            (Some("https://example.com"), true),
            (Some("https://localhost.example.com"), true),
            (Some("http://192.0.2.1"), true),
            (Some("null"), true),
        ];
        for (origin, is_foreign) in table {
            let mut headers = HeaderMap::new();
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(is_of_a_foreign_page(&headers), is_foreign, "{origin:?}");
        }
    }
}
