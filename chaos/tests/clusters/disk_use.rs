//! A node's folder stops growing under steady load. Takes 45 s.

use std::time::Duration;

use chaos::bench::day::{Plan, measure};

use crate::machine;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_do_not_grow_once_all_that_is_kept_for_a_time_has_come_round() {
    let _machine = machine().await;
    let plan = Plan { channels: 8, sends_per_second: 100, windows: 8, length: Duration::from_secs(4) };
    let day = measure(plan, |window| println!("{window:?}")).await.unwrap();
    let (most, bound) = day.bound().unwrap();
    assert!(most <= bound, "{most:.1} MiB, and no more than {bound:.1} were to be: {day:?}");
    let last = day.windows.last().unwrap();
    assert!(last.accepted > 500, "a load that does not go on proves nothing: {last:?}");
}
