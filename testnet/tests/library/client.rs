//! A client that is the library and nothing else: its store is in memory, its transport dials the test network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderName, HeaderValue};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_websockets::{ClientBuilder, Message, WebSocketStream};
use wacore::net::{
    DisconnectReason, HttpClient, HttpRequest, HttpResponse, Transport, TransportEvent, TransportFactory,
};
use wacore::store::InMemoryBackend;
use wacore::types::events::{Event, EventHandler};
use wacore_binary::Jid;
use waproto::whatsapp as wa;
use whatsapp_rust::Client;
use whatsapp_rust::send::SendOptions;
use whatsapp_rust::store::persistence_manager::PersistenceManager;

use crate::control::Control;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

type Socket = WebSocketStream<TcpStream>;

struct Dialer {
    address: std::net::SocketAddr,
    owner: Option<(u64, u64)>,
    dials: AtomicU32,
    /// So that a test can break what a dead process would.
    sockets: Mutex<Vec<std::net::TcpStream>>,
}

struct Wire(tokio::sync::Mutex<SplitSink<Socket, Message>>);

#[async_trait]
impl Transport for Wire {
    async fn send(&self, data: Bytes) -> anyhow::Result<()> {
        Ok(self.0.lock().await.send(Message::binary(data)).await?)
    }

    async fn disconnect(&self) {
        // `close` would wait for the answer, which the other half takes.
        let _ = self.0.lock().await.send(Message::close(None, "")).await;
    }
}

#[async_trait]
impl TransportFactory for Dialer {
    async fn create_transport(&self) -> anyhow::Result<(Arc<dyn Transport>, async_channel::Receiver<TransportEvent>)> {
        self.dials.fetch_add(1, Ordering::Relaxed);
        let stream = std::net::TcpStream::connect(self.address)?;
        stream.set_nonblocking(true)?;
        self.sockets.lock().push(stream.try_clone()?);
        let stream = TcpStream::from_std(stream)?;
        let mut builder = ClientBuilder::from_uri(format!("ws://{}/ws/chat", self.address).parse()?);
        if let Some((node, epoch)) = self.owner {
            builder = builder
                .add_header(HeaderName::from_static("x-gateway-node"), HeaderValue::from(node))?
                .add_header(HeaderName::from_static("x-gateway-epoch"), HeaderValue::from(epoch))?;
        }
        let (socket, _) = builder.connect_on(stream).await?;
        let (sink, mut source) = socket.split();
        let (events, receiver) = async_channel::bounded(1_024);
        events.send(TransportEvent::Connected).await?;
        tokio::spawn(async move {
            while let Some(Ok(message)) = source.next().await {
                if message.is_binary() {
                    let bytes = Bytes::from(message.into_payload());
                    if events.send(TransportEvent::DataReceived(bytes)).await.is_err() {
                        return;
                    }
                }
            }
            let _ = events.send(TransportEvent::Disconnected(DisconnectReason::StreamEnded)).await;
        });
        Ok((Arc::new(Wire(tokio::sync::Mutex::new(sink))), receiver))
    }
}

/// Dials the media port, which is reached without TLS.
struct Media;

#[async_trait]
impl HttpClient for Media {
    async fn execute(&self, request: HttpRequest) -> anyhow::Result<HttpResponse> {
        let address = request.url.strip_prefix("https://").context("a media address")?;
        let (host, path) = address.split_once('/').context("a path")?;
        let stream = TcpStream::connect(host).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let asked =
            hyper::Request::builder().method(request.method.as_str()).uri(format!("/{path}")).header("host", host);
        let response = sender.send_request(asked.body(Full::new(request.body.unwrap_or_default()))?).await?;
        let status_code = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes().to_vec();
        connection.abort();
        Ok(HttpResponse { status_code, body })
    }
}

/// All events of a client, in order.
#[derive(Default)]
struct Events {
    seen: Mutex<Vec<Arc<Event>>>,
    more: Notify,
}

impl EventHandler for Events {
    fn handle_event(&self, event: Arc<Event>) {
        self.seen.lock().push(event);
        self.more.notify_waiters();
    }
}

pub struct TestClient {
    pub client: Arc<Client>,
    pub store: Arc<InMemoryBackend>,
    dialer: Arc<Dialer>,
    events: Arc<Events>,
    running: Option<JoinHandle<()>>,
}

impl TestClient {
    pub async fn new(address: std::net::SocketAddr) -> Self {
        Self::on(address, Arc::new(InMemoryBackend::new()), None).await
    }

    /// A new client on what another one stored.
    pub async fn on(address: std::net::SocketAddr, store: Arc<InMemoryBackend>, owner: Option<(u64, u64)>) -> Self {
        let manager = Arc::new(PersistenceManager::new(store.clone()).await.unwrap());
        let dialer = Arc::new(Dialer { address, owner, dials: AtomicU32::new(0), sockets: Mutex::default() });
        let build = Client::builder()
            .with_runtime(whatsapp_rust::runtime_impl::TokioRuntime)
            .with_persistence_manager(manager)
            .with_transport_factory_arc(dialer.clone())
            .with_http_client(Media)
            .with_version_override((2, 3000, 1_042_742_319))
            .with_skip_history_sync(true)
            .with_background_saver_interval(Duration::from_secs(1))
            .with_wanted_pre_key_count(32)
            .build()
            .await
            .unwrap();
        let client = build.into_client();
        client.enable_auto_reconnect.store(false, Ordering::Relaxed);
        let events = Arc::new(Events::default());
        client.subscribe_handler(events.clone()).detach();
        Self { client, store, dialer, events, running: None }
    }

