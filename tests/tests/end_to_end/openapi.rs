//! The document at `GET /openapi.json` is precise enough for tools: schemathesis passes with all its checks, and a
//! client generated from it pairs and sends. `make tools` installs the tools.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{client, string};
use tests::sources::checkout;
use tests::tenant::{Tenant, number};
use tokio::process::Command;

/// How long a tool may take on a busy machine.
const TOOL: Duration = Duration::from_secs(7_200);

/// The folder into which `make tools` installs the tools: `openapi-tools` in the target folder, or `OPENAPI_TOOLS`.
fn tools() -> PathBuf {
    if let Some(path) = std::env::var_os("OPENAPI_TOOLS") {
        return path.into();
    }
    let running = std::env::current_exe().unwrap();
    // The running test is target/debug/deps/end_to_end-0123.
    running.ancestors().nth(3).unwrap().join("openapi-tools")
}

/// Runs a tool until it ends.
///
/// # Panics
/// If the tool fails or does not end, with its output.
pub async fn run(tool: &str, arguments: &[&str], folder: &Path, environment: &[(&str, &str)]) {
    let programs = tools().join("bin");
    let program = programs.join(tool);
    assert!(program.is_file(), "{} is missing: run `make tools`", program.display());
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    // Retries crashes of Debian's Python 3.11.2 (python/cpython issue 106905), which are no result.
    for _ in 0..3 {
        if ran(&program, &path, arguments, folder, environment).await {
            return;
        }
    }
    panic!("{tool} fell over itself three times");
}

/// Runs a program until it ends; `false` if it failed with that crash of Python.
async fn ran(program: &Path, path: &str, arguments: &[&str], folder: &Path, environment: &[(&str, &str)]) -> bool {
    let tool = program.display();
    let running = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("PATH", path)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(TOOL, running).await.unwrap_or_else(|_| panic!("{tool} did not end in {TOOL:?}"));
    let done = done.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    let fell_over = !done.status.success() && out.contains("AST constructor recursion depth mismatch");
    assert!(done.status.success() || fell_over, "{tool}: {}\n{out}\n{err}", done.status);
    !fell_over
}

pub fn sources() -> PathBuf {
    checkout().join("tests/openapi")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing_with_all_its_checks() {
    schemathesis("2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "of test-all: takes half an hour"]
async fn schemathesis_finds_nothing_in_many_examples() {
    schemathesis("50").await;
}

/// Tests every route with this number of valid and invalid examples.
async fn schemathesis(examples: &str) {
    // Runs on its own cluster, since its sign-ups use up the limit of this address, which other tests need.
    let cluster = Cluster::start(Options::default().calm()).await;
    let tenant = Tenant::new(&cluster).await;
    let (channel, other) = (tenant.paired("main").await, tenant.channel("other").await);
    let phone = number();
    tenant.simulator().phone(&phone, json!({})).await;
    let dev = cluster.dev();
    let (api, page) = (&dev.nodes[0].api, format!("{}/docs", dev.nodes[1].api));
    let made = |made: Value| string(&made["id"]);
    let endpoint = made(tenant.endpoint(&page, &["message.sent"], json!({})).await);
    let other_endpoint = made(tenant.endpoint(&page, &["qr.updated"], json!({})).await);
    let other_key = made(tenant.any().post("/v1/api-keys", json!({ "name": "other" })).await.expect(201));
    let media = tenant.any().post(&channel.path("/media/from-url"), json!({ "url": page })).await.expect(201);
    let token = string(&media["url"]).rsplit('/').next().unwrap().to_owned();
    let sent = json!({ "type": "text", "to": phone, "text": "hello" });
    let message = string(&tenant.any().post(&channel.path("/messages"), sent).await.expect(202)["message_id"]);
    let folder = tempfile::tempdir().unwrap();
    let config = sources().join("schemathesis.toml").display().to_string();
    let document = format!("{api}/openapi.json");
    let environment = [
        ("GATEWAY_KEY", tenant.key.as_str()),
        ("GATEWAY_CHANNEL", channel.id.as_str()),
        ("GATEWAY_OTHER_CHANNEL", other.as_str()),
        ("GATEWAY_ENDPOINT", endpoint.as_str()),
        ("GATEWAY_OTHER_ENDPOINT", other_endpoint.as_str()),
        ("GATEWAY_OTHER_KEY", other_key.as_str()),
        ("GATEWAY_MEDIA", &string(&media["id"])),
        ("GATEWAY_MEDIA_TOKEN", token.as_str()),
        ("GATEWAY_MESSAGE", message.as_str()),
        ("GATEWAY_NUMBER", phone.as_str()),
        ("GATEWAY_PAGE", page.as_str()),
        ("PYTHONPATH", &sources().display().to_string()),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    let arguments = ["--config-file", &config, "run", &document, "--no-color", "--max-examples", examples];
    run("schemathesis", &arguments, folder.path(), &environment).await;
}

/// Writes the document of a node, and a client generated from it, to a folder.
pub async fn generate_client(api: &str, folder: &Path) {
    let document = client().get(format!("{api}/openapi.json")).send().await.unwrap().bytes().await.unwrap();
    std::fs::write(folder.join("openapi.json"), document).unwrap();
    let generate = ["generate", "--path", "openapi.json", "--meta", "none", "--output-path", "gateway_client"];
    run("openapi-python-client", &generate, folder, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_client_pairs_a_channel_and_sends() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let (phone, friend) = (number(), number());
    for number in [&phone, &friend] {
        tenant.simulator().phone(number, json!({})).await;
    }
    let dev = cluster.dev();
    let api = &dev.nodes[0].api;
    let folder = tempfile::tempdir().unwrap();
    generate_client(api, folder.path()).await;
    let environment = [
        ("GATEWAY_API", api.as_str()),
        ("GATEWAY_KEY", tenant.key.as_str()),
        ("GATEWAY_PHONE", phone.as_str()),
        ("GATEWAY_NUMBER", friend.as_str()),
        ("SIMULATOR", dev.simulator.as_str()),
        ("PYTHONPATH", folder.path().to_str().unwrap()),
    ];
    run("python", &[sources().join("client.py").to_str().unwrap()], folder.path(), &environment).await;
}
