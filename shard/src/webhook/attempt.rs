//! One attempt of a delivery: checks and resolves the target, connects, sends, and reads the start of the response.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use model::event::EventId;
use model::id::{CustomerId, DeliveryId};
use model::target::{Target, TargetPolicy, judge_url};
use model::time::Timestamp;
use model::webhook::delivery::{outcome_of_status, parse_retry_after};
use model::webhook::{Outcome, StaticHeaders, signature_header, standard_signature};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Position;

use super::connection::{self, Connection, Pool, Receiver};
use super::resolver::{Resolver, checked_addresses};

/// How much of a response's body is read and kept, in bytes.
const LONGEST_BODY: usize = 4096;

/// How many of a response's headers are kept, the longest value in characters, and their total size in bytes. The
/// receiver chooses them, and they are kept for weeks with each attempt.
const MOST_HEADERS: usize = 20;
const LONGEST_HEADER: usize = 1024;
const MOST_HEADER_BYTES: usize = 4096;

/// The first headers of a response, within these bounds.
fn kept_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut room = MOST_HEADER_BYTES;
    let mut kept = Vec::new();
    for (name, value) in headers.iter().take(MOST_HEADERS) {
        let name = cut(name.as_str(), room);
        let value: String = String::from_utf8_lossy(value.as_bytes()).chars().take(LONGEST_HEADER).collect();
        let value = cut(&value, room - name.len());
        room -= name.len() + value.len();
        if name.is_empty() {
            break;
        }
        kept.push((name, value));
    }
    kept
}

/// The longest prefix of a text that fits into `most` bytes.
fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

/// How attempts are made.
#[derive(Clone, Debug)]
pub struct AttemptConfig {
    pub policy: TargetPolicy,
    /// Used in `User-Agent: gateway-webhooks/<version>`.
    pub version: String,
    /// Also sends the headers of Standard Webhooks.
    pub standard_headers: bool,
    /// Trusted root certificates in addition to the platform's, in PEM: for receivers on the operator's premises.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// Timeout for resolving, connecting and the TLS handshake together.
    pub connect_timeout: Duration,
    /// Timeout from the request to the response's head.
    pub first_byte_timeout: Duration,
    /// Timeout of the whole attempt.
    pub whole_timeout: Duration,
    /// Timeout for the response's body, which does not affect the outcome.
    pub body_timeout: Duration,
}

impl AttemptConfig {
    /// The timeouts of production.
    pub fn new(policy: TargetPolicy, version: impl Into<String>) -> Self {
        Self {
            policy,
            version: version.into(),
            standard_headers: false,
            extra_ca_pem: None,
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(15),
            whole_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(2),
        }
    }
}

/// Why an [`Attempter`] cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AttempterError {
    #[error("the extra CA certificates cannot be read: {0}")]
    ExtraCa(String),
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// The request of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptRequest {
    /// The account that the receiver belongs to.
    pub account: CustomerId,
    pub url: String,
    /// The stored envelope, byte for byte.
    pub body: Bytes,
    /// The event's name; `webhook.test` for a probe.
    pub event: String,
    pub event_id: EventId,
    /// `None` for a probe, which is not a delivery.
    pub delivery_id: Option<DeliveryId>,
    /// 1 for the first attempt.
    pub attempt: u32,
    pub correlation_id: Option<String>,
    /// One secret, or two while the operator exchanges the master key.
    pub secrets: Vec<String>,
    /// The endpoint's own headers; the gateway's headers take precedence.
    pub headers: StaticHeaders,
    /// The present time; the signature's `t` is this time in seconds.
    pub now: Timestamp,
}

/// The outcome of an attempt. The fields are those of an attempt record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutcome {
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    /// At most 20, in the order of the response.
    pub response_headers: Vec<(String, String)>,
    /// At most 4,096 characters; `None` without a response or a body.
    pub response_body: Option<String>,
    /// The delay that the response asked for, unbounded; the retry schedule bounds it.
    pub retry_after: Option<Duration>,
    /// Time from the request to the response's head; 0 without a response.
    pub latency_ms: u64,
    /// Time of the whole attempt, including resolving, TLS and the body.
    pub elapsed_ms: u64,
    pub remote_ip: Option<IpAddr>,
    /// A message for the customer, if the attempt failed.
    pub error: Option<String>,
}

