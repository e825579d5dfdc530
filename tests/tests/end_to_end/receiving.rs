//! `gateway listen` and `gateway trigger`, for developers of receivers: against a cluster, with only an API key.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tests::binary::gateway;
use tests::cluster::{Cluster, Options};
use tests::receiver::{Received, Receiver, Reply};
use tests::tenant::{Tenant, number, text};
use tests::wait::{eventually, seconds};
use tokio::process::{Child, Command};

const SECRET: &str = "whsec_of-a-receiver-at-home";

/// A running `gateway listen`, and the files of its output.
struct Listening {
    process: Child,
    folder: tempfile::TempDir,
}

impl Listening {
    async fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| Stdio::from(std::fs::File::create(folder.path().join(name)).unwrap());
        let mut command = Command::new(gateway());
        command.arg("listen").args(arguments).current_dir(folder.path()).stdin(Stdio::null());
        let process = command.stdout(file("out")).stderr(file("err")).kill_on_drop(true).spawn().unwrap();
        let listening = Self { process, folder };
        listening.says("err", "listening at").await;
        listening
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    async fn says(&self, name: &str, part: &str) {
        eventually(&format!("it says {part}"), seconds(30), async || {
            let text = self.text(name);
            if text.contains(part) { Ok(()) } else { Err(format!("{text}{}", self.text("err"))) }
        })
        .await;
    }
}

