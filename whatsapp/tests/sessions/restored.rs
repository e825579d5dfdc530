//! A channel that was restored from a backup: the network has seen more of it than is stored.

use network::driver::{EndReason, Purpose, RESTORED};
use serde_json::json;

use crate::world::{CHANNEL, World, until};

/// The highest id of a one-time prekey that the channel has offered.
async fn highest_prekey(world: &World) -> u64 {
    let devices = world.get(&format!("/devices/{CHANNEL}")).await;
    let highest = devices["data"].as_array().unwrap().iter().filter_map(|device| device["highest_prekey_id"].as_u64());
    highest.max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_channel_offers_new_prekeys_though_its_first_log_in_came_to_nothing() {
    let mut world = World::new().await;
    let line = world.pair().await;
    until("the channel offers prekeys", async || (highest_prekey(&world).await > 0).then_some(())).await;
    line.session.drain().await;
    drop(line);
    let before = highest_prekey(&world).await;
    world.store.rows.lock().insert(RESTORED.to_owned(), Vec::new());
    let failure = format!("/devices/{CHANNEL}/1/failure");
    world.post(&failure, json!({ "reason": 503 })).await;
    let mut line = world.open(Purpose::Login).await;
    assert!(matches!(line.ended().await, EndReason::Transport(_)));
    drop(line);
    world.call("DELETE", &failure, None).await;
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    let is_over = async || (!world.store.rows.lock().contains_key(RESTORED)).then_some(());
    until("the network has prekeys that the channel can use", is_over).await;
    assert!(highest_prekey(&world).await > before + 20_000);
    line.send("3EB0A1", "from the backup").await;
    line.accepted("3EB0A1").await;
    until("the phone reads it", async || (world.inbox().await == ["from the backup"]).then_some(())).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_restored_twice_offers_no_prekey_under_an_id_of_the_other_time() {
    let mut world = World::new().await;
    let line = world.pair().await;
    until("the channel offers prekeys", async || (highest_prekey(&world).await > 0).then_some(())).await;
    line.session.drain().await;
    drop(line);
    let mut backup = world.store.rows.lock().clone();
    backup.insert(RESTORED.to_owned(), Vec::new());
    for _ in 0..2 {
        *world.store.rows.lock() = backup.clone();
        let mut line = world.open(Purpose::Login).await;
        line.logged_in().await;
        let is_over = async || (!world.store.rows.lock().contains_key(RESTORED)).then_some(());
        until("the network has prekeys that the channel can use", is_over).await;
        line.session.drain().await;
    }
    world.assert_clean().await;
}
