//! The console: its pages and their requests, directly and in a browser.

mod browser;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use futures::future::join_all;
use reqwest::Method;
use reqwest::header::{ACCEPT, COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use tests::binary;
use tests::cluster::{Cluster, Options};
use tests::http::{Answer, Api, answer, client, string, try_answer};
use tests::member::{Member, PASSWORD};
use tests::room::Room;
use tests::sources::checkout;
use tests::tenant::{CONNECT, Tenant, wait_status};
use tests::wait::{eventually, seconds};
use tokio::io::{AsyncBufReadExt, BufReader};

const SESSION: &str = "/console/session";

/// A session request as the console's page makes it.
async fn of_page(api: &Api, method: Method, cookie: Option<&str>, body: Value) -> Answer {
    of_page_at(SESSION, api, method, cookie, body).await
}

async fn of_page_at(path: &str, api: &Api, method: Method, cookie: Option<&str>, body: Value) -> Answer {
    let mut request = api.without_key().request(method, path).header("sec-fetch-site", "same-origin");
    if let Some(cookie) = cookie {
        request = request.header(COOKIE, cookie);
    }
    if !body.is_null() {
        request = request.json(&body);
    }
    answer(request).await
}

async fn log_in(api: &Api, member: &Member) -> Answer {
    of_page(api, Method::POST, None, json!({ "email": member.email, "password": PASSWORD })).await
}

/// The cookie as a browser returns it.
fn cookie(answer: &Answer) -> String {
    let set = answer.header(SET_COOKIE.as_str()).expect("a cookie is set");
    for part in ["Path=/console/session", "HttpOnly", "SameSite=Strict"] {
        assert!(set.contains(part), "{set}");
    }
    set.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_signs_in_by_a_cookie_that_works_once_on_every_node() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let member = Member::new(&tenant, "admin").await;
    let nodes = tenant.cluster.node_ids();
    let at = |n: usize| tenant.cluster.api(nodes[n % nodes.len()], &tenant.client);

    let first = log_in(&at(0), &member).await;
    let view = first.expect(200);
    assert!(view.get("refresh_token").is_none(), "no script gets to see it: {view}");
    assert_eq!(view["expires_in"], 900);
    assert_eq!(first.header("cache-control"), Some("no-store"));
    // Cookies ignore ports, so a browser also sends those of another cluster on this machine.
    let of_other = format!("gateway_session=zrt_old; gateway_session_{}=zrt_other", "0".repeat(32));
    let both = format!("{of_other}; {}", cookie(&first));
    let second = of_page(&at(1), Method::PUT, Some(&both), Value::Null).await;
    let access = string(&second.expect(200)["access_token"]);
    at(2).with_key(&access).get("/console/api/v1/channels").await.expect(200);

    let again = of_page(&at(2), Method::PUT, Some(&cookie(&first)), Value::Null).await;
    again.expect_error(401, "auth_revoked");
    at(0).with_key(&access).get("/console/api/v1/channels").await.expect_error(401, "auth_revoked");

    let third = log_in(&at(1), &member).await;
    let access = string(&third.expect(200)["access_token"]);
    let out = of_page(&at(2), Method::DELETE, Some(&cookie(&third)), Value::Null).await;
    out.expect(204);
    assert!(out.header(SET_COOKIE.as_str()).is_some_and(|set| set.contains("Max-Age=0")));
    at(0).with_key(&access).get("/console/api/v1/channels").await.expect_error(401, "auth_revoked");
    of_page(&at(0), Method::PUT, Some(&of_other), Value::Null).await.expect_error(401, "auth_missing");
    of_page(&at(0), Method::PUT, None, Value::Null).await.expect_error(401, "auth_missing");
    of_page(&at(0), Method::DELETE, None, Value::Null).await.expect(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_know_its_cluster_yet_tells_nobody_to_log_in_again() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let member = Member::new(&tenant, "admin").await;
    let nodes = cluster.node_ids();
    let first = log_in(&tenant.api(nodes[0]), &member).await;
    first.expect(200);
    let kept = cookie(&first);
    cluster.kill_all(&nodes);
    cluster.command(&["dev", "start", &nodes[0].to_string()]).await.succeeded();
    let alone = tenant.api(nodes[0]);
    let refused = eventually("the node answers", seconds(60), async || {
        let request = alone.without_key().request(Method::PUT, SESSION).header("sec-fetch-site", "same-origin");
        try_answer(request.header(COOKIE, &kept)).await.map_err(|error| error.to_string())
    })
    .await;
    refused.expect_error(503, "auth_backend_unavailable");
    let out = of_page(&alone, Method::DELETE, Some(&kept), Value::Null).await;
    out.expect_error(503, "auth_backend_unavailable");
    cluster.restart(&nodes[1..]).await;
    of_page(&tenant.api(nodes[1]), Method::PUT, Some(&kept), Value::Null).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_page_signs_anybody_in_or_out() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let member = Member::new(&tenant, "viewer").await;
    let api = tenant.any().without_key();
    let session = log_in(&api, &member).await;
    let body = json!({ "email": member.email, "password": PASSWORD });
    for site in [None, Some("cross-site"), Some("same-site"), Some("none")] {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let request = api.request(method.clone(), SESSION).header(COOKIE, cookie(&session)).json(&body);
            let request = match site {
                Some(site) => request.header("sec-fetch-site", site),
                None => request,
            };
            answer(request).await.expect_error(400, "bad_request");
        }
    }
    of_page(&api, Method::PUT, Some(&cookie(&session)), Value::Null).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_of_the_simulated_network_scans_the_code_that_a_page_shows() {
    const PHONES: &str = "/console/phones";
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let member = Member::new(&tenant, "member").await;
    let api = tenant.any();
    assert_eq!(log_in(&api, &member).await.expect(200)["simulated_phones"], true);
    let channel = tenant.channel("Scanned").await;
    let raw = &api.get(&format!("/v1/channels/{channel}/qr?format=raw")).await.expect(200)["raw"];

    let foreign = answer(api.without_key().request(Method::POST, PHONES).json(&json!({ "raw": raw }))).await;
    foreign.expect_error(400, "bad_request");
    let scan = async |body: Value| of_page_at(PHONES, &api, Method::POST, None, body).await;
    scan(json!({})).await.expect_issue(&json!(["raw"]), "required");
    scan(json!({ "raw": "no code of anybody" })).await.expect_issue(&json!(["raw"]), "format");
    let number = string(&scan(json!({ "raw": raw })).await.expect(200)["number"]);
    wait_status(&api, &channel, "connected", CONNECT).await;
    let shown = api.get(&format!("/v1/channels/{channel}")).await.expect(200);
    assert_eq!(shown["phone_number"], number.as_str());
    scan(json!({ "raw": raw })).await.expect_issue(&json!(["raw"]), "format");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_members_do_in_the_console_costs_their_session_and_nothing_else() {
    let options = Options::default().default_limits().arg("--ip-burst=1000000").arg("--ip-refill=1000000");
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let member = Member::new(&tenant, "member").await;
    let channel = tenant.channel("Sales").await;
    let api = tenant.any();
    let session = api.with_key(&string(&log_in(&api, &member).await.expect(200)["access_token"]));

    let paths = ["/v1/channels".to_owned(), format!("/v1/channels/{channel}/messages"), "/v1/limits".to_owned()];
    for path in paths.iter().cycle().take(90) {
        let answer = session.get(&format!("/console/api{path}")).await;
        answer.expect(200);
        assert_eq!(answer.header("x-ratelimit-scope"), Some("session"));
        assert_eq!(answer.header("x-ratelimit-limit"), Some("120"));
    }
    let limits = api.get(&format!("/v1/limits?channel_id={channel}")).await.expect(200);
    // The API key has made a channel, and makes this request.
    assert!(limits["per_customer"]["remaining"].as_u64().unwrap() >= 58, "{limits}");
    assert_eq!(limits["per_channel"]["remaining"], 60, "{limits}");

    // A session beyond its own bucket is refused; another session and the API key are not.
    let all = join_all((0..400).map(|_| session.get("/console/api/v1/channels"))).await;
    let refused: Vec<_> = all.iter().filter(|answer| answer.status == 429).collect();
    assert!(!refused.is_empty() && refused.len() < 400);
    assert_eq!(refused[0].expect_error(429, "rate_limited"), json!({ "scope": "session", "limit": 120 }));
    refused[0].retry_after();
    let other = api.with_key(&string(&log_in(&api, &member).await.expect(200)["access_token"]));
    other.get("/console/api/v1/channels").await.expect(200);
    api.get("/v1/channels").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_find_nothing_in_the_console_and_roles_hold_there() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    api.get("/console/api/v1/channels").await.expect_error(404, "not_found");
    api.without_key().get("/console/api/v1/channels").await.expect_error(401, "auth_missing");
    let viewer = Member::new(&tenant, "viewer").await;
    let session = api.with_key(&string(&log_in(&api, &viewer).await.expect(200)["access_token"]));
    session.get("/console/api/v1/account").await.expect(200);
    session.post("/console/api/v1/channels", json!({ "name": "x" })).await.expect_error(403, "insufficient_scope");
    // Routes that are public or of no account do not exist below the console.
    for path in ["/console/api/v1/auth/login", "/console/api/healthz", "/console/api/openapi.json", "/console/api"] {
        assert_ne!(session.request(Method::POST, path).send().await.unwrap().status(), 200, "{path}");
    }
    let stranger = Tenant::new(&tenant.cluster).await;
    let channel = stranger.channel("Theirs").await;
    session.get(&format!("/console/api/v1/channels/{channel}")).await.expect_error(404, "channel_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_of_the_console_bears_the_policies_that_guard_it() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let node = cluster.running_node();
    for (api, page) in [(tenant.any(), "members"), (cluster.operator(node, &tenant.client), "operators")] {
        let api = api.without_key();
        let html = api.get("/console").await;
        assert_eq!(html.status, 200);
        assert!(html.text().contains(&format!("data-door=\"{page}\"")), "{}", html.text());
        assert!(!html.text().contains("style=") && !html.text().contains("<style"), "{}", html.text());
        assert_eq!(html.header("cache-control"), Some("no-cache"));
        assert_eq!(api.get("/console/channels").await.text(), html.text(), "every page is the same file");
        let text = html.text();
        let assets: Vec<&str> = text.split('"').filter(|part| part.starts_with("/console/assets/")).collect();
        // The page's own script, a script that both consoles share, styles and an icon; the styles are named twice.
        let named: BTreeSet<&str> = assets.iter().copied().collect();
        assert_eq!((named.len(), assets.len()), (4, 5), "{assets:?}");
        assert!(text.contains(&format!("/console/assets/{page}-")), "{text}");
        let mut answers = vec![html];
        for asset in named {
            let plain = api.get(asset).await;
            assert_eq!(plain.status, 200, "{asset}");
            assert_eq!(plain.header("cache-control"), Some("public, max-age=31536000, immutable"));
            assert_eq!(plain.header("content-encoding"), None);
            for encoding in ["br", "gzip"] {
                let packed = answer(api.request(Method::GET, asset).header("accept-encoding", encoding)).await;
                assert_eq!(packed.header("content-encoding"), Some(encoding), "{asset}");
                assert!(packed.body.len() < plain.body.len() || plain.body.len() < 600, "{asset}");
            }
            answers.push(plain);
        }
        for answer in answers {
            let policy = answer.header("content-security-policy").unwrap();
            for rule in [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "form-action 'self'",
                "base-uri 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
                "frame-ancestors 'none'",
            ] {
                assert!(policy.contains(rule), "{policy}");
            }
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
            assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
            assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
            let devices = "camera=(), microphone=(), geolocation=(), usb=()";
            assert_eq!(answer.header("permissions-policy"), Some(devices));
        }
        for nothing in ["/console/assets/app.js", "/console/assets/members.html", "/console/assets/..%2fCargo.toml"] {
            api.get(nothing).await.expect_error(404, "not_found");
        }
        let licences = api.get("/console/licences.txt").await;
        assert_eq!((licences.status, licences.header("content-type")), (200, Some("text/plain; charset=utf-8")));
        assert_eq!(licences.text(), api.get("/console/assets/licences.txt").await.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_are_named_may_hold_the_members_console_in_a_frame_and_no_page_the_operators() {
    // The node's port has no TLS; a load balancer terminates it.
    let options = Options::nodes(1)
        .arg("--set=api.console_frame_ancestors=[\"https://app.example.com\"]")
        .arg("--base-url=https://localhost:8443");
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let policy = async |api: Api| {
        let page = api.without_key().get("/console").await;
        page.header("content-security-policy").unwrap().to_owned()
    };
    let members = policy(tenant.any()).await;
    assert!(members.contains("frame-ancestors https://app.example.com;"), "{members}");
    let operators = policy(tenant.cluster.operator(1, &tenant.client)).await;
    assert!(operators.contains("frame-ancestors 'none';"), "{operators}");
    for path in ["/console", "/docs"] {
        let page = tenant.any().without_key().get(path).await;
        assert_eq!(page.header("strict-transport-security"), Some("max-age=31536000"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_whose_console_is_off_has_none() {
    let options = Options::nodes(1).arg("--set=api.console=false").arg("--set=ops.console=false");
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let api = tenant.any().without_key();
    let operator = tenant.cluster.operator(1, &tenant.client);
    for path in ["/console", "/console/channels", "/console/api/v1/channels"] {
        api.get(path).await.expect_error(404, "not_found");
        operator.get(path).await.expect_error(404, "not_found");
    }
    of_page(&api, Method::PUT, None, Value::Null).await.expect_error(404, "not_found");
    for port in [&api, &operator] {
        assert_eq!(home(port).await.as_deref(), Some("docs"));
    }
}

/// The target of a browser's request for the root of a port.
async fn home(port: &Api) -> Option<String> {
    let accepts = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let answer = answer(port.without_key().request(Method::GET, "/").header(ACCEPT, accepts)).await;
    assert_eq!(answer.status, 302, "{}", answer.text());
    answer.header(LOCATION.as_str()).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_finds_the_console_at_the_root_of_a_port_and_a_program_hears_of_the_documentation() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let operator = cluster.operator(cluster.running_node(), &tenant.client);
    for port in [tenant.any(), operator] {
        assert_eq!(home(&port).await.as_deref(), Some("console"));
        let answer = port.get("/").await;
        answer.expect_error(404, "not_found");
        assert!(answer.text().contains("/docs"), "{}", answer.text());
    }
}

/// Ends the cluster of a foreground `gateway dev`, however the test ends.
struct Held(PathBuf);

impl Drop for Held {
    fn drop(&mut self) {
        let data = format!("--data={}", self.0.display());
        let _ =
            std::process::Command::new(binary::gateway()).args(["dev", "down", &data]).stdout(Stdio::null()).status();
    }
}

/// Runs the command of `make run`, and returns the line of its output that has a link.
async fn link_of_a_run(data: &Path, base_port: u16) -> (tokio::process::Child, String) {
    let makefile = std::fs::read_to_string(checkout().join("Makefile")).unwrap();
    assert!(makefile.contains("\t$(BIN) dev --data $(DEV_DIR) --demo $(DEV_FLAGS)\n"), "make run runs something else");
    let mut dev = tokio::process::Command::new(binary::gateway())
        .args(["dev", "--demo", &format!("--data={}", data.display()), &format!("--base-port={base_port}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let link = {
        let mut lines = BufReader::new(dev.stdout.as_mut().unwrap()).lines();
        let found = tokio::time::timeout(seconds(240), async {
            let mut said = Vec::new();
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("#sign-in=") {
                    return line.trim().to_owned();
                }
                said.push(line);
            }
            panic!("it ended without a link: {said:#?}")
        });
        found.await.expect("the demo is shown in time")
    };
    (dev, link)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn make_run_ends_with_a_link_that_signs_in_once_and_opens_a_page_that_pairs_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let room = tokio::task::spawn_blocking(|| Room::take(3)).await.unwrap();
    let held = Held(folder.path().join("dev"));
    let (_dev, link) = link_of_a_run(&held.0, room.base_port).await;
    let (page, token) = link.split_once("#sign-in=").unwrap();
    let (origin, path) = page.split_once("/console").unwrap();
    let api = Api::new(client(), origin, None);
    assert_eq!(api.get(&format!("/console{path}")).await.status, 200, "{link}");
    let id = path.strip_prefix("/channel?id=").and_then(|rest| rest.strip_suffix("&tab=pairing"));
    let id = id.unwrap_or_else(|| panic!("it pairs nothing: {link}"));

    let link = json!({ "refresh_token": token });
    let opened = of_page(&api, Method::PUT, None, link.clone()).await;
    let member = api.with_key(&string(&opened.expect(200)["access_token"]));
    let code = member.get(&format!("/console/api/v1/channels/{id}/qr?format=raw")).await.expect(200);
    assert!(code["raw"].as_str().is_some_and(|raw| !raw.is_empty()), "{code}");
    let next = of_page(&api, Method::PUT, Some(&cookie(&opened)), Value::Null).await;
    next.expect(200);
    of_page(&api, Method::PUT, None, link).await.expect_error(401, "auth_revoked");
}
