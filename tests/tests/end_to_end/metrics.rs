//! The metrics of a live node: each has a help text, and the dashboard and alerts query only existing ones.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{client, string, try_answer};
use tests::network::is_whatsapp;
use tests::receiver::{Receiver, Reply};
use tests::sources::checkout;
use tests::tenant::{Tenant, number, text};
use tests::wait::{eventually, seconds};
use tokio::time::Instant;

const PREFIXES: [&str; 4] = ["gateway_", "raft_", "process_", CLIENT];

/// Prefixes of metrics of the real network's driver and of its client library, which exist only with the driver.
const DRIVER: &str = "gateway_whatsapp_";
const CLIENT: &str = "wa_";

/// More label values than a label with a fixed set of values can have.
const FEW: usize = 200;

/// The metrics of a cluster, parsed as by Prometheus.
#[derive(Default)]
struct Scrape {
    types: BTreeSet<String>,
    helps: BTreeMap<String, String>,
    /// Names of samples, including the suffixes of histograms.
    samples: BTreeSet<String>,
    /// The values of each label of each metric.
    labels: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Scrape {
    async fn take(cluster: &Cluster) -> Self {
        let mut scrape = Self::default();
        for node in cluster.node_ids() {
            let answer = cluster.operator(node, &client()).get("/metrics").await;
            assert_eq!(answer.status, 200);
            answer.text().lines().for_each(|line| scrape.read(line));
        }
        scrape
    }

    fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", name, _] => drop(self.types.insert(name.to_owned())),
            ["#", "HELP", name, text] => drop(self.helps.insert(name.to_owned(), text.to_owned())),
            _ if line.is_empty() => {}
            _ => self.read_sample(line),
        }
    }

    fn read_sample(&mut self, line: &str) {
        let name = line.split(['{', ' ']).next().unwrap().to_owned();
        let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(labels, _)| labels);
        for label in labels.split("\",") {
            if let Some((key, value)) = label.split_once("=\"") {
                let place = (name.clone(), key.to_owned());
                self.labels.entry(place).or_default().insert(value.trim_end_matches('"').to_owned());
            }
        }
        self.samples.insert(name);
    }
}

/// The metrics that a text with queries names.
fn named_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix))).map(str::to_owned).collect()
}

/// The label selectors of a query: metric, label, and the literal values.
fn selected_in(query: &str) -> Vec<(String, String, Vec<String>)> {
    let mut found = Vec::new();
    for (before, rest) in query.match_indices('{').map(|(at, _)| query.split_at(at)) {
        let name = before.rsplit(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).next().unwrap();
        // Braces also have other uses.
        if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let (selectors, _) = rest[1..].split_once('}').unwrap_or_else(|| panic!("no }} in {query}"));
        for selector in selectors.split("\",") {
            let (label, value) = selector.split_once('=').unwrap_or_else(|| panic!("{selector} in {query}"));
            let values = value.trim_start_matches('~').trim_matches('"').split('|').map(str::to_owned);
            // Patterns and dashboard variables are no literal values.
            let outright = values.filter(|value| value.chars().all(|letter| letter.is_alphanumeric() || letter == '_'));
            found.push((name.to_owned(), label.trim_end_matches('!').to_owned(), outright.collect()));
        }
    }
    found
}

