//! Operating a cluster: health, metrics, the operator port, configuration errors, and the commands of `gateway dev`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tests::binary::{Finished, gateway, run, run_with};
use tests::cluster::{Cluster, Options, SHARDS, is_running, wait_gone};
use tests::http::{answer, client, string, time};
use tests::room::Room;
use tests::tenant::{CONNECT, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_readiness_are_public_on_every_node() {
    let cluster = Cluster::shared().await;
    let client = client();
    for node in cluster.node_ids() {
        let api = cluster.api(node, &client);
        let health = api.get("/healthz").await.expect(200);
        assert_eq!(health["status"], "ok");
        assert!(health["version"].is_string(), "{health}");
        assert_eq!(health["node"], json!(node), "a node is its integer id everywhere: {health}");
        let ready = api.get("/readyz").await.expect(200);
        assert_eq!(ready["status"], "ready");
        assert!(ready["checks"].is_object(), "{ready}");
        let operator = cluster.operator(node, &client);
        operator.without_key().get("/healthz").await.expect(200);
        operator.without_key().get("/readyz").await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_port_wants_the_operators_token_and_the_customers_port_has_no_such_routes() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    for node in cluster.node_ids() {
        let operator = cluster.operator(node, &tenant.client);
        operator.get("/v1/admin/nodes").await.expect(200);
        operator.without_key().get("/v1/admin/nodes").await.expect_error(401, "auth_missing");
        for wrong in ["nonsense", &tenant.key, &format!("{}x", cluster.dev().operator_token)] {
            let answer = operator.with_key(wrong).get("/v1/admin/nodes").await;
            assert_eq!(answer.status, 401, "{wrong}: {}", answer.text());
        }
        let api = tenant.api(node);
        api.get("/v1/admin/nodes").await.expect_error(404, "not_found");
        let as_operator = api.with_key(&cluster.dev().operator_token);
        assert_eq!(as_operator.get("/v1/channels").await.status, 401);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_sees_nodes_customers_and_where_each_channel_lives() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::with(&cluster, json!({ "email": "ops@example.com" })).await;
    let channel = tenant.paired("Placed").await;
    let path = format!("/v1/admin/channels/{}", channel.id);
    let mut owners = Vec::new();
    for node in cluster.node_ids() {
        let operator = cluster.operator(node, &tenant.client);
        let nodes = operator.get("/v1/admin/nodes").await.expect(200);
        let mut ids: Vec<_> = nodes["data"].as_array().unwrap().iter().map(|row| row["id"].as_u64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [Some(1), Some(2), Some(3)]);
        let leads: Option<u64> = nodes["data"].as_array().unwrap().iter().map(|row| row["leads"].as_u64()).sum();
        assert_eq!(leads, Some(SHARDS as u64), "each shard is led from one place: {nodes}");
        for row in nodes["data"].as_array().unwrap() {
            assert_eq!((&row["state"], row["version"].is_string()), (&json!("ready"), true), "{row}");
            assert!(row["rss_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{row}");
            time(&row["started_at"]);
        }
        let row = operator.get(&path).await.expect(200);
        assert_eq!((&row["id"], &row["status"]), (&json!(channel.id), &json!("connected")));
        owners.push(tenant.owner(node, &channel.id).await);
        let customer = operator.get(&format!("/v1/admin/customers/{}", tenant.customer_id)).await.expect(200);
        assert_eq!((&customer["id"], &customer["email"]), (&json!(tenant.customer_id), &json!("ops@example.com")));
        assert_eq!(customer["channels"], json!({ "total": 1, "connected": 1 }));
        let list = operator.get("/v1/admin/customers").await.expect(200);
        assert!(list["data"].as_array().unwrap().iter().any(|row| row["id"] == json!(tenant.customer_id)));
        let unknown = format!("/v1/admin/customers/{}", uuid::Uuid::new_v4());
        operator.get(&unknown).await.expect_error(404, "not_found");
    }
    assert!(owners.windows(2).all(|pair| pair[0] == pair[1]), "every node says the same: {owners:?}");

    // A channel that the operator disabled can be enabled only by the operator.
    let operator = cluster.operator(1, &tenant.client);
    let disabled = operator.act(&format!("{path}/disable")).await;
    assert!(matches!(disabled.status, 200 | 202), "{}", disabled.text());
    wait_status(&tenant.any(), &channel.id, "disabled_by_admin", CONNECT).await;
    let details = tenant.any().act(&channel.path("/enable")).await.expect_error(403, "insufficient_scope");
    assert_eq!(details, json!({ "required": ["operator"], "granted": ["*"] }));
    let enabled = operator.act(&format!("{path}/enable")).await;
    assert!(matches!(enabled.status, 200 | 202), "{}", enabled.text());
    wait_status(&tenant.any(), &channel.id, "connected", CONNECT).await;

    // Deleting a customer invalidates its keys at once.
    operator.delete(&format!("/v1/admin/customers/{}", tenant.customer_id)).await.expect(202);
    for node in cluster.node_ids() {
        let answer = tenant.api(node).get("/v1/channels").await;
        assert_eq!(answer.status, 401, "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_prometheus_text_that_counts_what_was_done() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Counted").await;
    let recipient = number();
    tenant.simulator().phone(&recipient, json!({})).await;
    let owner = tenant.owner(1, &channel.id).await.node;
    let scrape = async |node: u64| {
        let answer = cluster.operator(node, &tenant.client).get("/metrics").await;
        assert_eq!(answer.status, 200);
        assert!(
            answer.content_type().is_some_and(|kind| kind.starts_with("text/plain")),
            "{:?}",
            answer.content_type()
        );
        answer.text()
    };
    let total = |text: &str, name: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let before = total(&scrape(owner).await, "gateway_sends_total");
    for _ in 0..5 {
        tenant.any().post(&channel.path("/messages"), text(&recipient, "counted")).await.expect(202);
    }
    eventually("the sends are counted", seconds(5), async || {
        let text = scrape(owner).await;
        check(total(&text, "gateway_sends_total") >= before + 5.0, text)
    })
    .await;
    eventually("the owner tells that the channel is connected", seconds(20), async || {
        let text = scrape(owner).await;
        check(total(&text, "gateway_channels{status=\"connected\"}") >= 1.0, text)
    })
    .await;
    for node in cluster.node_ids() {
        // Counters exist once something is counted; gauges are updated every few seconds.
        for name in ["gateway_channels", "gateway_worker_slots", "gateway_webhook_backlog"] {
            eventually(&format!("node {node} tells {name}"), seconds(20), async || {
                let text = scrape(node).await;
                check(text.contains(name), text)
            })
            .await;
        }
        assert!(!scrape(node).await.contains(&channel.id), "no labels per channel");
    }
}

/// The configuration that `gateway dev` wrote for a node.
fn config_of(cluster: &Cluster, node: u64) -> PathBuf {
    let name = format!("node-{node}");
    let mut folders = vec![cluster.data().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "toml") && path.to_string_lossy().contains(&name) {
                return path;
            }
        }
    }
    panic!("no configuration of {name} in {}", cluster.data().display())
}

/// Asserts a refused start: exit code 2, and one line that contains all of `words`.
#[track_caller]
fn expect_refusal(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code(), Some(2), "{finished:?}");
    let mut lines = finished.stderr.lines().filter(|line| !line.trim().is_empty());
    let line = lines.next().unwrap_or_else(|| panic!("nothing said: {finished:?}"));
    assert_eq!(lines.next(), None, "one line, not more: {}", finished.stderr);
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_another_master_key_or_timing_is_refused_before_it_leads_anything() {
    let cluster = Cluster::start(Options::default()).await;
    cluster.kill(3);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("other.key");
    std::fs::write(&key, "ab".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let set = format!("--set=secrets.master_key_file={}", key.display());
    let config = format!("--config={}", config_of(&cluster, 3).display());
    // An owner with another timing would assume other election timeouts than those of its followers.
    let timing = "--set=cluster.timing=wan".to_owned();
    for (set, words) in [
        (set, ["secrets.master_key_file", "are encrypted under"]),
        (timing, ["gateway: cluster.timing", "its shortest election takes 1500 ms, not 300"]),
    ] {
        let (config, at) = (config.clone(), folder.path().to_owned());
        let refused = tokio::task::spawn_blocking(move || run(&["run", &config, &set], &at, seconds(60)));
        let refused = refused.await.unwrap();
        assert!(!refused.stderr.contains("owns the shard"), "{}", refused.stderr);
        assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
        // Log lines about refused peers may follow.
        let is_said = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(refused.stderr.lines().any(is_said), "{}", refused.stderr);
    }
    cluster.restart(&[3]).await;
}

const SHORT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_configuration_is_one_line_that_names_the_key_and_exit_code_two() {
    let cluster = Cluster::shared().await;
    let good = config_of(&cluster, 1);
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &Path| path.display().to_string();
    let checked = |config: &Path, more: &[&str]| {
        let config = at(config);
        let mut args = vec!["config", "check", "--config", &config];
        args.extend(more);
        run(&args, folder.path(), SHORT)
    };
    let data = folder.path().join("fresh");
    let fresh = format!("node.data_dir={}", data.display());
    let fine = checked(&good, &["--set", &fresh]).succeeded();
    assert_eq!(fine.stdout.trim(), "ok");
    assert!(!data.exists(), "a check leaves nothing");

    // Changes of the file, and the key that the error line must name.
    let text = std::fs::read_to_string(&good).unwrap();
    let broken = folder.path().join("broken.toml");
    let write = |text: String| std::fs::write(&broken, text).unwrap();
    write(format!("{text}\n[surprise]\nx = 1\n"));
    expect_refusal(&checked(&broken, &[]), &["surprise"]);
    write(text.replacen("[api]", "[api]\nlisten_on = \"x\"", 1));
    expect_refusal(&checked(&broken, &[]), &["api.listen_on"]);
    write(format!("{text}\n= = =\n"));
    expect_refusal(&checked(&broken, &[]), &["broken.toml"]);
    expect_refusal(&checked(&folder.path().join("missing.toml"), &[]), &["missing.toml"]);

    let values = [
        ("node.id=0", "node.id"),
        ("node.id=x", "node.id"),
        ("api.listen=everywhere", "api.listen"),
        ("api.base_url=ftp://x", "api.base_url"),
        ("ops.token=short", "ops.token"),
        ("limits.customer.burst=-1", "limits.customer"),
        ("history.retention_days=1000", "history.retention_days"),
        ("log.format=xml", "log.format"),
        ("webhooks.allow_cidrs=[\"10.0.0.0/99\"]", "webhooks.allow_cidrs"),
        ("peer.ca_file=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("nonsense=1", "nonsense"),
    ];
    for (value, name) in values {
        expect_refusal(&checked(&good, &["--set", value]), &[name]);
    }
    let config = at(&good);
    let args = ["config", "check", "--config", &config];
    let environment = [("GATEWAY__NODE__WEIGHT", "heavy")];
    expect_refusal(&run_with(&args, folder.path(), SHORT, &environment), &["node.weight"]);

    // A missing configuration is most likely a forgotten flag.
    for args in [&["run"][..], &["config", "check"]] {
        expect_refusal(&run(args, folder.path(), SHORT), &["none was given", "--config", "config example"]);
    }

    // The example is a valid configuration except for its files.
    let example = run(&["config", "example"], folder.path(), SHORT).succeeded();
    assert!(example.stdout.contains("[node]"), "{}", example.stdout);

    // Output that cannot be written is an error, and so is a port without a listener; both messages name the cause.
    let full = Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let lost = Command::new(gateway()).args(["config", "example"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&lost.stderr);
    assert!(lost.status.code() == Some(1) && said.contains("standard output"), "{lost:?}");
    let nobody = ["status", "--ops", "http://127.0.0.1:1", "--token", "0123456789abcdef"];
    let nobody = run(&nobody, folder.path(), SHORT);
    assert!(nobody.code() == Some(1) && nobody.stderr.contains("with --ops"), "{nobody:?}");
    assert_eq!(nobody.stderr.matches("127.0.0.1:1/").count(), 1, "{nobody:?}");
    let short = run(&["token", "--expires", "1s"], folder.path(), SHORT);
    assert!(short.code() == Some(2) && short.stderr.contains("--expires"), "{short:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_can_be_told_to_fail_does_not_start_where_other_machines_reach_it() {
    let folder = tempfile::tempdir().unwrap();
    let version = run(&["--version"], folder.path(), SHORT).succeeded().stdout;
    assert!(version.contains("with failpoints: a build for tests"), "tests are built with them: {version}");
    let config = config_of(&Cluster::shared().await, 2).display().to_string();
    for listener in ["api", "ops", "peer"] {
        let open = format!("{listener}.listen=0.0.0.0:9");
        let refused = run(&["run", "--config", &config, "--set", &open], folder.path(), SHORT);
        expect_refusal(&refused, &[&format!("{listener}.listen (0.0.0.0:9)"), "cargo build --release", "FAILPOINTS"]);
    }
    // If all listeners are behind a local load balancer, the public URL shows that this is no test.
    let public = ["run", "--config", &config, "--set", "api.base_url=https://gateway.example.com"];
    let refused = run(&public, folder.path(), SHORT);
    expect_refusal(&refused, &["api.base_url (https://gateway.example.com)", "cargo build --release"]);
    // A node that knows that it is in a test gets to the next error: its ports are taken.
    let args = ["run", "--config", &config, "--set", "api.listen=0.0.0.0:9"];
    let told = run_with(&args, folder.path(), SHORT, &[("FAILPOINTS", "")]);
    assert!(told.code() == Some(2) && !told.stderr.contains("FAILPOINTS"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_and_a_foreign_folder_refuse_the_start() {
    let cluster = Cluster::start(Options::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let config = config_of(&cluster, 2).display().to_string();
    let data = folder.path().join("data").display().to_string();
    let started = |more: &[&str]| {
        let mut args = vec!["run", "--config", &config];
        args.extend(more);
        run(&args, folder.path(), SHORT)
    };
    // The running node 2 has all ports of node 2.
    let fresh = format!("node.data_dir={data}");
    let taken = started(&["--set", &fresh]);
    assert_eq!(taken.code(), Some(2), "{taken:?}");
    let named = ["api.listen", "ops.listen", "peer.listen"].iter().any(|key| taken.stderr.contains(key));
    assert!(named, "{}", taken.stderr);

    // A node refuses the data folder of another node, however it is named.
    cluster.command(&["dev", "stop", "1"]).await.succeeded();
    cluster.command(&["dev", "stop", "2"]).await.succeeded();
    let foreign = format!("node.data_dir={}", cluster.node(1).data.display());
    let refused = started(&["--set", &foreign]);
    expect_refusal(&refused, &[&cluster.node(1).data.display().to_string()]);
    cluster.restart(&[1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_stops_and_starts_its_nodes_and_takes_everything_down() {
    let cluster = Cluster::start(Options::default()).await;
    let client = client();
    let dev = cluster.dev();
    assert_eq!(dev.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [1, 2, 3]);
    let port = |url: &str| url.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let base = port(&dev.simulator) - 90;
    for node in &dev.nodes {
        let id = u16::try_from(node.id).unwrap();
        assert_eq!((port(&node.api), port(&node.ops), port(&node.peer)), (base + id, base + 100 + id, base + 200 + id));
        assert!(node.data.is_dir() && node.log.is_file(), "{node:?}");
        assert!(is_running(node.pid));
    }
    // The demo customer's key works, and its number of channels is unlimited.
    let demo = cluster.api(1, &client).with_key(&dev.api_key);
    demo.get("/v1/channels").await.expect(200);
    let customer = cluster.operator(1, &client).get(&format!("/v1/admin/customers/{}", dev.customer_id)).await;
    assert_eq!(customer.expect(200)["plan"]["channel_limit"], Value::Null);

    // One node is shut down, one is killed, and both return as new processes.
    for (node, kill) in [(2, false), (3, true)] {
        let before = cluster.node(node).pid;
        let id = node.to_string();
        let args: Vec<&str> = if kill { vec!["dev", "stop", &id, "--kill"] } else { vec!["dev", "stop", &id] };
        cluster.command(&args).await.succeeded();
        wait_gone(before, seconds(5));
        let gone = tests::http::try_answer(cluster.api(node, &client).request(Method::GET, "/healthz")).await;
        assert!(gone.is_err());
        // Two of three nodes keep working.
        demo.get("/v1/channels").await.expect(200);
        eventually("the operator sees that the node is down", seconds(20), async || {
            let nodes = cluster.operator(1, &client).get("/v1/admin/nodes").await.expect(200);
            let states: Vec<_> =
                nodes["data"].as_array().unwrap().iter().map(|row| (&row["id"], &row["state"])).collect();
            let shown = |id: u64| if id == node { "down" } else { "ready" };
            check(states.iter().all(|(id, state)| **state == shown(id.as_u64().unwrap())), nodes.to_string())
        })
        .await;
        cluster.command(&["dev", "start", &id, "--wait"]).await.succeeded();
        let after = cluster.node(node);
        assert_ne!(after.pid, before);
        assert!(is_running(after.pid));
        cluster.api(node, &client).get("/readyz").await.expect(200);
    }

    // The customer's data survives an orderly shutdown of all nodes.
    let made = demo.post("/v1/channels", json!({ "name": "Stays" })).await.expect(201);
    for node in ["1", "2", "3"] {
        cluster.command(&["dev", "stop", node]).await.succeeded();
    }
    cluster.restart(&[1, 2, 3]).await;
    demo.get(&format!("/v1/channels/{}", string(&made["id"]))).await.expect(200);

    let dev = cluster.dev();
    cluster.command(&["dev", "down"]).await.succeeded();
    for pid in dev.nodes.iter().map(|node| node.pid).chain([dev.simulator_pid]) {
        wait_gone(pid, seconds(5));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_names_the_port_that_is_taken_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    // The room keeps the other ports free from connections of other tests.
    let room = tokio::task::spawn_blocking(|| Room::take(1)).await.unwrap();
    let port = room.base_port + 90;
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for offset in [1, 101, 201, 90, 91] {
        let data = folder.path().join(format!("dev-{offset}")).display().to_string();
        let base = (port - offset).to_string();
        let args = ["dev", "--detach", "--nodes", "1", "--data", &data, "--base-port", &base];
        let refused = run(&args, folder.path(), seconds(60));
        assert_eq!(refused.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(&port.to_string()), "{}", refused.stderr);
        assert!(!Path::new(&data).join("dev.json").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_removed_is_not_started_and_the_others_go_on_without_it() {
    let cluster = Cluster::start(Options::default()).await;
    cluster.command(&["node", "remove", "3", "--force", "--yes", "--wait"]).await.succeeded();
    cluster.command(&["dev", "stop", "3"]).await.succeeded();
    let refused = cluster.command(&["dev", "start", "3"]).await;
    assert!(
        refused.code() == Some(2) && refused.stderr.contains("node 3: was removed from this cluster"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("gateway join"), "{refused:?}");

    cluster.command(&["dev", "down"]).await.succeeded();
    let again = cluster.command(&["dev", "--detach"]).await.succeeded();
    assert!(again.stderr.contains("node 3 was removed"), "{again:?}");
    assert_eq!(cluster.node_ids(), [1, 2]);
    let client = client();
    for node in [1, 2] {
        cluster.api(node, &client).get("/readyz").await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_cluster_in_the_same_folder_is_the_same_cluster_again() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Kept").await;
    let linked = tenant.paired("Linked").await;
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let sent =
        string(&tenant.any().post(&linked.path("/messages"), text(&to, "before")).await.expect(202)["message_id"]);
    let base = cluster.dev().simulator.rsplit(':').next().unwrap().parse::<u16>().unwrap() - 90;
    cluster.command(&["dev", "down"]).await.succeeded();
    let base = format!("--base-port={base}");
    cluster.command(&["dev", "--detach", "--nodes=1", &base]).await.succeeded();
    let request = tenant.any().request(Method::GET, &format!("/v1/channels/{channel}"));
    answer(request).await.expect(200);
    // The phones keep their links, so nobody has to scan again.
    wait_status(&tenant.any(), &linked.id, "connected", CONNECT).await;
    let inbox = tenant.simulator().inbox(&to).await;
    assert!(inbox.len() == 1 && inbox[0]["id"] == json!(sent), "{inbox:?}");
    tenant.any().post(&linked.path("/messages"), text(&to, "after")).await.expect(202);
    assert_eq!(tenant.simulator().stat("conflicts").await, 0);

    // An unreadable state is reported by name, and the attempt leaves it unchanged.
    cluster.command(&["dev", "down"]).await.succeeded();
    let state = cluster.data().join("simulator/state");
    let whole = std::fs::read(&state).unwrap();
    std::fs::write(&state, &whole[..whole.len() - 1]).unwrap();
    let refused = cluster.command(&["dev", "--detach", "--nodes=1", &base]).await;
    assert!(refused.code() != Some(0) && refused.stderr.contains("simulator/state"), "{refused:?}");
    std::fs::write(&state, &whole).unwrap();
    cluster.command(&["dev", "--detach", "--nodes=1", &base]).await.succeeded();
    wait_status(&tenant.any(), &linked.id, "connected", CONNECT).await;

    // A single node is healthy, although it can be neither lost nor drained.
    eventually("the cluster is well", seconds(30), async || {
        let status = cluster.command(&["status"]).await;
        check(status.code() == Some(0), format!("{status:?}"))
    })
    .await;
    let checked = cluster.command(&["check"]).await;
    assert!(checked.code() == Some(1) && checked.stdout.contains("not every node can be lost now"), "{checked:?}");
    expect_refusal(&cluster.command(&["drain", "1"]).await, &["no other node is ready", "stop this one"]);
}
