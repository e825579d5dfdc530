//! HTTP for the control API: parses a request, makes one call, writes the response.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use network::simulator::answers::{
    ControlError, InboxQuery, LedgerQuery, LinkBy, LoginsQuery, PhoneMessage, RegisterPhone, RegisterPhones,
    SessionsQuery,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::groups;
use super::{FailureBody, Refused, chat, invalid, number};
use crate::Shared;
use crate::faults::FaultsChange;
use crate::pairing::wrap;
use crate::state::State;

/// Size limit of a body: a phone may send media of 25 MB as base64.
const MAX_BODY: usize = 40 * 1024 * 1024;

/// How long a link request waits for the device's response.
const LINK_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Answer {
    status: StatusCode,
    body: Option<String>,
}

pub(super) type Outcome = Result<Answer, Refused>;

pub(super) fn shown(status: StatusCode, body: &impl Serialize) -> Outcome {
    let body = serde_json::to_string(body).map_err(|error| invalid(error.to_string()))?;
    Ok(Answer { status, body: Some(body) })
}

pub(super) fn ok(body: &impl Serialize) -> Outcome {
    shown(StatusCode::OK, body)
}

pub(super) fn done() -> Outcome {
    Ok(Answer { status: StatusCode::NO_CONTENT, body: None })
}

pub(crate) async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Full<Bytes>> {
    if let Some(id) = request.uri().path().strip_prefix("/pictures/") {
        let picture = id.parse().ok().and_then(|id| shared.with(|state| state.picture(id)));
        let (kind, bytes) = picture.unwrap_or(("text/plain", Bytes::new()));
        let mut response = Response::new(Full::new(bytes));
        if kind == "text/plain" {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        return response;
    }
    let answer = route(request, &shared).await.unwrap_or_else(|refused| {
        let (status, text) = match refused {
            Refused::Control(ControlError::Invalid(text)) => (StatusCode::BAD_REQUEST, text),
            Refused::Control(ControlError::NotFound(text)) => (StatusCode::NOT_FOUND, text),
            Refused::Unsupported(what) => {
                (StatusCode::NOT_IMPLEMENTED, format!("this network cannot do it yet: {what}"))
            }
        };
        Answer { status, body: Some(json!({ "error": text }).to_string()) }
    });
    let mut response = Response::new(Full::new(answer.body.map(Bytes::from).unwrap_or_default()));
    *response.status_mut() = answer.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A request, parsed as far as all routes need it.
pub(super) struct Call {
    pub(super) method: Method,
    path: String,
    query: Value,
    pub(super) body: Bytes,
}

impl Call {
    async fn read(request: Request<Incoming>) -> Result<Self, Refused> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await;
        let body = body.map_err(|error| invalid(format!("the body: {error}")))?.to_bytes();
        let query = head.uri.query().unwrap_or_default();
        Ok(Self { method: head.method, path: head.uri.path().to_owned(), query: query_of(query), body })
    }

    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        serde_json::from_slice(&self.body).map_err(|error| invalid(format!("the body: {error}")))
    }

    /// The body; the default if it is empty.
    fn body_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Refused> {
        if self.body.is_empty() { Ok(T::default()) } else { self.body() }
    }

    /// A field of the body; `null` if the field or the whole body is missing.
    pub(super) fn field<T: DeserializeOwned>(&self, name: &str) -> Result<T, Refused> {
        let value = self.body_or_default::<Map<String, Value>>()?.remove(name).unwrap_or_default();
        serde_json::from_value(value).map_err(|error| invalid(format!("the body: {name}: {error}")))
    }

    fn query<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        serde_json::from_value(self.query.clone()).map_err(|error| invalid(format!("the query: {error}")))
    }
}

