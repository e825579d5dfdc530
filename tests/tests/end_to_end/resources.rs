//! A tenant, a stranger or a full disk cannot take the resources of others on a node.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{answer, client, string};
use tests::media::{bare, png};
use tests::tenant::{Tenant, number, text, wait_status};
use tests::wait::{check, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(30);

/// Options of a node whose disks are beyond these marks, whatever space is left.
fn passed(marks: &[&str]) -> Options {
    let mark =
        |mark: &&str| format!("--set=disk.{mark}={{ percent = 100, most_bytes = 1000000000000000, least_bytes = 0 }}");
    marks.iter().map(mark).fold(Options::nodes(1), |options, flag| options.arg(&flag))
}

async fn disk_check(cluster: &Cluster) -> Value {
    let checks = cluster.operator(1, &client()).get("/v1/admin/check").await.expect(200);
    let checks = checks["checks"].as_array().unwrap().clone();
    checks.into_iter().find(|check| check["check"] == "disk").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_little_room_refuses_media_and_large_bodies_and_takes_sends() {
    let cluster = Cluster::start(passed(&["low"])).await;
    let tenant = Tenant::new(&cluster).await;
    let (channel, api) = (tenant.paired("Low").await, tenant.any());
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;

    let upload = answer(bare(&api, &channel.id, "image/png", png(5_000, 1))).await;
    upload.expect_error(503, "storage_full");
    assert_eq!(upload.retry_after(), 60);
    let mut large = text(&to, "with much beside it");
    large["padding"] = json!("x".repeat(70 * 1024));
    api.post(&channel.path("/messages"), large).await.expect_error(503, "storage_full");
    api.post(&channel.path("/messages"), text(&to, "small")).await.expect(202);
    let found = disk_check(&cluster).await;
    assert_eq!(found["level"], "warning", "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_room_refuses_sends_holds_what_comes_in_and_does_all_else() {
    let cluster = Cluster::start(passed(&["low"])).await;
    let tenant = Tenant::new(&cluster).await;
    let (channel, api, simulator) = (tenant.paired("Full").await, tenant.any(), tenant.simulator());
    let from = number();
    simulator.phone(&from, json!({})).await;
    let key = api.post("/v1/api-keys", json!({ "name": "old", "scopes": ["messages.read"] })).await.expect(201);
    cluster.kill(1);
    let config = cluster.data().join("node-1.toml");
    let low = std::fs::read_to_string(&config).unwrap();
    let (before, full) = low.split_once("[disk.full]").unwrap();
    let full = full.replacen("percent = ", "percent = 100 # ", 1);
    let full = full.replacen("most_bytes = ", "most_bytes = 1000000000000000 # ", 1);
    std::fs::write(&config, format!("{before}[disk.full]{full}")).unwrap();
    cluster.restart(&[1]).await;
    wait_status(&api, &channel.id, "connected", PATIENCE).await;

    let send = api.post(&channel.path("/messages"), text(&from, "no room")).await;
    send.expect_error(503, "storage_full");
    assert_eq!(send.retry_after(), 60);
    api.delete(&channel.path("/stories/3EB0")).await.expect_error(503, "storage_full");
    simulator.text(&from, &channel.number, "it waits", 1).await;
    // Creations of customers are refused like sends; deletions work.
    for (path, body) in [
        ("/v1/api-keys", json!({ "name": "new", "scopes": ["messages.read"] })),
        ("/v1/channels", json!({ "name": "new" })),
        ("/v1/webhook-endpoints", json!({ "url": "http://127.0.0.1:8080/", "events": ["message.sent"] })),
    ] {
        api.post(path, body).await.expect_error(503, "storage_full");
    }
    api.delete(&format!("/v1/api-keys/{}", string(&key["id"]))).await.expect(204);
    // Nothing is acknowledged without being stored, and the session goes on.
    api.act(&channel.path("/disconnect")).await.expect(202);
    assert_eq!(api.get("/v1/messages").await.expect(200)["data"], json!([]));
    assert_eq!(disk_check(&cluster).await["level"], "failing");
    api.delete(&channel.path("")).await;
    eventually("the channel is gone", PATIENCE, async || {
        let status = api.get(&channel.path("")).await.status;
        check(status == 404, format!("it answers {status}"))
    })
    .await;
}

/// Begins an upload and stops.
async fn begun(tenant: &Tenant, channel: &str) -> TcpStream {
    let address = host(tenant.any().base());
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /v1/channels/{channel}/media HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: image/png\r\nContent-Length: 100000\r\n\r\nbytes",
        tenant.key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slow_uploads_of_one_account_leave_places_to_the_others() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let (greedy, other) = (Tenant::new(&cluster).await, Tenant::new(&cluster).await);
    let (of_greedy, of_other) = (greedy.channel("Greedy").await, other.channel("Other").await);
    let upload =
        async |tenant: &Tenant, channel: &str| answer(bare(&tenant.any(), channel, "image/png", png(5_000, 1))).await;
    let mut held = Vec::new();
    eventually("its share is taken", PATIENCE, async || {
        for _ in 0..32 {
            held.push(begun(&greedy, &of_greedy).await);
        }
        let answer = upload(&greedy, &of_greedy).await;
        check(answer.status == 503, answer.text())
    })
    .await;
    upload(&other, &of_other).await.expect(201);
    // Slow uploads are aborted, and their slots are free again.
    eventually("the places are free again", PATIENCE, async || {
        let answer = upload(&greedy, &of_greedy).await;
        check(answer.status == 201, answer.text())
    })
    .await;
}

/// Sends raw bytes, and reads the response until the connection ends.
async fn said(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The connection may be closed before the whole request is sent, if that is refused early.
    let _ = stream.write_all(request).await;
    let mut read = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await;
    String::from_utf8_lossy(&read).into_owned()
}

fn host(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_http_server_refuses_by_itself_bears_the_envelope() {
    let cluster = Cluster::shared().await;
    let node = cluster.running_node();
    let long = |length: usize| format!("GET /v1/{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(length));
    let header = |length: usize| format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "x".repeat(length));
    let twice = "POST /v1/channels HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}".to_owned();
    for base in [cluster.api(node, &client()), cluster.operator(node, &client())] {
        let table = [
            (long(70_000), 414, "uri_too_long"),
            (long(200_000), 414, "uri_too_long"),
            (header(200_000), 431, "headers_too_large"),
            (twice.clone(), 400, "invalid_request"),
        ];
        for (request, status, code) in table {
            let answer = said(&host(base.base()), request.as_bytes()).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{code}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["error"]["code"], code, "{answer}");
            assert!(head.contains(body["request_id"].as_str().unwrap()), "{answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_give_way_to_requests_on_their_port_and_touch_no_other() {
    let options = Options::nodes(1).arg("--set=connections.most=200").arg("--set=connections.most_per_address=100");
    let cluster = Cluster::start(options).await;
    let (api, operator) = (cluster.api(1, &client()), cluster.operator(1, &client()));
    let address = host(api.base());
    let log = cluster.node(1).log;
    let before = std::fs::metadata(&log).unwrap().len();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(&address).await.unwrap());
        if silent.len() % 50 == 0 {
            api.without_key().get("/healthz").await.expect(200);
            operator.get("/v1/admin/nodes").await.expect(200);
        }
    }
    // The oldest connections were closed long ago, since there are more than there are slots.
    let mut first = silent.swap_remove(0);
    let read = tokio::time::timeout(PATIENCE, first.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let metrics = operator.get("/metrics").await.text();
    let open = metrics.lines().find(|line| line.starts_with("gateway_connections{port=\"api\"}")).unwrap();
    let open: f64 = open.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(open <= 100.0, "{open} are open");
    let grown = std::fs::metadata(&log).unwrap().len() - before;
    assert!(grown < 20_000, "{grown} bytes were logged");
}

/// Sends a request, and returns the beginning of its response; empty if the connection has ended.
async fn answered(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut answer, mut piece) = (String::new(), [0; 4096]);
    loop {
        if let Some(begin) = answer.find("HTTP/1.1 ") {
            return answer.split_off(begin);
        }
        match tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await.unwrap() {
            Ok(0) | Err(_) => return String::new(),
            Ok(read) => answer.push_str(&String::from_utf8_lossy(&piece[..read])),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_goes_on_after_a_request_whose_body_nobody_wanted() {
    const LENGTH: usize = 100_000;
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let (address, stranger) = (host(tenant.any().base()), format!("zpk_{}", "A".repeat(24)));
    let elsewhere = "/v1/channels/00000000-0000-4000-8000-000000000000/messages";
    for (path, key, status) in
        [("/v1/nothing", &tenant.key, 404), (elsewhere, &tenant.key, 404), ("/v1/channels", &stranger, 401)]
    {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n");
        let body = "x".repeat(LENGTH);
        let request = format!("{head}Content-Type: application/json\r\nContent-Length: {LENGTH}\r\n\r\n{body}");
        let told = answered(&mut stream, &request).await;
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {told}");
        let told = answered(&mut stream, &format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n")).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{path}: {told}");
        // A client that awaits the response before it sends the body gets it soon; at once if the body is too large.
        for length in [1_000, 20_000_000] {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let asked = Instant::now();
            let request = format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
            let told = answered(&mut stream, &request).await.to_lowercase();
            assert!(told.starts_with(&format!("http/1.1 {status} ")) && told.contains("connection: close"), "{told}");
            assert!(asked.elapsed() < Duration::from_secs(8), "{path}: {:?}", asked.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_send_requests_give_way_to_who_comes_and_a_connection_with_a_key_stays() {
    let options = Options::nodes(1).arg("--set=connections.most=200").arg("--set=connections.most_per_address=50");
    let cluster = Cluster::start(options).await;
    let tenant = Tenant::new(&cluster).await;
    let address = host(cluster.api(1, &client()).base());
    let mut known = TcpStream::connect(&address).await.unwrap();
    let asks = format!("GET /v1/account HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", tenant.key);
    assert!(answered(&mut known, &asks).await.starts_with("HTTP/1.1 200"));
    let mut strangers = Vec::new();
    for _ in 0..120 {
        let mut stranger = TcpStream::connect(&address).await.unwrap();
        let answer = answered(&mut stranger, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(!answer.is_empty(), "who comes is let in");
        strangers.push(stranger);
    }
    assert!(answered(&mut strangers[0], "").await.is_empty(), "the first of them gave way");
    // This connection stays open, whatever its address bucket says by now.
    assert!(!answered(&mut known, &asks).await.is_empty());
}
