//! A cluster of one node does all that the gateway does.

use crate::journey;
use tests::cluster::{Cluster, Options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_alone_does_the_main_job() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    assert_eq!(cluster.node_ids().len(), 1);
    journey::main_job(&cluster, 0).await;
    journey::pair_code(&cluster).await;
    journey::undeliverable(&cluster).await;
}
