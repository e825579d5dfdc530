//! The owner dies at each step of a pairing: either the phone shows a failed link and another code comes, or the
//! channel connects without one. It must never be linked at the phone and logged out here.

use serde_json::{Value, json};
use tests::http::string;
use tests::tenant::{CONNECT, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

use crate::{assert_clean, cluster};

/// Not a failpoint: the owner dies while its code is shown, before a phone scans it.
const SHOWN: &str = "the code is shown";

/// The step at which the owner dies, after the code is shown: the failpoint, and how often it is passed before.
const STEPS: [(&str, usize); 7] = [
    (SHOWN, 0),
    // Between the network's confirmation of the pairing and the commit of the new identity.
    ("whatsapp::before_commit", 0),
    // The identity is committed, and the network does not know.
    ("whatsapp::after_commit", 0),
    // The answer is about to be written.
    ("whatsapp::before_write", 0),
    // The network has the answer, and the owner has not reported the pairing.
    ("whatsapp::after_write", 0),
    // Before the second login.
    ("whatsapp::dial", 0),
    // During the second login.
    ("whatsapp::before_write", 3),
];

async fn code(tenant: &Tenant, node: u64, channel: &str) -> String {
    eventually("a code", CONNECT, async || {
        let qr = tenant.api(node).get(&format!("/v1/channels/{channel}/qr?format=raw")).await;
        if qr.status == 200 { Ok(string(&qr.json()["raw"])) } else { Err(qr.text()) }
    })
    .await
}

async fn devices(tenant: &Tenant, phone: &str) -> Vec<Value> {
    tenant.simulator().get_phone(phone).await["devices"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_dies_at_any_step_of_a_pairing_leaves_no_phone_linked_to_nothing() {
    let cluster = cluster(3).await;
    let tenant = Tenant::new(&cluster).await;
    let (network, friend) = (tenant.simulator(), number());
    network.phone(&friend, json!({})).await;
    let (mut survived, mut failed, mut pairings) = (0, 0, 0);
    for (point, passed) in STEPS {
        let phone = number();
        network.phone(&phone, json!({})).await;
        let channel = tenant.channel(point).await;
        // The code is requested at one node and shown by another.
        code(&tenant, 1, &channel).await;
        let raw = code(&tenant, 2, &channel).await;
        let owner = tenant.owner(3, &channel).await.node;
        if point == SHOWN {
            cluster.kill(owner);
        } else {
            let actions = if passed == 0 { "1*return".to_owned() } else { format!("{passed}*off->1*return") };
            let armed = format!("/v1/admin/failpoints/{point}");
            cluster.operator(owner, &tenant.client).put(&armed, json!({ "actions": actions })).await.expect(204);
        }
        let shown = network.try_scan(&phone, &raw).await;
        tests::cluster::wait_gone(cluster.node(owner).pid, seconds(30));
        let api = tenant.any();
        let status = eventually("the channel comes to rest", seconds(60), async || {
            let status = string(&api.get(&format!("/v1/channels/{channel}")).await.expect(200)["status"]);
            let rests = ["connected", "qr", "logged_out", "pending", "failed"].contains(&status.as_str());
            // The next owner continues from status `qr` with what the former one had stored.
            let linked = devices(&tenant, &phone).await;
            let is_whole = status == "connected" || linked.is_empty();
            check(rests && is_whole, format!("{status}, linked {}", linked.len())).map(|()| status)
        })
        .await;
        let linked = devices(&tenant, &phone).await;
        println!("{point} after {passed}: the phone says {shown:?}, the channel is {status}, linked {}", linked.len());
        if status == "connected" {
            survived += 1;
        } else {
            failed += 1;
            let api = tenant.any();
            tests::tenant::pair(&api, &network, &channel, &phone).await;
        }
        pairings += 1;
        wait_status(&tenant.any(), &channel, "connected", CONNECT).await;
        let sent = tenant.any().post(&format!("/v1/channels/{channel}/messages"), text(&friend, point)).await;
        let id = string(&sent.expect(202)["message_id"]);
        eventually("the friend reads it", CONNECT, async || {
            let inbox = network.inbox(&friend).await;
            check(inbox.iter().any(|row| row["id"] == id.as_str()), format!("{inbox:?}"))
        })
        .await;
        cluster.restart(&[owner]).await;
    }
    assert!(survived >= 2 && failed >= 1, "{survived} went on, {failed} began anew");
    assert_clean(&network, pairings).await;
}
