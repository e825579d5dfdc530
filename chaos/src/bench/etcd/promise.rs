//! The same promise on etcd: a minimal gateway.
//!
//! It accepts a text over HTTP, checks the key, puts the message into etcd, sends it to the network, waits for the
//! acceptance, puts the outcome, and answers 202. It has nothing else of a gateway: no failover, no events, no limits.
//! Three of them run as separate processes, each in front of one member of etcd and with sessions of its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use clap::Args;
use futures::stream::{self, StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::address::{Address, Suffixes};
use model::id::{ChannelId, MessageId, NodeId};
use model::message::Content;
use network::driver::{
    AuthError, AuthStore, AuthWrite, Network, OpenSession, Outbound, Purpose, Session, SessionEvent,
};
use network::fence::Fence;
use network::simulated::SimulatedNetwork;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::http::{Api, client};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use super::Etcd;
use super::rpc::Kv;
use crate::bench::caller::{Accepted, Caller, text};
use crate::bench::target::{FIRST_RECIPIENT, Target, want};
use crate::connection::Connection;

/// First number of their channels' phones.
const FIRST_PHONE: u64 = 495_000_000_000;

/// Node id of the first one at the network, which no node of a gateway has.
const FIRST_NODE: NodeId = 901;

/// Sessions that pair at the same time.
const PAIRING_AT_ONCE: usize = 16;

/// Timeout for all sessions of a process to open.
const START: Duration = Duration::from_secs(120);

/// Timeout for the network to accept a message.
const ACCEPTANCE: Duration = Duration::from_secs(10);

const KEY: &str = "key-of-the-benchmark";

/// What one of them is told.
#[derive(Args, Debug)]
pub struct PromiseArgs {
    /// The member of etcd that it puts to
    #[arg(long)]
    etcd: String,
    /// The simulator's network port
    #[arg(long)]
    network: String,
    /// The simulator's control port
    #[arg(long)]
    simulator: String,
    #[arg(long)]
    node: NodeId,
    /// The number of the first of its phones
    #[arg(long)]
    first: u64,
    #[arg(long)]
    channels: usize,
}

/// Runs one until it is killed. Once all its sessions are open, it prints its URL on standard output.
///
/// # Errors
/// When etcd or the network cannot be used.
pub async fn run(args: PromiseArgs) -> anyhow::Result<()> {
    let network = SimulatedNetwork::new(args.network.clone(), args.node);
    let simulator = Api::new(client(), &args.simulator, None);
    let opened = stream::iter(0..args.channels)
        .map(|n| open(&network, &simulator, args.node, args.first + n as u64))
        .buffered(PAIRING_AT_ONCE)
        .try_collect();
    let channels = tokio::time::timeout(START, opened).await.context("its sessions are not there in time")??;
    let promise = Arc::new(Promise { channels, key: Sha256::digest(KEY).into(), etcd: Kv::new(&args.etcd)? });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    gateway::console::say(format_args!("http://{}", listener.local_addr()?));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let promise = promise.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| promise.answer(request));
            // The benchmark closes its connections when it has measured.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

struct Promise {
    channels: Vec<Channel>,
    key: [u8; 32],
    etcd: Kv,
}

/// A session, and the messages that the network has not accepted yet.
struct Channel {
    session: Arc<dyn Session>,
    waiting: Arc<Mutex<HashMap<MessageId, oneshot::Sender<()>>>>,
}

#[derive(Deserialize)]
struct Text {
    to: String,
    text: String,
}

impl Promise {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (status, body) = match self.send(request).await {
            Ok(id) => (StatusCode::ACCEPTED, json!({ "message_id": id.as_str(), "status": "sent" })),
            Err(error) => (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": format!("{error:#}") })),
        };
        let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
        *response.status_mut() = status;
        Ok(response)
    }

    async fn send(&self, request: Request<Incoming>) -> anyhow::Result<MessageId> {
        ensure!(request.method() == Method::POST, "it takes posts");
        let bearer = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let key = bearer.and_then(|value| value.strip_prefix("Bearer ")).context("there is no key")?;
        ensure!(self.key[..] == Sha256::digest(key)[..], "the key is none");
        let number: usize = request.uri().path().trim_start_matches('/').parse()?;
        let channel = self.channels.get(number).context("there is no such channel")?;
        let body = request.into_body().collect().await?.to_bytes();
        let Text { to, text } = serde_json::from_slice(&body)?;
        let to = Address::parse_or_digits(&to, &Suffixes::simulated()).ok().context("to is no address")?;

        let id = MessageId::mint(rand::random());
        let mut etcd = self.etcd.clone();
        let accepted = json!({ "channel": number, "id": id.as_str(), "to": to, "text": text, "status": "accepted" });
        etcd.put(format!("message/{id}").as_bytes(), accepted.to_string().as_bytes()).await?;
        let (taken, wait) = oneshot::channel();
        channel.waiting.lock().insert(id.clone(), taken);
        let content = Content::Text { text };
        channel.session.send(Outbound { id: id.clone(), to, content, around: Default::default() }).await?;
        tokio::time::timeout(ACCEPTANCE, wait).await.context("the network did not answer")??;
        let outcome = json!({ "id": id.as_str(), "status": "sent" });
        etcd.put(format!("outcome/{id}").as_bytes(), outcome.to_string().as_bytes()).await?;
        Ok(id)
    }
}

/// Pairs a phone, and handles its session's acceptances from then on.
async fn open(network: &SimulatedNetwork, simulator: &Api, node: NodeId, phone: u64) -> anyhow::Result<Channel> {
    let (events, mut reports) = mpsc::channel(64);
    let purpose = Purpose::Pair { device_name: "Benchmark".to_owned(), full_history: false };
    // A fence without effect: it lasts longer than the benchmark.
    let fence = Fence::new(1, Instant::now() + Duration::from_secs(86_400));
    let auth: Arc<dyn AuthStore> = Arc::new(Forgetful);
    let opening = OpenSession { channel: ChannelId::random(), node, fence, purpose, proxy: None, auth, events };
    let session = network.open(opening).await?;
    loop {
        match *reports.recv().await.context("a session ended while it was opened")? {
            SessionEvent::Qr { raw, .. } => {
                let linked = simulator.post(&format!("/phones/{phone}/link"), json!({ "raw": raw })).await;
                want(linked, 200)?;
            }
            SessionEvent::LoggedIn(_) => break,
            SessionEvent::Ended(reason) => bail!("a session ended while it was opened: {reason:?}"),
            _ => {}
        }
    }
    let waiting: Arc<Mutex<HashMap<MessageId, oneshot::Sender<()>>>> = Arc::default();
    let heard = waiting.clone();
    tokio::spawn(async move {
        while let Some(event) = reports.recv().await {
            if let SessionEvent::Accepted { id, .. } = *event
                && let Some(taken) = heard.lock().remove(&id)
            {
                // The caller may have gone away.
                let _ = taken.send(());
            }
        }
    });
    Ok(Channel { session, waiting })
}

/// Keeps no credentials: the benchmark opens each session only once.
struct Forgetful;

#[async_trait]
impl AuthStore for Forgetful {
    fn get(&self, _key: &str) -> Result<Option<Vec<u8>>, AuthError> {
        Ok(None)
    }

    fn keys(&self, _prefix: &str, _after: Option<&str>, _limit: usize) -> Vec<String> {
        Vec::new()
    }

    async fn commit(&self, _batch: Vec<AuthWrite>) -> Result<(), AuthError> {
        Ok(())
    }
}

/// The three running processes. Dropping it ends them.
pub struct Promises {
    processes: Vec<Child>,
    urls: Vec<String>,
    channels_each: usize,
}

impl Promises {
    /// Starts one process in front of each member of etcd, on the target's network.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start(etcd: &Etcd, target: &Target, channels: usize) -> anyhow::Result<Self> {
        let urls = etcd.urls();
        let channels_each = channels.div_ceil(urls.len());
        let phones = json!({ "first": FIRST_PHONE.to_string(), "count": channels_each * urls.len() });
        want(target.simulator().post("/phones/bulk", phones).await, 201)?;
        let network = network_address(&target.dev.simulator)?;
        let mut all = Self { processes: Vec::new(), urls: Vec::new(), channels_each };
        for (n, url) in urls.iter().enumerate() {
            let first = FIRST_PHONE + (n * channels_each) as u64;
            let mut child = Command::new(std::env::current_exe()?)
                .args(["promise", "--etcd", url, "--network", &network, "--simulator", &target.dev.simulator])
                .args(["--node", &(FIRST_NODE + n as u64).to_string(), "--first", &first.to_string()])
                .args(["--channels", &channels_each.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let said = child.stdout.take().context("its output is piped")?;
            all.processes.push(child);
            let line = tokio::time::timeout(START, BufReader::new(said).lines().next_line()).await;
            let url = line.context("the gateway on etcd is not there in time")??;
            all.urls.push(url.context("the gateway on etcd ended")?);
        }
        Ok(all)
    }

    /// The running processes.
    pub fn pids(&self) -> Vec<i32> {
        self.processes.iter().filter_map(|child| i32::try_from(child.id()?).ok()).collect()
    }

    /// `count` workers, distributed over the processes.
    ///
    /// # Errors
    /// When a URL is invalid.
    pub fn workers(&self, count: usize) -> anyhow::Result<Vec<PromisedSends>> {
        let worker = |n: usize| {
            let connection = Connection::new(&self.urls[n % self.urls.len()], KEY)?;
            Ok(PromisedSends { connection, channels: self.channels_each as u64 })
        };
        (0..count).map(worker).collect()
    }
}

/// The simulator's network port is the one after its control port.
fn network_address(simulator: &str) -> anyhow::Result<String> {
    let address: std::net::SocketAddr = simulator.trim_start_matches("http://").trim_end_matches('/').parse()?;
    Ok(std::net::SocketAddr::new(address.ip(), address.port() + 1).to_string())
}

/// Sends texts through one of the processes.
pub struct PromisedSends {
    connection: Connection,
    channels: u64,
}

impl Caller for PromisedSends {
    async fn call(&mut self, n: u64) -> anyhow::Result<Accepted> {
        let channel = n % self.channels;
        let body = text(&(FIRST_RECIPIENT + channel).to_string());
        let response = self.connection.post(&format!("/{channel}"), body).await?;
        ensure!(response.status == 202, "{} {}", response.status, String::from_utf8_lossy(&response.body));
        let answer: Value = serde_json::from_slice(&response.body)?;
        let message_id = answer["message_id"].as_str().map(str::to_owned);
        Ok(Accepted { queued: false, message_id })
    }
}
