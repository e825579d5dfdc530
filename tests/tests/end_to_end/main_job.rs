//! The gateway's main job, through every node of a cluster.

use crate::journey;
use tests::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_main_job_is_done_through_the_first_node() {
    journey::main_job(&Cluster::shared().await, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_main_job_is_done_through_the_second_node() {
    journey::main_job(&Cluster::shared().await, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_main_job_is_done_through_the_third_node() {
    journey::main_job(&Cluster::shared().await, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_is_linked_by_a_typed_code_as_well_as_by_a_qr() {
    journey::pair_code(&Cluster::shared().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipient_that_cannot_be_reached_is_refused_with_its_reason() {
    journey::undeliverable(&Cluster::shared().await).await;
}
