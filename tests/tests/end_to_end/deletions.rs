//! Deletions of many records: none of them is valid afterwards, whichever node dies before all are deleted.

use std::collections::BTreeSet;

use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options, wait_gone};
use tests::http::{string, time, try_answer};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

/// Enough for three portions.
const KEYS: usize = 450;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_between_two_portions_of_a_deletion_leaves_no_key_that_works_and_the_rest_to_the_leader() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let shards = cluster.operator(1, &tenant.client).get("/v1/admin/shards").await.expect(200);
    let directory = shards["data"].as_array().unwrap().iter().find(|row| row["kind"] == "directory").unwrap();
    let leader = directory["leader"].as_u64().unwrap();
    let deleting = [1, 2, 3].into_iter().find(|node| *node != leader).unwrap();
    let api = tenant.api(leader);
    let channel = tenant.channel("Keyed").await;
    let body = json!({ "name": "bound", "scopes": ["messages.read"], "channel_id": channel });
    let minted = futures::stream::iter((0..KEYS).map(|_| api.post("/v1/api-keys", body.clone()))).buffer_unordered(16);
    let minted: Vec<Value> = minted.map(|answer| answer.expect(201)).collect().await;

    let point = "/v1/admin/failpoints/deletion::portion";
    cluster.operator(deleting, &tenant.client).put(point, json!({ "actions": "return" })).await.expect(204);
    let pid = cluster.node(deleting).pid;
    let delete = tenant.api(deleting).request(Method::DELETE, &format!("/v1/channels/{channel}"));
    assert!(try_answer(delete).await.is_err(), "the node dies before it answers");
    wait_gone(pid, seconds(10));

    // Some keys are deleted already, others are only invalid.
    for key in minted.iter().step_by(KEYS / 30) {
        let refused = api.with_key(&string(&key["secret"])).get("/v1/channels").await;
        time(&refused.expect_error(401, "auth_revoked")["revoked_at"]);
        let shown = api.get(&format!("/v1/api-keys/{}", string(&key["id"]))).await.expect(200);
        assert_eq!(shown["status"], "revoked", "{shown}");
    }
    api.get(&format!("/v1/channels/{channel}")).await.expect_error(404, "channel_not_found");
    api.get("/v1/channels").await.expect(200);

    let minted: BTreeSet<String> = minted.iter().map(|key| string(&key["id"])).collect();
    eventually("every revocation is in the audit log once", seconds(60), async || {
        let mut told = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = format!("/v1/account/audit-log?action=key.revoked&limit=100{cursor}");
            let page = api.get(&page).await.expect(200);
            told.extend(page["data"].as_array().unwrap().iter().map(|entry| string(&entry["target"]["id"])));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let keys: BTreeSet<String> = told.iter().cloned().collect();
        assert_eq!(told.len(), keys.len(), "none is told of twice");
        check(keys == minted, format!("{} of {KEYS} are told of", keys.len()))
    })
    .await;
    cluster.restart(&[deleting]).await;
    let refused = tenant.api(deleting).get(&format!("/v1/channels/{channel}")).await;
    refused.expect_error(404, "channel_not_found");
}
