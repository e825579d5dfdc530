//! The owner dies at each of the driver's own steps, early and later in a burst of sends and of messages that come in. All that
//! the storm proves holds after each.

use reqwest::Method;
use serde_json::json;
use tests::cluster::wait_gone;
use tests::http::try_answer;
use tests::wait::seconds;

use crate::cluster;
use crate::storm::Storm;

const CHANNELS: usize = 4;

/// A channel's sends around each death.
const EACH: usize = 8;

/// The failpoints that sends, messages that come in and log-ins pass, and how often they are passed before it is the end.
const STEPS: [(&str, &[usize]); 7] = [
    // A session or a raised lease is made, and not committed; prekeys are stored and not offered.
    ("whatsapp::before_commit", &[0, 3, 9]),
    // It is committed, and nothing that rests on it has left.
    ("whatsapp::after_commit", &[0, 3, 9]),
    ("whatsapp::before_write", &[0, 4, 11]),
    // It has left, and nobody here knows.
    ("whatsapp::after_write", &[0, 4, 11]),
    // Messages are decrypted and kept as rows, and their owner has not heard of them.
    ("whatsapp::before_hook", &[0, 2]),
    // Their owner has them, and no receipt has left.
    ("whatsapp::after_hook", &[0, 2]),
    ("whatsapp::dial", &[0]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_dies_at_any_step_of_the_driver_loses_and_doubles_nothing_and_uses_no_key_twice() {
    let cluster = cluster(3).await;
    let deaths: usize = STEPS.iter().map(|(_, passed)| passed.len()).sum();
    let storm = Storm::gather(&cluster, CHANNELS, EACH * deaths).await;
    let mut round = 0;
    for (point, all_passed) in STEPS {
        for passed in all_passed {
            let victim = storm.owner(round).await;
            let actions = if *passed == 0 { "1*return".to_owned() } else { format!("{passed}*off->1*return") };
            let armed = format!("/v1/admin/failpoints/{point}");
            let arm = cluster.operator(victim, &storm.tenant.client).request(Method::PUT, &armed);
            // Its death may come before its answer.
            if let Ok(answer) = try_answer(arm.json(&json!({ "actions": actions }))).await {
                answer.expect(204);
            }
            let strike = async {
                if point == "whatsapp::dial" {
                    let api = storm.tenant.api(victim);
                    let restart = storm.channels[round % CHANNELS].path("/restart");
                    let _ = try_answer(api.request(Method::POST, &restart)).await;
                }
                let pid = cluster.node(victim).pid;
                tokio::task::spawn_blocking(move || wait_gone(pid, seconds(60))).await.unwrap();
                cluster.restart(&[victim]).await;
            };
            futures::join!(storm.rage(EACH), strike);
            println!("{point} after {passed}: node {victim} died");
            round += 1;
        }
    }
    storm.prove().await;
}
