//! The signed prekey, which the library exchanges for another every week.

use std::time::Duration;

use network::driver::Purpose;
use serde_json::json;
use wacore::store::Device;

use crate::world::{CHANNEL, Store, World, until};

/// Makes the stored device one whose signed prekey is eight days old.
fn age(store: &Store) {
    let mut rows = store.rows.lock();
    let row = rows.get_mut("credentials").unwrap();
    // The first byte is the shape's.
    let mut device: Device = rmp_serde::from_slice(&row[1..]).unwrap();
    device.last_signed_pre_key_rotation_ms -= 8 * 86_400_000;
    let mut aged = vec![row[0]];
    rmp_serde::encode::write_named(&mut aged, &device).unwrap();
    *row = aged;
}

async fn signed_prekey(world: &World) -> u64 {
    world.get(&format!("/devices/{CHANNEL}")).await["data"][0]["signed_prekey_id"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_dies_amid_the_exchange_of_the_signed_prekey_reads_who_writes_for_the_first_time() {
    const DEATHS: u64 = 8;
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let first = signed_prekey(&world).await;
    for death in 0..DEATHS {
        world.store = world.store.inherit();
        line.session.kill();
        age(&world.store);
        line = world.open(Purpose::Login).await;
        line.logged_in().await;
        // Now here, now there in the middle of it.
        tokio::time::sleep(Duration::from_millis(6 * death)).await;
        line = world.take_over(line).await;
        let stranger = format!("1555001{death:04}");
        world.post("/phones", json!({ "number": stranger })).await;
        let body = json!({ "type": "text", "to": CHANNEL, "text": stranger });
        world.post(&format!("/phones/{stranger}/messages"), body).await;
        // What the owner before it had acknowledged may come again.
        while line.message().await.1 != stranger {}
    }
    until("the network has another one", async || (signed_prekey(&world).await > first).then_some(())).await;
    world.assert_clean().await;
}
