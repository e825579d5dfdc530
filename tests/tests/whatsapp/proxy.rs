//! A channel with a proxy: all of its traffic goes through it, and there is none when the proxy fails.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use tests::http::{answer, string};
use tests::simulator::Simulator;
use tests::tenant::{CONNECT, Tenant, number, pair, text, wait_status};
use tests::wait::{check, eventually, seconds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::{assert_clean, cluster};

const BYTES: &str = "application/octet-stream";

const USER: &str = "shop";
const PASSWORD: &str = "s3@cret";

/// The source address of the proxy's own connections, by which the network can tell them apart.
const SOURCE: &str = "127.0.0.2";

/// A proxy for CONNECT and SOCKS 5, with one user.
struct Proxy {
    address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    closed: AtomicBool,
    refused: AtomicUsize,
    by_connect: AtomicUsize,
    by_socks: AtomicUsize,
}

impl Proxy {
    /// Starts at this address, or at any free one.
    async fn start(address: Option<SocketAddr>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address.unwrap_or(([127, 0, 0, 1], 0).into())).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn(listen(listener, Arc::clone(&seen)));
        Self { address, seen, task }
    }

    /// The URL of the proxy: with its host name for SOCKS 5, else with its address.
    fn url(&self, scheme: &str, password: &str) -> String {
        let host = if scheme == "socks5" { "localhost".to_owned() } else { self.address.ip().to_string() };
        format!("{scheme}://{USER}:{}@{host}:{}", password.replace('@', "%40"), self.address.port())
    }

    /// Stops listening and closes all connections; returns the address.
    async fn down(self) -> SocketAddr {
        self.task.abort();
        // An aborted task ends with an error.
        let _ = self.task.await;
        self.address
    }

    async fn has_refused(&self, more: usize) {
        let before = self.seen.refused.load(Ordering::Relaxed);
        eventually("the proxy was tried", seconds(60), async || {
            let refused = self.seen.refused.load(Ordering::Relaxed);
            check(refused >= before + more, refused.to_string())
        })
        .await;
    }
}