/// An attempt that got no response.
#[derive(Debug)]
pub(crate) struct Failure {
    outcome: Outcome,
    error: String,
    remote_ip: Option<IpAddr>,
}

impl Failure {
    pub fn new(outcome: Outcome, error: impl Into<String>) -> Self {
        Self { outcome, error: error.into(), remote_ip: None }
    }

    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub fn with_ip(self, ip: IpAddr) -> Self {
        Self { remote_ip: Some(ip), ..self }
    }
}

impl From<Failure> for AttemptOutcome {
    fn from(failure: Failure) -> Self {
        Self {
            outcome: failure.outcome,
            http_status: None,
            response_headers: Vec::new(),
            response_body: None,
            retry_after: None,
            latency_ms: 0,
            elapsed_ms: 0,
            remote_ip: failure.remote_ip,
            error: Some(failure.error),
        }
    }
}

/// A response whose head has arrived.
struct Answer {
    response: Response<Incoming>,
    connection: Connection,
    receiver: Receiver,
    latency: Duration,
}

/// Makes attempts. There is one per node; it keeps the idle connections.
pub struct Attempter {
    pub(crate) config: AttemptConfig,
    user_agent: HeaderValue,
    pub(crate) tls: TlsConnector,
    pub(crate) resolver: Arc<dyn Resolver>,
    pool: Pool,
}

impl Attempter {
    pub fn new(config: AttemptConfig, resolver: impl Resolver) -> Result<Self, AttempterError> {
        let tls = connection::tls_connector(config.extra_ca_pem.as_deref())?;
        let user_agent = HeaderValue::from_str(&format!("gateway-webhooks/{}", config.version))
            .unwrap_or_else(|_| HeaderValue::from_static("gateway-webhooks"));
        Ok(Self { config, user_agent, tls, resolver: Arc::new(resolver), pool: Pool::default() })
    }

    /// Whether attempts also carry the headers of Standard Webhooks.
    pub fn sends_standard_headers(&self) -> bool {
        self.config.standard_headers
    }

    /// Closes connections that have been idle for too long; to be called about every ten seconds.
    pub fn close_idle(&self) {
        self.pool.close_expired();
    }

    /// Makes one attempt. It always ends within the whole timeout, and never fails: a failure is an outcome.
    pub async fn attempt(&self, request: AttemptRequest) -> AttemptOutcome {
        let started = Instant::now();
        let mut outcome = match self.answer_to(&request, started).await {
            Ok(answer) => self.read(answer, &request, started).await,
            Err(failure) => failure.into(),
        };
        outcome.elapsed_ms = millis(started.elapsed());
        outcome
    }

    /// Sends the request and waits for the head of a response.
    async fn answer_to(&self, request: &AttemptRequest, started: Instant) -> Result<Answer, Failure> {
        let target = judge_url(&request.url, &self.config.policy)
            .map_err(|blocked| Failure::new(Outcome::Blocked, blocked.message))?;
        if let Some(connection) = self.pool.take(&Receiver::of(&target.url)) {
            match self.exchange(connection, &target, request, started).await {
                // The receiver may have closed the idle connection just before the request arrived, so a new connection
                // is tried. If the request did arrive, the receiver recognizes the event by its id.
                Err(failure) if failure.outcome == Outcome::Connect => {}
                answered => return answered,
            }
        }
        let connection = self.connect(request.account, &target).await?;
        self.exchange(connection, &target, request, started).await
    }

    async fn connect(&self, account: CustomerId, target: &Target) -> Result<Connection, Failure> {
        let limit = self.config.connect_timeout;
        let connecting = async {
            let begun = Instant::now();
            let addresses = checked_addresses(account, target, &self.config.policy, &*self.resolver).await?;
            let left = limit.saturating_sub(begun.elapsed());
            connection::open(&target.url, &addresses, &self.tls, left).await
        };
        let too_late = |_| Failure::new(Outcome::Timeout, format!("no connection within {} s", limit.as_secs_f32()));
        timeout(limit, connecting).await.map_err(too_late)?
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        target: &Target,
        request: &AttemptRequest,
        started: Instant,
    ) -> Result<Answer, Failure> {
        let ip = connection.remote_ip;
        let limit = self.config.first_byte_timeout.min(self.config.whole_timeout.saturating_sub(started.elapsed()));
        let written = Instant::now();
        let http = self.http_request(target, request)?;
        let sending = async {
            connection.sender.ready().await?;
            connection.sender.send_request(http).await
        };
        let (outcome, error) = match timeout(limit, sending).await {
            Ok(Ok(response)) => {
                let (receiver, latency) = (Receiver::of(&target.url), written.elapsed());
                return Ok(Answer { response, connection, receiver, latency });
            }
            Ok(Err(error)) if error.is_parse() => (Outcome::Http, format!("the answer is no HTTP/1.1: {error}")),
            Ok(Err(error)) => (Outcome::Connect, format!("the connection broke before an answer: {error}")),
            Err(_) => (Outcome::Timeout, format!("no answer within {} s", limit.as_secs_f32())),
        };
        Err(Failure::new(outcome, error).with_ip(ip))
    }

