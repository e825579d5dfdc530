//! Makes one durable write after another, over a connection of its own: sends of the gateway, or puts of etcd.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use crate::bench::etcd::Etcd;
use crate::bench::etcd::rpc::Kv;
use crate::bench::target::{Channel, Target};
use crate::connection::Connection;

/// Number of keys that the puts rotate through: as many as there are channels.
const KEYS: u64 = 1_000;

/// A promise that a write will not be lost.
#[derive(Clone, Debug, Default)]
pub struct Accepted {
    /// Whether it was promised before the network had accepted the message.
    pub queued: bool,
    pub message_id: Option<String>,
}

/// One worker of a load. It has one call in flight at a time.
pub trait Caller: Send + 'static {
    /// Makes write number `n` of the load, and returns when it is promised.
    fn call(&mut self, n: u64) -> impl Future<Output = anyhow::Result<Accepted>> + Send;
}

/// The targets of sends, as a load balancer in front of the nodes would choose them. Clones share them.
#[derive(Clone)]
pub struct Balancer {
    nodes: Arc<Mutex<Arc<Vec<String>>>>,
}

impl Balancer {
    /// Distributes sends over these API ports.
    pub fn over(urls: Vec<String>) -> Self {
        Self { nodes: Arc::new(Mutex::new(Arc::new(urls))) }
    }

    /// Changes the targets; connections to the old ones are closed.
    pub fn set(&self, urls: Vec<String>) {
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(urls);
    }

    fn now(&self) -> Arc<Vec<String>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends texts through the gateway, each worker through one node.
pub struct Sends {
    worker: usize,
    balancer: Balancer,
    key: String,
    requests: Arc<Vec<(String, Bytes)>>,
    connection: Option<(Arc<Vec<String>>, Connection)>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    status: &'a str,
    message_id: &'a str,
}

impl Sends {
    /// `count` workers, distributed over a balancer's nodes. Write `n` goes to channel `n` modulo their number.
    pub fn workers(count: usize, balancer: &Balancer, key: &str, channels: &[Channel]) -> Vec<Self> {
        let requests: Arc<Vec<_>> = Arc::new(channels.iter().map(request).collect());
        (0..count)
            .map(|worker| Self {
                worker,
                balancer: balancer.clone(),
                key: key.to_owned(),
                requests: requests.clone(),
                connection: None,
            })
            .collect()
    }

    /// As [`Sends::workers`], over all nodes of a target.
    pub fn to(target: &Target, count: usize, channels: &[Channel]) -> Vec<Self> {
        let nodes = target.dev.nodes.iter().map(|node| node.api.clone()).collect();
        Self::workers(count, &Balancer::over(nodes), &target.dev.api_key, channels)
    }

    fn connection(&mut self) -> anyhow::Result<&mut Connection> {
        let nodes = self.balancer.now();
        ensure!(!nodes.is_empty(), "there is no node to send through");
        if self.connection.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, &nodes)) {
            let connection = Connection::new(&nodes[self.worker % nodes.len()], &self.key)?;
            self.connection = Some((nodes, connection));
        }
        let (_, connection) = self.connection.as_mut().ok_or_else(|| anyhow::anyhow!("it was set just now"))?;
        Ok(connection)
    }
}

impl Caller for Sends {
    async fn call(&mut self, n: u64) -> anyhow::Result<Accepted> {
        let requests = self.requests.clone();
        let (path, body) = &requests[(n % requests.len() as u64) as usize];
        let response = self.connection()?.post(path, body.clone()).await?;
        ensure!(response.status == 202, "{} {}", response.status, String::from_utf8_lossy(&response.body));
        let answer: Answer<'_> = serde_json::from_slice(&response.body)?;
        Ok(Accepted { queued: answer.status == "queued", message_id: Some(answer.message_id.to_owned()) })
    }
}

/// Path and body of a channel's sends, which never change.
pub fn request(channel: &Channel) -> (String, Bytes) {
    (format!("/v1/channels/{}/messages", channel.id), text(&channel.recipient))
}

/// Body of a send with a text of 115 bytes.
pub fn text(recipient: &str) -> Bytes {
    Bytes::from(format!(r#"{{"type":"text","to":"{recipient}","text":"{}"}}"#, "a text of fair length. ".repeat(5)))
}

/// Puts values through etcd's JSON gateway, each worker through one member.
pub struct JsonPuts {
    connection: Connection,
    value: Arc<str>,
}

impl JsonPuts {
    /// `count` workers, distributed over the members.
    ///
    /// # Errors
    /// When a member's URL is invalid.
    pub fn workers(etcd: &Etcd, count: usize, value_bytes: usize) -> anyhow::Result<Vec<Self>> {
        let value: Arc<str> = STANDARD.encode(vec![b'x'; value_bytes]).into();
        let urls = etcd.urls();
        let worker =
            |n: usize| Ok(Self { connection: Connection::without_key(&urls[n % urls.len()])?, value: value.clone() });
        (0..count).map(worker).collect()
    }

    /// Makes one put to a member.
    ///
    /// # Errors
    /// When the member does not accept it.
    pub async fn put(connection: &mut Connection, key: u64, value: &str) -> anyhow::Result<()> {
        let key = STANDARD.encode(format!("channel-{key:06}"));
        let body = json!({ "key": key, "value": value }).to_string();
        let response = connection.post("/v3/kv/put", Bytes::from(body)).await?;
        ensure!(response.status == 200, "{} {}", response.status, String::from_utf8_lossy(&response.body));
        Ok(())
    }
}

impl Caller for JsonPuts {
    async fn call(&mut self, n: u64) -> anyhow::Result<Accepted> {
        Self::put(&mut self.connection, n % KEYS, &self.value).await?;
        Ok(Accepted::default())
    }
}

/// Puts values over gRPC, each worker through one member.
pub struct GrpcPuts {
    kv: Kv,
    value: Vec<u8>,
}

impl GrpcPuts {
    /// `count` workers, distributed over the members.
    ///
    /// # Errors
    /// When a member's URL is invalid.
    pub fn workers(etcd: &Etcd, count: usize, value_bytes: usize) -> anyhow::Result<Vec<Self>> {
        let urls = etcd.urls();
        let worker = |n: usize| Ok(Self { kv: Kv::new(&urls[n % urls.len()])?, value: vec![b'x'; value_bytes] });
        (0..count).map(worker).collect()
    }
}

impl Caller for GrpcPuts {
    async fn call(&mut self, n: u64) -> anyhow::Result<Accepted> {
        self.kv.put(format!("channel-{:06}", n % KEYS).as_bytes(), &self.value).await?;
        Ok(Accepted::default())
    }
}
