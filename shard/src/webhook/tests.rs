//! Attempts against small receivers that answer correctly, badly, slowly or never.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::event::EventId;
use model::id::{CustomerId, DeliveryId};
use model::msgpack;
use model::target::TargetPolicy;
use model::time::Timestamp;
use model::webhook::{Outcome, sign};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::attempt::{AttemptConfig, AttemptOutcome, AttemptRequest, Attempter};
use super::resolver::Resolver;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// What a receiver does with each request.
#[derive(Clone, Copy)]
enum Answer {
    Text(&'static str),
    /// Answers, then closes the connection without announcing it.
    TextAndClose(&'static str),
    Hang,
    Reset,
    /// Sends a head that never ends, byte by byte.
    SlowHead,
    /// Sends a valid head, then an endless body.
    EndlessBody,
    /// Sends a valid head, then nothing.
    SilentBody,
}

struct Receiver {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
    connections: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Receiver {
    async fn start(answer: Answer) -> Self {
        Self::start_with(move |stream, heard| serve(stream, answer, heard)).await
    }

    async fn start_with<F>(serve: impl Fn(TcpStream, mpsc::UnboundedSender<String>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, requests) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, heard.clone()));
            }
        });
        Self { address, requests, connections, _task: AbortOnDropHandle::new(task) }
    }

    fn url(&self) -> String {
        format!("http://{}/hook?x=1", self.address)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one request; `None` when the connection ends first.
async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|n| n.parse().unwrap());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answer: Answer, heard: mpsc::UnboundedSender<String>) {
    while let Some(request) = read_request(&mut stream).await {
        let _ = heard.send(request);
        match answer {
            Answer::Text(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Answer::TextAndClose(text) => return stream.write_all(text.as_bytes()).await.unwrap(),
            Answer::Hang => std::future::pending().await,
            Answer::Reset => return,
            Answer::SlowHead => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Answer::EndlessBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
                while stream.write_all(b"400\r\n").await.is_ok()
                    && stream.write_all(&[b'a'; 0x400]).await.is_ok()
                    && stream.write_all(b"\r\n").await.is_ok()
                {}
            }
            Answer::SilentBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart").await.unwrap();
                std::future::pending().await
            }
        }
    }
}

/// Answers with the same addresses for every name.
struct Fixed(Vec<IpAddr>);

#[async_trait]
impl Resolver for Fixed {
    async fn resolve(&self, _: CustomerId, _host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if self.0.is_empty() {
            return Err(io::Error::other("no such host"));
        }
        Ok(self.0.iter().map(|ip| SocketAddr::new(*ip, port)).collect())
    }
}

fn localhost() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// The production timeouts: on a busy machine a test waits, and does not fail.
fn config(policy: TargetPolicy) -> AttemptConfig {
    AttemptConfig::new(policy, "1.2.3")
}

/// Short timeouts for receivers that never answer.
fn impatient() -> Attempter {
    let config = AttemptConfig {
        first_byte_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(100),
        ..config(TargetPolicy::dev())
    };
    Attempter::new(config, Fixed(vec![])).unwrap()
}

fn attempter(policy: TargetPolicy, resolver: Fixed) -> Attempter {
    Attempter::new(config(policy), resolver).unwrap()
}

fn request(url: &str) -> AttemptRequest {
    AttemptRequest {
        account: CustomerId(uuid::Uuid::nil()),
        url: url.to_owned(),
        body: Bytes::from_static(b"{\"event\":\"message.sent\"}"),
        event: "message.sent".into(),
        event_id: EventId::mint(Timestamp(0), [0; 10]),
        delivery_id: Some(DeliveryId(uuid::Uuid::nil())),
        attempt: 3,
        correlation_id: Some("req_12345678".into()),
        secrets: vec!["whsec_example_0123456789abcdef".into()],
        headers: Vec::new(),
        now: Timestamp(1_767_225_600_999),
    }
}

async fn attempt_at(answer: Answer) -> AttemptOutcome {
    let receiver = Receiver::start(answer).await;
    attempter(TargetPolicy::dev(), Fixed(vec![])).attempt(request(&receiver.url())).await
}

#[tokio::test]
async fn a_delivery_carries_its_headers_and_its_body_byte_for_byte() {
    let mut receiver = Receiver::start(Answer::Text(OK)).await;
    let outcome = attempter(TargetPolicy::dev(), Fixed(vec![])).attempt(request(&receiver.url())).await;
    assert_eq!((outcome.outcome, outcome.http_status, outcome.error), (Outcome::Success, Some(200), None));
    assert_eq!(outcome.response_body.as_deref(), Some("ok"));
    assert_eq!(outcome.response_headers, [("content-length".to_owned(), "2".to_owned())]);
    assert_eq!(outcome.remote_ip, Some(localhost()));

    let heard = receiver.requests.recv().await.unwrap();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "{\"event\":\"message.sent\"}");
    let v1 = sign("whsec_example_0123456789abcdef", 1_767_225_600, body.as_bytes());
    let host = format!("host: {}", receiver.address);
    let signature = format!("x-gateway-signature: t=1767225600,v1={v1}");
    for line in [
        "POST /hook?x=1 HTTP/1.1",
        "content-type: application/json",
        "user-agent: gateway-webhooks/1.2.3",
        "x-gateway-event: message.sent",
        "x-gateway-event-id: evt_00000000000000000000000000",
        "x-gateway-correlation-id: req_12345678",
        "x-gateway-attempt: 3",
        "x-gateway-delivery-id: 00000000-0000-0000-0000-000000000000",
        &host,
        &signature,
    ] {
        assert!(head.lines().any(|found| found == line), "{line} is missing in\n{head}");
    }
    assert!(!head.contains("webhook-signature"));
}