async fn listen(listener: TcpListener, seen: Arc<Seen>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let seen = Arc::clone(&seen);
        connections.spawn(async move {
            if seen.closed.load(Ordering::Relaxed) || serve(stream, &seen).await.is_err() {
                seen.refused.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

async fn serve(mut stream: TcpStream, seen: &Seen) -> io::Result<()> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    let (target, granted) =
        if first == [5] { socks(&mut stream, seen).await? } else { connect(&mut stream, seen).await? };
    let socket = TcpSocket::new_v4()?;
    socket.bind(format!("{SOURCE}:0").parse().unwrap())?;
    let mut there = socket.connect(target.parse().map_err(io::Error::other)?).await?;
    stream.write_all(&granted).await?;
    // The connection ends when either side ends it.
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut there).await;
    Ok(())
}

async fn connect(stream: &mut TcpStream, seen: &Seen) -> io::Result<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).map_err(io::Error::other)?;
    let proof = format!("Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
    if !head.contains(&proof) {
        stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await?;
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    seen.by_connect.fetch_add(1, Ordering::Relaxed);
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    let target = target.ok_or_else(|| io::Error::other("this proxy knows CONNECT alone"))?;
    Ok((target.to_owned(), b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec()))
}

async fn part(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut part = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut part).await?;
    Ok(part)
}

async fn socks(stream: &mut TcpStream, seen: &Seen) -> io::Result<(String, Vec<u8>)> {
    stream.read_u8().await?;
    assert!(part(stream).await?.contains(&2), "it would say who it is");
    stream.write_all(&[5, 2]).await?;
    stream.read_u8().await?;
    let (user, password) = (part(stream).await?, part(stream).await?);
    if (user.as_slice(), password.as_slice()) != (USER.as_bytes(), PASSWORD.as_bytes()) {
        stream.write_all(&[1, 1]).await?;
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.write_all(&[1, 0]).await?;
    let mut asked = [0; 4];
    stream.read_exact(&mut asked).await?;
    assert_eq!(asked, [5, 1, 0, 1], "to connect to an address of IPv4, as the test network is named by one");
    let mut address = [0; 4];
    stream.read_exact(&mut address).await?;
    let target = SocketAddr::from((address, stream.read_u16().await?));
    seen.by_socks.fetch_add(1, Ordering::Relaxed);
    Ok((target.to_string(), vec![5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
}

/// Asserts that only the proxy has connected to the network.
async fn assert_no_other_source(network: &Simulator) -> Value {
    let sources = network.api().get("/sources").await.expect(200);
    for port in ["chat", "media"] {
        let seen: Vec<&String> = sources[port].as_object().unwrap().keys().collect();
        assert_eq!(seen, [SOURCE], "{port}: {sources}");
    }
    sources
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_bytes_of_a_channel_go_through_its_proxy_and_none_past_one_that_leads_nowhere() {
    let cluster = cluster(1).await;
    let tenant = Tenant::new(&cluster).await;
    let (network, api) = (tenant.simulator(), tenant.any());
    let (phone, friend) = (number(), number());
    for person in [&phone, &friend] {
        network.phone(person, json!({})).await;
    }
    let proxy = Proxy::start(None).await;
    let id = tenant.channel("proxied").await;
    let path = |rest: &str| format!("/v1/channels/{id}{rest}");
    let go_by = async |url: String| {
        api.patch(&path("/settings"), json!({ "proxy_url": url })).await.expect(200);
    };
    go_by(proxy.url("http", PASSWORD)).await;
    pair(&api, &network, &id, &phone).await;

    let send = async |body: Value| string(&api.post(&path("/messages"), body).await.expect(202)["message_id"]);
    let read = async |id: &str| {
        eventually(&format!("{id} is read"), CONNECT, async || {
            let rows = network.inbox(&friend).await;
            rows.into_iter().find(|row| row["id"] == id).ok_or_else(|| "not there".to_owned())
        })
        .await
    };
    read(&send(text(&friend, "by proxy")).await).await;
    let upload = api.request(Method::POST, &path("/media")).body("bytes".repeat(50_000));
    let stored = answer(upload.header("content-type", BYTES)).await.expect(201);
    let body = json!({ "type": "document", "to": friend, "media_url": stored["url"], "mime_type": BYTES, "filename": "a.bin" });
    assert_eq!(read(&send(body).await).await["media"]["intact"], true);
    let body = json!({ "type": "document", "to": phone, "media": { "base64": "bG9vayBoZXJl", "filename": "look" } });
    let sent = network.api().post(&format!("/phones/{friend}/messages"), body).await.expect(201);
    eventually("the document is here", CONNECT, async || {
        let rows = api.get(&path(&format!("/messages?message_id={}", sent["ids"][0].as_str().unwrap()))).await;
        let rows = rows.expect(200);
        check(rows["data"][0]["media"]["state"] == "ready", rows.to_string())
    })
    .await;
    let before = assert_no_other_source(&network).await;
    assert!(proxy.seen.by_connect.load(Ordering::Relaxed) >= 4, "pairing, log-in, media up and down");

    // First nothing listens there; then a proxy that closes every connection.
    let address = proxy.down().await;
    wait_status(&api, &id, "reconnecting", CONNECT).await;
    let meanwhile = send(text(&friend, "meanwhile")).await;
    let proxy = Proxy::start(Some(address)).await;
    proxy.seen.closed.store(true, Ordering::Relaxed);
    proxy.has_refused(2).await;
    assert_eq!(assert_no_other_source(&network).await, before, "nothing was dialled");
    proxy.seen.closed.store(false, Ordering::Relaxed);
    wait_status(&api, &id, "connected", seconds(60)).await;
    read(&meanwhile).await;

    // A SOCKS proxy, first with a password that it refuses.
    let before = assert_no_other_source(&network).await;
    go_by(proxy.url("socks5", "wrong")).await;
    api.act(&path("/restart")).await.expect(202);
    wait_status(&api, &id, "reconnecting", CONNECT).await;
    proxy.has_refused(1).await;
    assert_eq!(assert_no_other_source(&network).await, before, "nothing was dialled");
    go_by(proxy.url("socks5", PASSWORD)).await;
    wait_status(&api, &id, "connected", seconds(60)).await;
    let body = json!({ "type": "document", "to": friend, "media_url": stored["url"], "mime_type": BYTES, "filename": "b.bin" });
    assert_eq!(read(&send(body).await).await["media"]["intact"], true);
    assert_no_other_source(&network).await;
    assert!(proxy.seen.by_socks.load(Ordering::Relaxed) >= 1, "the log-in");
    assert_clean(&network, 1).await;
}