    fn http_request(&self, target: &Target, request: &AttemptRequest) -> Result<Request<Full<Bytes>>, Failure> {
        let t = request.now.unix_seconds();
        let secrets: Vec<&str> = request.secrets.iter().map(String::as_str).collect();
        let mut headers = vec![
            ("host", target.url[Position::BeforeHost..Position::AfterPort].to_owned()),
            ("x-gateway-signature", signature_header(&secrets, t, &request.body)),
            ("x-gateway-event", request.event.clone()),
            ("x-gateway-event-id", request.event_id.to_string()),
            ("x-gateway-attempt", request.attempt.to_string()),
        ];
        headers.extend(request.delivery_id.map(|id| ("x-gateway-delivery-id", id.to_string())));
        headers.extend(request.correlation_id.clone().map(|id| ("x-gateway-correlation-id", id)));
        if self.sends_standard_headers()
            && let Some(secret) = secrets.first()
        {
            headers.push(("webhook-id", request.event_id.to_string()));
            headers.push(("webhook-timestamp", t.to_string()));
            headers.push(("webhook-signature", standard_signature(secret, &request.event_id, t, &request.body)));
        }

        let mut http = Request::new(Full::new(request.body.clone()));
        *http.method_mut() = Method::POST;
        *http.uri_mut() = target.url[Position::BeforePath..Position::AfterQuery]
            .parse()
            .map_err(|error| Failure::new(Outcome::Blocked, format!("the path cannot be sent: {error}")))?;
        for (name, value) in &request.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                http.headers_mut().insert(name, value);
            }
        }
        http.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        http.headers_mut().insert(header::USER_AGENT, self.user_agent.clone());
        for (name, value) in headers {
            // Values consist of visible ASCII; any other value is omitted, as it must not stop the delivery.
            if let Ok(value) = HeaderValue::from_str(&value) {
                http.headers_mut().insert(name, value);
            }
        }
        Ok(http)
    }

    /// Records a response, and keeps its connection if the response was read to its end.
    async fn read(&self, answer: Answer, request: &AttemptRequest, started: Instant) -> AttemptOutcome {
        let Answer { response, connection, receiver, latency } = answer;
        let (head, body) = response.into_parts();
        let status = head.status.as_u16();
        let outcome = outcome_of_status(status);
        let remote_ip = connection.remote_ip;
        let retry_after = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let limit = self.config.body_timeout.min(self.config.whole_timeout.saturating_sub(started.elapsed()));
        let (bytes, ended) = read_some(body, limit).await;
        if ended {
            self.pool.put(receiver, connection);
        }
        let text = cut(&String::from_utf8_lossy(&bytes), LONGEST_BODY);
        AttemptOutcome {
            outcome,
            http_status: Some(status),
            response_headers: kept_headers(&head.headers),
            response_body: (!text.is_empty()).then_some(text),
            retry_after: retry_after.and_then(|text| parse_retry_after(text, request.now)),
            latency_ms: millis(latency),
            elapsed_ms: 0,
            remote_ip: Some(remote_ip),
            error: match outcome {
                Outcome::Success => None,
                Outcome::Redirect => Some(format!("HTTP status {status}; redirects are not followed")),
                _ => Some(format!("HTTP status {status}")),
            },
        }
    }
}

/// Reads at most [`LONGEST_BODY`] bytes for at most `limit`; returns whether that was the whole body.
async fn read_some(mut body: Incoming, limit: Duration) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            if let Some(data) = frame.data_ref() {
                let room = LONGEST_BODY - bytes.len();
                bytes.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    return false;
                }
            }
        }
        true
    };
    let ended = timeout(limit, reading).await.unwrap_or(false);
    (bytes, ended)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
