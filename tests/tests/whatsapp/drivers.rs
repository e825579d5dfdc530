//! A cluster has one driver: channels of two networks under one owner could not log in.

use std::fs;

use tests::binary;
use tests::wait::seconds;

use crate::cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_another_driver_than_those_that_run_refuses_to_start() {
    let cluster = cluster(3).await;
    cluster.kill(3);
    let own = fs::read_to_string(cluster.data().join("node-3.toml")).unwrap();
    let (before, section) = own.split_once("[network.whatsapp]").unwrap();
    let after = section.split_once("\n[").map(|(_, rest)| format!("[{rest}")).unwrap_or_default();
    let other = cluster.data().join("other.toml");
    fs::write(&other, format!("{before}{after}")).unwrap();
    let args = vec![
        "run".to_owned(),
        format!("--config={}", other.display()),
        "--set=network.driver=simulated".to_owned(),
        "--set=network.address=127.0.0.1:9".to_owned(),
    ];
    let folder = cluster.data().to_owned();
    let refused = tokio::task::spawn_blocking(move || binary::run(&args, &folder, seconds(60))).await.unwrap();
    let line = refused.stderr.lines().last().unwrap_or_default();
    assert!(refused.code() == Some(2) && line.contains("network.driver"), "{refused:?}");
    // With the same driver as the others, it starts.
    cluster.restart(&[3]).await;
}