async fn run(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let done = Command::new(gateway()).args(arguments).current_dir(folder).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_printed_and_forwarded_signed_and_go_on_after_a_cut() {
    let cluster = Cluster::start(Options::nodes(3)).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Home").await;
    let ann = number();
    tenant.simulator().phone(&ann, json!({})).await;
    let receiver = Receiver::start().await;
    let owner = tenant.owner(cluster.running_node(), &channel.id).await.node;
    let others: Vec<u64> = cluster.node_ids().into_iter().filter(|node| *node != owner).collect();
    let apis = others.iter().map(|node| cluster.node(*node).api).collect::<Vec<_>>().join(",");
    let hook = receiver.url("/hook");
    let arguments = ["--api", &apis, "--key", &tenant.key, "--events", "message.received,message.sent"];
    let listening =
        Listening::start(&[&arguments[..], &["--forward-to", &hook, "--signing-secret", SECRET]].concat()).await;

    let send = async |words: &str| {
        let sent = tenant.api(owner).post(&channel.path("/messages"), text(&ann, words)).await.expect(202);
        sent["message_id"].as_str().unwrap().to_owned()
    };
    let first = send("first").await;
    let got = receiver.wait_message("message.sent", &first, seconds(30)).await;
    got.verify(SECRET);
    assert_eq!((got.path.as_str(), got.header("x-gateway-attempt")), ("/hook", "1"));
    listening.says("out", &got.event_id()).await;
    listening.says("err", "-> 200 OK after").await;

    // The node that it listens to dies. Events until it has connected to another node still come, once each.
    cluster.kill(others[0]);
    let missed = send("while it is away").await;
    receiver.wait_message("message.sent", &missed, seconds(60)).await;
    let after = send("and after").await;
    receiver.wait_message("message.sent", &after, seconds(60)).await;
    let seen = receiver.received();
    let of: Vec<&Received> = seen.iter().filter(|request| request.event() == "message.sent").collect();
    assert_eq!(of.len(), 3, "each once: {of:?}");

    // A failing receiver is reported, and delays nothing.
    receiver.answer(|_| Reply::Status(500));
    send("refused").await;
    listening.says("err", "-> 500 Internal Server Error").await;
    receiver.answer(|_| Reply::Cut);
    send("cut").await;
    listening.says("err", "did not answer").await;

    // Ctrl-C is the usual way to end it.
    let pid = i32::try_from(listening.process.id().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGINT).unwrap();
    let Listening { mut process, folder } = listening;
    assert!(process.wait().await.unwrap().success());

    // Bad arguments are the caller's mistake: exit code 2, and a message that names the remedy.
    let arguments = ["listen", "--api", &apis, "--key", "zpk_0000000000000000000000AA"];
    let (code, _, said) = run(&arguments, folder.path()).await;
    assert!(code == Some(2) && said.contains("--key-file"), "{code:?} {said}");
    let (code, _, said) = run(&["listen", "--api", &apis, "--events", "message"], folder.path()).await;
    assert!(code == Some(2) && said.contains("message.received"), "{code:?} {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_while_the_stream_is_cut_before_its_first_event_is_heard_after_all() {
    let cluster = Cluster::start(Options::nodes(3)).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Home").await;
    let ann = number();
    tenant.simulator().phone(&ann, json!({})).await;
    let owner = tenant.owner(cluster.running_node(), &channel.id).await.node;
    let others: Vec<u64> = cluster.node_ids().into_iter().filter(|node| *node != owner).collect();
    let apis = others.iter().map(|node| cluster.node(*node).api).collect::<Vec<_>>().join(",");
    let arguments = ["--api", &apis, "--key", &tenant.key, "--events", "message.sent", "--json"];
    let listening = Listening::start(&arguments).await;
    cluster.kill(others[0]);
    let sent = tenant.api(owner).post(&channel.path("/messages"), text(&ann, "while it is away")).await.expect(202);
    listening.says("out", sent["message_id"].as_str().unwrap()).await;
    listening.says("err", "no event had come before the interruption").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_example_is_sent_to_an_endpoint_by_the_gateway_and_to_a_url_without_it() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    let folder = tempfile::tempdir().unwrap();
    let api = cluster.dev().nodes[0].api.clone();
    let account = ["--api", &api, "--key", &tenant.key];
    let trigger = async |event: &str, more: &[&str]| {
        run(&[&["trigger", event][..], &account, more].concat(), folder.path()).await
    };
    let (code, _, said) = trigger("order.placed", &[]).await;
    assert!(code == Some(2) && said.contains("--forward-to"), "the account has no endpoint: {said}");
    let nowhere = ["trigger", "order.placed", "--api", "127.0.0.1:1", "--key", &tenant.key];
    let (code, _, said) = run(&nowhere, folder.path()).await;
    assert!(code == Some(1) && said.contains("--api"), "nobody answers there: {code:?} {said}");

    let more = json!({ "signing_secret": SECRET });
    let endpoint = tenant.endpoint(&receiver.url("/one"), &["message.sent"], more).await;
    let (code, out, said) = trigger("order.placed", &[]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("order.placed was accepted by endpoint"), "{out}");
    let got = receiver.of("/one", "order.placed").pop().unwrap();
    got.verify(SECRET);
    assert!(got.headers.get("x-gateway-delivery-id").is_none(), "it is no delivery");
    let types = tenant.any().without_key().get("/v1/event-types").await.expect(200);
    let stated = types["data"].as_array().unwrap().iter().find(|row| row["name"] == "order.placed").unwrap();
    assert_eq!(got.json()["data"], stated["example"]["data"]);
    assert_eq!(got.json()["test"], true, "nobody takes it for an order");
    let deliveries = tenant.any().get("/v1/webhook-deliveries").await.expect(200);
    assert_eq!(deliveries["data"], json!([]), "nothing is stored of it");
    trigger("order.placed", &[]).await;
    let ids: Vec<String> = receiver.of("/one", "order.placed").iter().map(Received::event_id).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");

    // With several endpoints, one has to be named. A failing endpoint is reported.
    tenant.endpoint(&receiver.url("/two"), &["*"], json!({})).await;
    let (code, _, said) = trigger("message.sent", &[]).await;
    assert!(code == Some(2) && said.contains("--endpoint"), "{said}");
    receiver.answer(|_| Reply::Status(503));
    let (code, _, said) = trigger("message.sent", &["--endpoint", endpoint["id"].as_str().unwrap()]).await;
    assert!(code == Some(1) && said.contains("503"), "{code:?} {said}");
    receiver.answer(|_| Reply::Status(204));

    let at_home = receiver.url("/home");
    let direct = ["trigger", "message.received", "--forward-to", &at_home, "--signing-secret", SECRET];
    let (code, out, said) = run(&direct, folder.path()).await;
    assert!(code == Some(0) && out.contains("204"), "{code:?} {out} {said}");
    let got = receiver.of("/home", "message.received").pop().unwrap();
    got.verify(SECRET);
    assert_eq!(got.json()["test"], true);

    let (code, _, said) = run(&["trigger", "order.placed", "--forward-to", "127.0.0.1:1"], folder.path()).await;
    assert!(code == Some(1) && said.contains("check that a receiver listens there"), "{code:?} {said}");
    assert_eq!(said.matches("127.0.0.1:1").count(), 1, "it is said once: {said}");

    // The route itself.
    let path = format!("/v1/webhook-endpoints/{}/test", endpoint["id"].as_str().unwrap());
    tenant.any().post(&path, json!({ "event": "message.lost" })).await.expect_issue(&json!(["event"]), "enum");
    let tested: Value = tenant.any().act(&path).await.expect(200);
    assert_eq!(tested["ok"], true);
    assert_eq!(receiver.of("/one", "webhook.test").len(), 1);
}