    pub fn run(&mut self) {
        let client = self.client.clone();
        self.running = Some(tokio::spawn(async move { client.run().await }));
    }

    /// Waits until the connection has ended.
    pub async fn ended(&mut self) {
        let running = self.running.take().expect("it was told to run");
        tokio::time::timeout(PATIENCE, running).await.expect("the client's run ends").unwrap();
    }

    pub fn dials(&self) -> u32 {
        self.dialer.dials.load(Ordering::Relaxed)
    }

    /// Pairs with a phone and logs in.
    pub async fn pair(&mut self, control: &Control, phone: &str) {
        self.run();
        let code = self.qr().await;
        let (status, linked) = control.post(&format!("/phones/{phone}/link"), serde_json::json!({ "raw": code })).await;
        assert_eq!(status, 200, "{linked}");
        self.ended().await;
        self.log_in().await;
    }

    pub async fn qr(&self) -> String {
        self.event("a QR text", |event| match event {
            Event::PairingQrCode(qr) => Some(qr.code.clone()),
            _ => None,
        })
        .await
    }

    pub async fn log_in(&mut self) {
        self.run();
        self.client.wait_for_connected(PATIENCE).await.expect("the client logs in");
    }

    /// As if the process died: nothing is flushed, nothing said.
    pub fn die(mut self) -> Arc<InMemoryBackend> {
        for socket in self.dialer.sockets.lock().drain(..) {
            // One that is closed already is as good.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        self.client.signal_shutdown_sync();
        if let Some(running) = self.running.take() {
            running.abort();
        }
        self.store.clone()
    }

    /// The first event, from the beginning, that tells what is looked for.
    pub async fn event<T>(&self, what: &str, look: impl Fn(&Event) -> Option<T>) -> T {
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let more = self.events.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if let Some(found) = self.events.seen.lock().iter().find_map(|event| look(event)) {
                    return found;
                }
                more.await;
            }
        })
        .await;
        found.unwrap_or_else(|_| {
            let kinds: Vec<String> =
                self.events.seen.lock().iter().map(|event| format!("{:?}", event.kind())).collect();
            panic!("{what} did not come; there were {kinds:?}")
        })
    }

    pub fn count(&self, look: impl Fn(&Event) -> usize) -> usize {
        self.events.seen.lock().iter().map(|event| look(event)).sum()
    }

    /// Sends a text and waits until the network has it; says what was wrong with it.
    pub async fn send(&self, to: &str, id: &str, text: &str) -> Option<String> {
        self.send_message(to, id, wa::Message { conversation: Some(text.into()), ..Default::default() }).await
    }

    /// Sends a message and waits until the network has it; says what was wrong with it.
    pub async fn send_message(&self, to: &str, id: &str, message: wa::Message) -> Option<String> {
        let to: Jid = format!("{to}@s.whatsapp.net").parse().unwrap();
        let options = SendOptions::default().with_message_id(id);
        let before = self.answers(id);
        self.client.send_message_with_options(to, message, options).await.context("the send").unwrap();
        let answer = tokio::time::timeout(PATIENCE, async {
            loop {
                let more = self.events.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if self.answers(id) > before {
                    return;
                }
                more.await;
            }
        });
        answer.await.expect("the network answers a message");
        self.events.seen.lock().iter().rev().find_map(|event| match &**event {
            Event::ServerAck(ack) if ack.id == id => Some(ack.error.clone()),
            _ => None,
        })?
    }

    fn answers(&self, id: &str) -> usize {
        self.count(|event| match event {
            Event::ServerAck(ack) => usize::from(ack.id == id && ack.class.as_deref() == Some("message")),
            _ => 0,
        })
    }

    /// Waits for a message and says what it says.
    pub async fn message(&self, id: &str) -> String {
        self.event(&format!("message {id}"), |event| {
            event.messages().find(|inbound| inbound.info.id == id).map(|inbound| text(&inbound.message))
        })
        .await
    }

    /// Waits for a message.
    pub async fn content(&self, id: &str) -> Arc<wa::Message> {
        self.event(&format!("message {id}"), |event| {
            event.messages().find(|inbound| inbound.info.id == id).map(|inbound| inbound.message.clone())
        })
        .await
    }

    pub fn copies(&self, id: &str) -> usize {
        self.count(|event| event.messages().filter(|inbound| inbound.info.id == id).count())
    }
}

fn text(message: &wa::Message) -> String {
    let extended = message.extended_text_message.as_option().and_then(|extended| extended.text.clone());
    message.conversation.clone().or(extended).unwrap_or_default()
}
