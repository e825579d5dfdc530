//! Tests of the pages in a real browser: runs `console/tests` in Node.js with Debian's Chromium.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tests::binary;
use tests::cluster::{Cluster, Options};
use tests::member::{Member, PASSWORD};
use tests::sources::checkout;
use tests::tenant::{Tenant, number};

/// How long a file of tests may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

const CHROMIUM: &str = "/usr/bin/chromium";

/// For how long `hour.test.mjs` uses the console, if a minute or more is requested.
fn minutes() -> Duration {
    let asked = std::env::var("GATEWAY_CONSOLE_MINUTES").ok().and_then(|minutes| minutes.parse::<u64>().ok());
    Duration::from_secs(asked.unwrap_or_default() * 60)
}

fn console() -> PathBuf {
    checkout().join("console")
}

/// The requirement that this machine lacks, if any; `make to-test` installs it.
fn missing() -> Option<&'static str> {
    let has_node = std::process::Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_node {
        Some("nodejs")
    } else if !console().join("node_modules/playwright-core").exists() {
        Some("console/node_modules")
    } else if !Path::new(CHROMIUM).exists() {
        Some("chromium")
    } else {
        None
    }
}

/// Runs Node.js with these arguments in the folder of the console.
async fn node(args: &[&str], environment: &[(&str, String)]) -> (bool, String) {
    let mut command = tokio::process::Command::new("node");
    command.args(args).current_dir(console()).stdin(Stdio::null()).kill_on_drop(true);
    command.envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
    let patience = PATIENCE + minutes();
    let finished = tokio::time::timeout(patience, command.output()).await;
    let output = finished.unwrap_or_else(|_| panic!("{args:?} has not ended within {patience:?}")).unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Reports a skipped test. In CI, which has everything, this fails.
fn skips(what: &str) -> bool {
    assert!(std::env::var_os("CI").is_none(), "{what} is missing; make to-test installs it");
    eprintln!("skipped, for lack of {what}: make to-test installs it");
    true
}

/// Whether a test that needs no browser is skipped.
fn lacks_node() -> bool {
    missing().filter(|what| *what != "chromium").is_some_and(skips)
}

async fn browse(file: &str) {
    browse_on(Options::default().calm(), file).await;
}

async fn browse_on(options: Options, file: &str) {
    if missing().is_some_and(skips) {
        return;
    }
    let options = options.arg("--set=webhooks.schedule=[\"0s\",\"1s\",\"1s\",\"2s\"]");
    let cluster = Cluster::start(options.arg("--set=webhooks.note_every=\"1s\"")).await;
    browse_at(&cluster, file).await;
}

async fn browse_at(cluster: &Cluster, file: &str) {
    let tenant = Tenant::new(cluster).await;
    let (owner, viewer) = (Member::new(&tenant, "owner").await, Member::new(&tenant, "viewer").await);
    let dev = cluster.dev();
    let place = json!({
        "nodes": dev.nodes.iter().map(|node| json!({ "id": node.id, "api": node.api, "ops": node.ops })).collect::<Vec<_>>(),
        "simulator": dev.simulator,
        "gateway": binary::gateway(),
        "data": cluster.data(),
        "operatorToken": dev.operator_token,
        "key": tenant.key,
        "owner": owner.email,
        "viewer": viewer.email,
        "password": PASSWORD,
        "phones": (0..8).map(|_| number()).collect::<Vec<_>>(),
        "chromium": CHROMIUM,
    });
    let (passed, said) = node(&["--test", "--test-reporter=spec", file], &[("GATEWAY_PLACE", place.to_string())]).await;
    assert!(passed, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_do_their_work_in_a_browser() {
    browse("tests/members.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_do_their_work_in_a_browser() {
    browse("tests/operators.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codes_that_pass_and_refusals_are_told_in_a_browser() {
    browse_on(Options::default(), "tests/codes.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_go_on_while_nodes_come_and_go_and_clocks_turn() {
    browse_on(Options::default(), "tests/cluster.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_job_is_done_by_the_keyboard_alone() {
    browse("tests/keyboard.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn use_without_a_pause_costs_the_customers_programs_nothing() {
    let options = Options::default().calm().default_limits().arg("--ip-burst=1000000").arg("--ip-refill=1000000");
    browse_on(options, "tests/hour.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_full_of_data_are_pictures_for_the_documents() {
    browse("tests/pictures.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "of test-all: it measures the processor, which wants a quiet machine"]
async fn long_lists_many_events_and_slow_networks_stay_within_what_is_allowed() {
    browse("tests/speed.test.mjs").await;
}

#[tokio::test]
async fn what_the_pages_work_out_needs_no_browser() {
    if lacks_node() {
        return;
    }
    let (passed, said) = node(&["--test", "tests/pure.test.mjs"], &[]).await;
    assert!(passed, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documentation_opens_at_once_in_a_browser() {
    if missing().is_some_and(skips) {
        return;
    }
    browse_at(&Cluster::shared().await, "tests/docs.test.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_types_of_the_pages_are_those_of_the_documents() {
    if lacks_node() {
        return;
    }
    let cluster = Cluster::shared().await;
    let node = &cluster.dev().nodes[0];
    let folder = tempfile::tempdir().unwrap();
    let mut documents = Vec::new();
    for (door, port) in [("members", &node.api), ("operators", &node.ops)] {
        let document = tests::http::client().get(format!("{port}/openapi.json")).send().await.unwrap();
        let path = folder.path().join(format!("{door}.json"));
        std::fs::write(&path, document.bytes().await.unwrap()).unwrap();
        documents.push(path.display().to_string());
    }
    let (fits, said) = self::node(&["types.mjs", "--check", &documents[0], &documents[1]], &[]).await;
    assert!(fits, "{said}; node console/types.mjs MEMBERS.json OPERATORS.json writes them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_in_the_binary_are_what_the_sources_give() {
    if lacks_node() {
        return;
    }
    let (fits, said) = node(&["build.mjs", "--check"], &[]).await;
    assert!(fits, "{said}");
}