#[tokio::test]
async fn statuses_become_outcomes() {
    let table = [
        ("HTTP/1.1 204 No Content\r\n\r\n", Outcome::Success, 204),
        ("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", Outcome::Http, 500),
        ("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", Outcome::Http, 410),
        ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", Outcome::Redirect, 302),
    ];
    for (answer, outcome, status) in table {
        let found = attempt_at(Answer::Text(answer)).await;
        assert_eq!((found.outcome, found.http_status), (outcome, Some(status)));
        assert_eq!(found.error.is_none(), outcome == Outcome::Success);
        assert_eq!(found.response_body, None);
    }
}

#[tokio::test]
async fn a_wish_to_wait_is_passed_on() {
    let found = attempt_at(Answer::Text("HTTP/1.1 429 Slow\r\nretry-after: 90\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(found.retry_after, Some(Duration::from_secs(90)));
}

#[tokio::test]
async fn receivers_that_never_answer_time_out() {
    for answer in [Answer::Hang, Answer::SlowHead] {
        let receiver = Receiver::start(answer).await;
        let found = impatient().attempt(request(&receiver.url())).await;
        assert_eq!((found.outcome, found.http_status, found.latency_ms), (Outcome::Timeout, None, 0));
        assert!((300..10_000).contains(&found.elapsed_ms), "{found:?}");
        assert_eq!(found.remote_ip, Some(localhost()));
    }
}

#[tokio::test]
async fn the_body_of_a_success_decides_nothing() {
    let endless = attempt_at(Answer::EndlessBody).await;
    assert_eq!((endless.outcome, endless.response_body.map(|body| body.len())), (Outcome::Success, Some(4096)));
    let receiver = Receiver::start(Answer::SilentBody).await;
    let silent = impatient().attempt(request(&receiver.url())).await;
    assert_eq!((silent.outcome, silent.response_body.as_deref()), (Outcome::Success, Some("part")));
    assert!(silent.elapsed_ms < 10_000);
}

#[tokio::test]
async fn a_broken_connection_and_a_closed_port_are_connect_failures() {
    assert_eq!(attempt_at(Answer::Reset).await.outcome, Outcome::Connect);
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let found = attempter(TargetPolicy::dev(), Fixed(vec![])).attempt(request(&format!("http://{closed}/"))).await;
    assert_eq!((found.outcome, found.remote_ip), (Outcome::Connect, Some(localhost())));
    assert!(found.error.is_some());
}

#[tokio::test]
async fn what_is_no_http_is_an_http_failure_without_a_status() {
    for answer in ["SSH-2.0-OpenSSH_9.6\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"] {
        let found = attempt_at(Answer::TextAndClose(answer)).await;
        assert_eq!((found.outcome, found.http_status), (Outcome::Http, None), "{answer:?}");
    }
}

#[tokio::test]
async fn a_name_is_refused_when_any_of_its_addresses_is_forbidden() {
    let receiver = Receiver::start(Answer::Text(OK)).await;
    let url = format!("http://receiver.example:{}/", receiver.address.port());
    let private: IpAddr = "10.0.0.1".parse().unwrap();
    for addresses in [vec![localhost(), private], vec![private]] {
        let found = attempter(TargetPolicy::dev(), Fixed(addresses)).attempt(request(&url)).await;
        assert_eq!((found.outcome, found.remote_ip), (Outcome::Blocked, None));
        assert!(!found.error.unwrap().contains("10.0.0.1"));
    }
    assert_eq!(receiver.connections(), 0);

    let strict = TargetPolicy { allow_http: true, ..TargetPolicy::strict() };
    let found = attempter(strict.clone(), Fixed(vec![localhost()])).attempt(request(&url)).await;
    assert_eq!(found.outcome, Outcome::Blocked);
    let found = attempter(strict, Fixed(vec![])).attempt(request(&receiver.url())).await;
    assert_eq!(found.outcome, Outcome::Blocked);
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_name_goes_to_the_checked_address_and_keeps_its_host_header() {
    let mut receiver = Receiver::start(Answer::Text(OK)).await;
    let url = format!("http://receiver.example:{}/", receiver.address.port());
    let found = attempter(TargetPolicy::dev(), Fixed(vec![localhost()])).attempt(request(&url)).await;
    assert_eq!((found.outcome, found.remote_ip), (Outcome::Success, Some(localhost())));
    let host = format!("host: receiver.example:{}", receiver.address.port());
    assert!(receiver.requests.recv().await.unwrap().contains(&host));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_a_dns_failure() {
    let found = attempter(TargetPolicy::dev(), Fixed(vec![])).attempt(request("http://nowhere.example/")).await;
    assert_eq!((found.outcome, found.remote_ip), (Outcome::Dns, None));
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let receiver = Receiver::start(Answer::Text(OK)).await;
    let url = format!("http://receiver.example:{}/", receiver.address.port());
    let deaf: IpAddr = "127.0.0.99".parse().unwrap();
    let found = attempter(TargetPolicy::dev(), Fixed(vec![deaf, localhost()])).attempt(request(&url)).await;
    assert_eq!((found.outcome, found.remote_ip), (Outcome::Success, Some(localhost())));
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_whole_answer_only() {
    let receiver = Receiver::start(Answer::Text(OK)).await;
    let kept = attempter(TargetPolicy::dev(), Fixed(vec![]));
    for _ in 0..3 {
        assert_eq!(kept.attempt(request(&receiver.url())).await.outcome, Outcome::Success);
    }
    assert_eq!(receiver.connections(), 1);

    let receiver = Receiver::start(Answer::SilentBody).await;
    let kept = impatient();
    for _ in 0..2 {
        assert_eq!(kept.attempt(request(&receiver.url())).await.outcome, Outcome::Success);
    }
    assert_eq!(receiver.connections(), 2);
}

#[tokio::test]
async fn a_kept_connection_that_the_receiver_closed_is_replaced() {
    let receiver = Receiver::start(Answer::TextAndClose(OK)).await;
    let kept = attempter(TargetPolicy::dev(), Fixed(vec![]));
    for _ in 0..5 {
        assert_eq!(kept.attempt(request(&receiver.url())).await.outcome, Outcome::Success);
    }
    assert_eq!(receiver.connections(), 5);
}

#[tokio::test]
async fn at_most_20_headers_are_kept() {
    let many: String = (0..40).map(|n| format!("x-{n}: {}\r\n", "v".repeat(5))).collect();
    let answer: &'static str = format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n").leak();
    assert_eq!(attempt_at(Answer::Text(answer)).await.response_headers.len(), 20);
}

#[tokio::test]
async fn tls_needs_a_trusted_certificate_of_the_right_name() {
    let made = rcgen::generate_simple_self_signed(vec!["receiver.example".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let receiver = Receiver::start_with(move |stream, heard| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream, Answer::Text(OK), heard).await;
            }
        }
    })
    .await;
    let port = receiver.address.port();
    let trusting = AttemptConfig { extra_ca_pem: Some(made.cert.pem().into_bytes()), ..config(TargetPolicy::dev()) };
    let trusting = Attempter::new(trusting, Fixed(vec![localhost()])).unwrap();
    let plain = attempter(TargetPolicy::dev(), Fixed(vec![localhost()]));
    let url = |name: &str| request(&format!("https://{name}:{port}/"));
    assert_eq!(trusting.attempt(url("receiver.example")).await.outcome, Outcome::Success);
    assert_eq!(trusting.attempt(url("receiver.example.")).await.outcome, Outcome::Success);
    assert_eq!(trusting.attempt(url("other.example")).await.outcome, Outcome::Tls);
    assert_eq!(plain.attempt(url("receiver.example")).await.outcome, Outcome::Tls);
    let to_http = Receiver::start_with(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let found = plain.attempt(request(&format!("https://receiver.example:{}/", to_http.address.port()))).await;
    assert_eq!(found.outcome, Outcome::Tls);
}

#[tokio::test]
async fn standard_headers_are_sent_when_asked_for() {
    let mut receiver = Receiver::start(Answer::Text(OK)).await;
    let config = AttemptConfig { standard_headers: true, ..config(TargetPolicy::dev()) };
    Attempter::new(config, Fixed(vec![])).unwrap().attempt(request(&receiver.url())).await;
    let heard = receiver.requests.recv().await.unwrap();
    assert!(heard.contains("webhook-id: evt_00000000000000000000000000\r\n"));
    assert!(heard.contains("webhook-timestamp: 1767225600\r\n"));
    assert!(heard.contains("webhook-signature: v1,"));
}

#[test]
fn unreadable_extra_certificates_are_refused() {
    for pem in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let config = AttemptConfig { extra_ca_pem: Some(pem.into()), ..config(TargetPolicy::dev()) };
        assert!(Attempter::new(config, Fixed(vec![])).is_err(), "{pem:?}");
    }
}

#[tokio::test]
async fn an_outcome_is_stored_and_read_back_as_it_was() {
    let outcome = attempt_at(Answer::Text("HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\nno")).await;
    let stored = msgpack::to_vec(&outcome).unwrap();
    assert_eq!(msgpack::from_slice::<AttemptOutcome>(&stored).unwrap(), outcome);
}