/// Converts a query to JSON: `limit` and `since_seq` are numbers, all other values are strings.
fn query_of(query: &str) -> Value {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = unescaped(value);
        let number = matches!(name, "limit" | "since_seq").then(|| value.parse::<u64>().ok()).flatten();
        (name.to_owned(), number.map_or(Value::String(value), Value::from))
    });
    Value::Object(pairs.collect())
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        match (escaped, first) {
            (Some(byte), _) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (None, b'+') => {
                bytes.push(b' ');
                rest = tail;
            }
            (None, _) => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn route(request: Request<Incoming>, shared: &Shared) -> Outcome {
    let call = Call::read(request).await?;
    let path: Vec<&str> = call.path.split('/').filter(|part| !part.is_empty()).collect();
    if let ("POST", ["phones", phone, "link"]) = (call.method.as_str(), path.as_slice()) {
        return link(shared, phone, &call).await;
    }
    shared.with(|state| at_once(state, &call, &path))
}

async fn link(shared: &Shared, phone: &str, call: &Call) -> Outcome {
    let number = number(phone)?;
    let outcome = match call.body::<LinkBy>()? {
        LinkBy::Raw(raw) => shared.with(|state| state.scan_text(number, &raw))?,
        LinkBy::PairCode(code) => {
            let theirs = shared.with(|state| state.asked_for_code(number))?;
            // The key derivation has a hundred thousand rounds: it must not run under the lock, or block a runtime
            // thread.
            let wrapped = tokio::task::spawn_blocking(move || wrap(&theirs, &code)).await;
            let wrapped = wrapped.map_err(|error| invalid(error.to_string()))??;
            shared.with(|state| state.type_code(number, wrapped))?
        }
    };
    let late = || invalid("the device did not answer the pairing within 10 s");
    let outcome = tokio::time::timeout(LINK_WITHIN, outcome).await.map_err(|_| late())?;
    let device = outcome.map_err(|_| invalid("the device went away"))??;
    ok(&json!({ "device": device }))
}

/// Routes that need not wait.
fn at_once(state: &mut State, call: &Call, path: &[&str]) -> Outcome {
    match (call.method.as_str(), path) {
        ("GET", ["healthz"]) => ok(&json!({ "status": "ok" })),
        ("POST", ["reset"]) => {
            state.reset();
            done()
        }
        ("POST", ["phones"]) => {
            let (phone, is_new) = state.register(&call.body::<RegisterPhone>()?)?;
            shown(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &phone)
        }
        ("POST", ["phones", "bulk"]) => {
            let body: RegisterPhones = call.body()?;
            state.register_many(&body)?;
            shown(StatusCode::CREATED, &json!({ "count": body.count }))
        }
        (_, ["phones", phone, rest @ ..]) => of_phone(state, call, phone, rest),
        ("GET", ["devices", phone]) => ok(&state.devices_of(number(phone)?)?),
        (_, ["devices", phone, device, rest @ ..]) => of_device(state, call, phone, device, rest),
        ("GET", ["faults"]) => ok(&state.faults),
        ("PUT", ["faults"]) => ok(&state.change_faults(call.body::<FaultsChange>()?)?),
        ("DELETE", ["faults"]) => ok(&state.clear_faults()),
        ("GET", ["sessions"]) => ok(&state.sessions(&call.query::<SessionsQuery>()?)),
        ("GET", ["logins"]) => ok(&state.ledger.logins(&call.query::<LoginsQuery>()?)),
        ("GET", ["stats"]) => ok(&state.stats()),
        ("GET", ["accepted"]) => ok(&state.ledger.accepted(&call.query::<LedgerQuery>()?)),
        ("GET", ["sources"]) => ok(&state.ledger.sources),
        ("DELETE", ["media"]) => {
            state.files.forget(call.query["everywhere"] == "true");
            done()
        }
        ("POST", ["media", "expire-auth"]) => {
            state.files.expire_auth();
            done()
        }
        ("GET", ["crypto"]) => ok(&state.check.report()),
        _ => Err(nothing_here(call)),
    }
}

pub(super) fn nothing_here(call: &Call) -> Refused {
    Refused::Unsupported(format!("{} {}", call.method, call.path))
}

fn of_phone(state: &mut State, call: &Call, phone: &str, rest: &[&str]) -> Outcome {
    let phone = number(phone)?;
    match (call.method.as_str(), rest) {
        (_, ["groups", rest @ ..]) => return groups::route(state, call, phone, rest),
        ("GET", []) => return ok(&state.phone(phone)?),
        ("DELETE", []) => state.delete_phone(phone)?,
        ("POST", ["unlink"]) => state.unlink(phone, call.field("device")?)?,
        ("POST", ["ban"]) => state.ban(phone, call.field("until")?)?,
        ("POST", ["invalidate"]) => state.invalidate(phone)?,
        ("POST", ["replace"]) => state.replace(phone)?,
        ("POST", ["messages"]) => {
            let ids = state.send(phone, &call.body::<PhoneMessage>()?)?;
            return shown(StatusCode::CREATED, &json!({ "ids": ids }));
        }
        ("GET", ["inbox"]) => return ok(&state.inbox(phone, &call.query::<InboxQuery>()?)?),
        ("DELETE", ["inbox"]) => state.account_mut(phone)?.phone.inbox.clear(),
        ("GET", ["receipts"]) => return ok(&state.receipts(phone, call.query["id"].as_str())?),
        ("POST", ["open-chat"]) => state.open_chat(phone, &chat(&call.field::<String>("with")?)?)?,
        ("POST", ["play"]) => state.play(phone, &call.field::<String>("id")?)?,
        ("POST", ["react"]) => {
            state.react(phone, &call.field::<String>("id")?, &call.field::<String>("emoji")?)?;
        }
        ("POST", ["disclose"]) => state.disclose(phone, number(&call.field::<String>("to")?)?)?,
        ("POST", ["forget-session"]) => state.forget_session(phone, number(&call.field::<String>("with")?)?)?,
        ("POST", ["corrupt"]) => {
            let (to, count): (String, Option<u32>) = (call.field("to")?, call.field("count")?);
            state.corrupt(phone, number(&to)?, count.unwrap_or(1))?;
        }
        _ => return Err(nothing_here(call)),
    }
    done()
}

fn of_device(state: &mut State, call: &Call, phone: &str, device: &str, rest: &[&str]) -> Outcome {
    let at = state.device_named(number(phone)?, device)?;
    match (call.method.as_str(), rest) {
        ("POST", ["cut"]) => state.cut_device(at, None)?,
        ("POST", ["spend-prekeys"]) => state.spend_prekeys(at),
        ("POST", ["stream-error"]) => state.cut_device(at, Some(call.field("code")?))?,
        ("POST", ["failure"]) => state.fail_device(at, Some(call.body::<FailureBody>()?)),
        ("DELETE", ["failure"]) => state.fail_device(at, None),
        _ => return Err(nothing_here(call)),
    }
    done()
}
