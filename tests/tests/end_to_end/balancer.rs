//! Clients behind HAProxy, with the configuration from `deploy`: they do not notice that a node leaves.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chrono::Datelike;
use rcgen::{CertificateParams, KeyPair};
use reqwest::{Client, Method, Version};
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::haproxy::Haproxy;
use tests::http::{Api, client, try_answer};
use tests::tenant::{Paired, Tenant, number, text};
use tests::wait::{eventually, seconds};

/// Concurrent callers; every other request is a send.
const CALLERS: usize = 8;

/// Requests that must be answered during each step, so that its result is meaningful.
const ENOUGH: usize = 200;

/// How often a caller retries a request before it gives up, and the pause before each retry.
const AGAIN: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// The results that the callers have seen.
#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    answered: AtomicUsize,
    failed: AtomicUsize,
    failed_reads: AtomicUsize,
}

/// Callers that send requests without a pause, and retry those that fail.
struct Load {
    seen: Arc<Seen>,
    callers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(api: &Api, channel: &Paired, recipient: &str) -> Self {
        let seen = Arc::new(Seen::default());
        let callers = (0..CALLERS).map(|_| {
            let (seen, api, channel, recipient) = (seen.clone(), api.clone(), channel.clone(), recipient.to_owned());
            tokio::spawn(async move {
                let mut turn = 0;
                while !seen.stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let is_read = turn % 2 == 0;
                    ask(&api, &channel, &recipient, is_read, &seen).await;
                    seen.answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let callers = callers.collect();
        Self { seen, callers }
    }

    /// Waits until [`ENOUGH`] more requests have been answered.
    async fn go_on(&self) {
        let before = self.seen.answered.load(Ordering::Relaxed);
        eventually("callers are answered", seconds(60), async || {
            let more = self.seen.answered.load(Ordering::Relaxed) - before;
            if more >= ENOUGH { Ok(()) } else { Err(more.to_string()) }
        })
        .await;
    }

    /// The number of failures so far: of all requests, and of reads.
    fn failures(&self) -> (usize, usize) {
        (self.seen.failed.load(Ordering::Relaxed), self.seen.failed_reads.load(Ordering::Relaxed))
    }

    async fn end(self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.unwrap();
        }
    }
}

async fn ask(api: &Api, channel: &Paired, recipient: &str, is_read: bool, seen: &Seen) {
    for _ in 0..AGAIN {
        let request = if is_read {
            api.request(Method::GET, &channel.path(""))
        } else {
            api.request(Method::POST, &channel.path("/messages")).json(&text(recipient, "through the balancer"))
        };
        let said = match try_answer(request).await {
            Ok(answer) if answer.status < 300 => return,
            Ok(answer) => format!("{} {}", answer.status, answer.text()),
            Err(error) => format!("{error:?}"),
        };
        eprintln!("{} failed: {said}", if is_read { "a read" } else { "a send" });
        seen.failed.fetch_add(1, Ordering::Relaxed);
        seen.failed_reads.fetch_add(usize::from(is_read), Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    panic!("a request failed {AGAIN} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_balancer_a_drain_fails_nothing_and_a_kill_only_what_is_asked_again() {
    let options =
        Options::default().arg("--set=drain.initial_wait=4s").arg("--set=api.trusted_proxies=[\"127.0.0.1/32\"]");
    let cluster = Cluster::start(options).await;
    let haproxy = Haproxy::start(&cluster);
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let recipient = number();
    tenant.simulator().phone(&recipient, json!({})).await;
    let through = Api::new(client(), &format!("http://127.0.0.1:{}", haproxy.port), Some(&tenant.key));
    eventually("HAProxy has found the nodes", seconds(20), async || {
        let answer = through.get("/v1/account").await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;

    let load = Load::start(&through, &channel, &recipient);
    load.go_on().await;
    // The owner of the channel drains and returns, so the channel moves twice.
    let owner = tenant.owner(1, &channel.id).await.node;
    cluster.command(&["dev", "stop", &owner.to_string()]).await.succeeded();
    load.go_on().await;
    cluster.command(&["dev", "start", &owner.to_string(), "--wait"]).await.succeeded();
    load.go_on().await;
    assert_eq!(load.failures(), (0, 0), "nobody notices a drain");

    let alive = cluster.node_ids().into_iter().find(|node| *node != owner).unwrap();
    let owner = tenant.owner(alive, &channel.id).await.node;
    cluster.kill(owner);
    load.go_on().await;
    let (failed, failed_reads) = load.failures();
    // Sends that were on their way to the node when it died: at most one for each caller.
    assert!(failed <= CALLERS, "{failed} requests failed by one kill");
    assert_eq!(failed_reads, 0, "HAProxy itself asks again for reads");
    load.end().await;
}

/// Writes a self-signed certificate for this machine, valid for `days` days, and returns it for clients to trust.
fn write_certificate(folder: &Path, days: u64) -> reqwest::Certificate {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let end = (chrono::Utc::now() + chrono::Days::new(days)).date_naive();
    let part = |number: u32| u8::try_from(number).unwrap();
    params.not_after = rcgen::date_time_ymd(end.year(), part(end.month()), part(end.day()));
    let certificate = params.self_signed(&key).unwrap();
    // A renewal replaces the files one after the other, with a pause in between.
    std::fs::write(folder.join("api.key"), key.serialize_pem()).unwrap();
    std::fs::write(folder.join("api.pem"), certificate.pem()).unwrap();
    reqwest::Certificate::from_pem(certificate.pem().as_bytes()).unwrap()
}

/// A client that trusts only this certificate, and connects from this address.
fn trusting(certificate: &reqwest::Certificate, from: Ipv4Addr) -> Client {
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().tls_certs_only([certificate.clone()]).local_address(IpAddr::from(from));
    client.timeout(seconds(10)).build().unwrap()
}

#[tokio::test]
async fn https_takes_up_a_renewed_certificate_and_proxy_headers_name_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_certificate(folder.path(), 20);
    let file = |name: &str| folder.path().join(name).display().to_string();
    // The balancer has its own address, so that requests from others are not from a trusted proxy.
    let options = Options::nodes(1)
        .arg("--set=api.proxy_protocol=true")
        .arg("--set=api.trusted_proxies=[\"127.0.0.9/32\"]")
        .arg(&format!("--set=api.tls.cert_file={}", file("api.pem")))
        .arg(&format!("--set=api.tls.key_file={}", file("api.key")));
    let cluster = Cluster::start(options).await;
    let api = cluster.node(1).api;
    let port: u16 = api.rsplit(':').next().unwrap().parse().unwrap();
    let url = |port: u16| format!("https://localhost:{port}/healthz");

    let answer = trusting(&first, Ipv4Addr::LOCALHOST).get(url(port)).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
    assert!(client().get(format!("{api}/healthz")).send().await.is_err(), "plain HTTP is not answered");
    let ask = |path: usize, header: usize| {
        let url = format!("https://localhost:{port}/{}", "p".repeat(path));
        trusting(&first, Ipv4Addr::LOCALHOST).get(url).header("x-long", "h".repeat(header)).send()
    };
    for (path, header, status, code) in [
        (30_000, 1, 404, "not_found"),
        (40_000, 1, 414, "uri_too_long"),
        (1, 40_000, 431, "headers_too_large"),
        (1, 200_000, 431, "headers_too_large"),
    ] {
        let answer = ask(path, header).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (status, Version::HTTP_2), "{path} {header}");
        let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
        let body: Value = answer.json().await.unwrap();
        assert!(body["error"]["code"] == code && body["request_id"] == id.as_str(), "{path} {header}: {body}");
    }
    // Beyond its announced limit, the HTTP server itself refuses requests, without a body. The connection stays.
    let beyond = ask(1, 300_000).await.unwrap();
    assert_eq!((beyond.status().as_u16(), beyond.version()), (431, Version::HTTP_2));
    assert!(beyond.bytes().await.unwrap().is_empty());
    assert_eq!(ask(1, 1).await.unwrap().status(), 404);

    let haproxy = Haproxy::run(|own| {
        format!(
            "defaults\n mode tcp\n timeout connect 2s\n timeout client 20s\n timeout server 20s\n\
             listen customers\n bind 127.0.0.1:{own}\n source 127.0.0.9\n server node-1 127.0.0.1:{port} send-proxy-v2\n"
        )
    });
    let ann = trusting(&first, Ipv4Addr::new(127, 0, 0, 2));
    let wrong = format!("https://localhost:{}/v1/account", haproxy.port);
    eventually("a wrong key is refused through the balancer", seconds(20), async || {
        let asked = ann.get(&wrong).bearer_auth("zpk_000000000000000000000000").send().await;
        match asked {
            Ok(answer) if answer.status() == 401 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let operator = cluster.operator(1, &client());
    eventually("the log knows whose wrong key it was", seconds(20), async || {
        let log = operator.get("/v1/admin/audit-log?action=auth.failed").await.expect(200);
        let rows = log["data"].as_array().cloned().unwrap_or_default();
        if rows.iter().any(|row: &Value| row["ip"] == "127.0.0.2") { Ok(()) } else { Err(log.to_string()) }
    })
    .await;

    let said_of_certificates = async || {
        let checked = operator.get("/v1/admin/check").await.expect(200);
        let checks = checked["checks"].as_array().unwrap().iter();
        checks.filter(|row| row["check"] == "certificates").cloned().collect::<Vec<Value>>()
    };
    let said = said_of_certificates().await;
    let message = said[0]["message"].as_str().unwrap();
    assert!(said[0]["level"] == "warning" && message.contains("api.tls.cert_file of node 1 expires soon"), "{said:?}");

    let second = write_certificate(folder.path(), 200);
    eventually("the renewed certificate is shown", seconds(20), async || {
        let asked = trusting(&second, Ipv4Addr::LOCALHOST).get(url(port)).send().await;
        asked.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
    assert!(trusting(&first, Ipv4Addr::LOCALHOST).get(url(port)).send().await.is_err());
    assert_eq!(said_of_certificates().await[0]["level"], "ok");
    std::fs::write(folder.path().join("api.pem"), "no certificate").unwrap();
    eventually("the log says that a file is wrong", seconds(20), async || {
        let log = std::fs::read_to_string(cluster.node(1).log).unwrap();
        if log.contains("the new certificate is not used") { Ok(()) } else { Err(String::new()) }
    })
    .await;
    assert!(trusting(&second, Ipv4Addr::LOCALHOST).get(url(port)).send().await.is_ok());
}
