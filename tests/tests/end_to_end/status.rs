//! The deployment's own status while nodes die and leave.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{client, time};
use tests::wait::{check, eventually, seconds};

/// The status of each component.
fn components(summary: &Value) -> Vec<(&str, &str)> {
    let rows = summary["components"].as_array().unwrap();
    rows.iter().map(|row| (row["name"].as_str().unwrap(), row["status"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_summary_and_the_probes_tell_of_a_dead_node_and_of_one_that_leaves() {
    let cluster = Cluster::start(Options::default().arg("--set=drain.initial_wait=4s")).await;
    let client = client();
    let at = |node: u64| cluster.api(node, &client);
    let (dead, leaving, witness) = (cluster.node_ids()[0], cluster.node_ids()[1], cluster.node_ids()[2]);
    let names = ["api", "channels", "webhooks", "media", "events"];
    let summary = |status: &'static str, ready: u64| {
        let api = at(witness);
        async move {
            eventually(&format!("the summary says {status}"), seconds(30), async || {
                let summary = api.get("/v1/status/summary").await.expect(200);
                let told = summary["status"] == status && summary["nodes"] == json!({ "ready": ready, "total": 3 });
                check(told, summary.to_string()).map(|()| summary)
            })
            .await
        }
    };
    let whole = summary("operational", 3).await;
    assert_eq!(components(&whole), names.map(|name| (name, "operational")));
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&whole), ["components", "nodes", "status", "updated_at"], "nothing of any tenant");
    assert!(
        whole["components"].as_array().unwrap().iter().all(|row| time(&row["since"]) <= time(&whole["updated_at"]))
    );
    assert_eq!(at(witness).get("/v1/status/summary").await.expect(200), whole, "it is kept for five seconds");

    cluster.kill(dead);
    let hurt = summary("degraded", 2).await;
    assert_eq!(components(&hurt)[0], ("api", "operational"));
    eventually("the others are ready", seconds(30), async || {
        let answer = at(witness).get("/readyz").await;
        check(answer.status == 200, answer.text())
    })
    .await;
    at(witness).get("/healthz").await.expect(200);
    cluster.restart(&[dead]).await;
    summary("operational", 3).await;

    // A leaving node reports so while it still answers.
    let id = leaving.to_string();
    let stop = ["dev", "stop", &id];
    let stop = cluster.command(&stop);
    let watch = async {
        let answer = eventually("the node is not ready", seconds(20), async || {
            let answer = at(leaving).get("/readyz").await;
            check(answer.status == 503, answer.text()).map(|()| answer)
        })
        .await;
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(at(leaving).get("/healthz").await.expect(200)["status"], "ok");
        answer.json()
    };
    let (stopped, told) = futures::join!(stop, watch);
    stopped.succeeded();
    let checks = json!({ "store": "ok", "cluster": "ok", "leases": "ok", "drain": "yes" });
    assert_eq!(told, json!({ "status": "not_ready", "checks": checks }));
    summary("degraded", 2).await;
}