#[test]
fn what_a_query_asks_of_labels_is_read() {
    let of = |metric: &str, label: &str, values: &[&str]| {
        (metric.to_owned(), label.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(
        selected_in(r#"rate(gateway_a{x=~"b|c",instance=~"$node"}[5m]) / raft_b{what="free"} > {{ 1 }}"#),
        [of("gateway_a", "x", &["b", "c"]), of("gateway_a", "instance", &[]), of("raft_b", "what", &["free"])]
    );
}

/// All queries of a dashboard.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| queries(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

fn deployed(path: &str) -> String {
    let path = checkout().join("deploy").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[tokio::test]
async fn every_metric_says_what_it_is_and_those_that_are_asked_for_are_there() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/"), &["message.received", "message.sent"], json!({})).await;
    let channel = tenant.paired("Sales").await;
    let ann = number();
    tenant.simulator().phone(&ann, json!({})).await;
    let sent = tenant.any().post(&channel.path("/messages"), text(&ann, "hello")).await.expect(202);
    receiver.wait_message("message.sent", &string(&sent["message_id"]), seconds(20)).await;
    let said = tenant.simulator().text(&ann, &channel.number, "hi", 1).await;
    receiver.wait_message("message.received", &said[0], seconds(20)).await;

    // Invented methods must not become label values.
    for n in 0..=FEW {
        let method = Method::from_bytes(format!("METHOD{n}").as_bytes()).unwrap();
        try_answer(tenant.any().request(method, "/v1/channels")).await.unwrap();
    }

    let mut asked = named_in(&deployed("prometheus/alerts.yml"));
    let dashboard: Value = serde_json::from_str(&deployed("grafana/gateway.json")).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() > 20, "a dashboard has panels");
    asked.extend(found.iter().flat_map(|query| named_in(query)));
    asked.extend(named_in(&dashboard["templating"].to_string()));
    let is_elsewhere = |metric: &str| metric.starts_with(DRIVER) && !is_whatsapp();
    asked.retain(|metric| !is_elsewhere(metric));

    // Gauges are set every few seconds.
    let scrape = eventually("all metrics that are asked for are exported", seconds(20), async || {
        let scrape = Scrape::take(&cluster).await;
        let missing: Vec<&String> = asked.iter().filter(|name| !scrape.samples.contains(*name)).collect();
        if missing.is_empty() { Ok(scrape) } else { Err(format!("{missing:?}")) }
    })
    .await;

    let alerts = deployed("prometheus/alerts.yml");
    for (metric, label, values) in found.iter().chain([&alerts]).flat_map(|text| selected_in(text)) {
        // Prometheus adds these labels.
        if ["instance", "job"].contains(&label.as_str()) || is_elsewhere(&metric) {
            continue;
        }
        let known = scrape.labels.get(&(metric.clone(), label.clone()));
        let known = known.unwrap_or_else(|| panic!("{metric} has no label {label}"));
        // A counter with an outcome as its label exists once the outcome has occurred.
        let missing: Vec<&String> = values.iter().filter(|value| !known.contains(*value)).collect();
        assert!(missing.is_empty() || metric.ends_with("_total"), "{metric} has no {label} {missing:?}: {known:?}");
    }

    let silent: Vec<&String> =
        scrape.types.iter().filter(|name| scrape.helps.get(*name).is_none_or(String::is_empty)).collect();
    assert!(silent.is_empty(), "without a help text: {silent:?}");
    let foreign: Vec<&String> =
        scrape.types.iter().filter(|name| !PREFIXES.iter().any(|prefix| name.starts_with(prefix))).collect();
    assert!(foreign.is_empty(), "named otherwise: {foreign:?}");
    for ((metric, label), values) in &scrape.labels {
        assert!(values.len() < FEW, "{metric} has {} values of {label}", values.len());
        let tenants = values.iter().filter(|value| value.contains(&tenant.customer_id) || value.contains(&channel.id));
        assert_eq!(tenants.count(), 0, "{metric} names a tenant in {label}");
    }
}

/// The value of a node's series, named as in the export; NaN if it does not exist.
async fn value(cluster: &Cluster, node: u64, series: &str) -> f64 {
    let text = cluster.operator(node, &client()).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(f64::NAN, |number| number.parse().unwrap())
}

/// Waits until a series of node 1 is as wanted. Some are updated every 15 s.
pub async fn becomes(cluster: &Cluster, series: &str, wanted: impl Fn(f64) -> bool) {
    eventually(series, seconds(60), async || {
        let found = value(cluster, 1, series).await;
        if wanted(found) { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_operators_forget_is_measured_for_their_alerts() {
    let cluster = Cluster::start(Options::nodes(2)).await;
    let tenant = Tenant::new(&cluster).await;
    let operator = cluster.operator(1, &client());

    // Events that have not happened yet count as 0, and are not missing.
    for name in ["gateway_send_seconds", "gateway_failover_seconds", "gateway_inbound_to_webhook_seconds"] {
        let count = value(&cluster, 1, &format!("{name}_count")).await;
        assert!(count >= 0.0, "{name} is not there");
    }

    // Without a backup, its age is the age of the cluster. Handing out the last part of a backup resets it.
    becomes(&cluster, "gateway_backup_age_seconds", |age| age > 0.0).await;
    let asked = Instant::now();
    assert_eq!(operator.get("/v1/admin/backup/groups/0").await.status, 200);
    becomes(&cluster, "gateway_backup_age_seconds", |age| age <= asked.elapsed().as_secs_f64() + 0.1).await;

    // An endpoint whose receiver answers 410 is disabled.
    becomes(&cluster, r#"gateway_webhook_endpoints{state="gone"}"#, |count| count == 0.0).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(410));
    tenant.endpoint(&receiver.url("/"), &["*"], json!({})).await;
    becomes(&cluster, r#"gateway_webhook_endpoints{state="enabled"}"#, |count| count == 1.0).await;
    tenant.paired("Gone").await;
    becomes(&cluster, r#"gateway_webhook_endpoints{state="gone"}"#, |count| count == 1.0).await;
    becomes(&cluster, r#"gateway_webhook_endpoints{state="enabled"}"#, |count| count == 0.0).await;

    let key = r#"gateway_certificate_seconds_left{key="peer.cert_file"}"#;
    becomes(&cluster, key, |left| (80.0 * 86_400.0..91.0 * 86_400.0).contains(&left)).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let clock = value(&cluster, 1, "gateway_clock_seconds").await;
    assert!((clock - now).abs() < 30.0, "{clock} at {now}");

    becomes(&cluster, "gateway_draining", |draining| draining == 0.0).await;
    operator.post("/v1/admin/nodes/1/drain", json!({ "force": true })).await.expect(202);
    becomes(&cluster, "gateway_draining", |draining| draining == 1.0).await;
    operator.act("/v1/admin/nodes/1/undrain").await.expect(202);
    becomes(&cluster, "gateway_draining", |draining| draining == 0.0).await;
}
