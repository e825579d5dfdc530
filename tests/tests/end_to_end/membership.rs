//! The life of a cluster: made by `gateway init`, grown by `gateway join`, and the loss and removal of nodes.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::{Value, json};
use tests::cluster::SHARDS;
use tests::grown::{Grown, MOVES};
use tests::http::string;
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

/// Sends a text through a node, and asserts that it is accepted.
async fn send(tenant: &Tenant, node: u64, channel: &Paired, to: &str, words: &str) -> String {
    let answer = tenant.api(node).post(&channel.path("/messages"), text(to, words)).await;
    assert_eq!(answer.status, 202, "{words}: {}", answer.text());
    string(&answer.json()["message_id"])
}

/// Waits until each of these texts has reached a phone exactly once.
async fn arrived(tenant: &Tenant, to: &str, expected: &[String]) {
    eventually("every text has arrived once", seconds(60), async || {
        let inbox = tenant.simulator().inbox(to).await;
        let copies = |id: &String| inbox.iter().filter(|row| row["id"] == json!(id)).count();
        let wrong: Vec<_> = expected.iter().filter(|id| copies(id) != 1).collect();
        check(wrong.is_empty(), format!("{} of {}: {wrong:?}", wrong.len(), expected.len()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grows_from_one_node_to_three_and_then_survives_the_loss_of_the_first() {
    let mut grown = Grown::start().await;
    for (file, mode) in
        [("ca.key", 0o600), ("node.key", 0o600), ("master.key", 0o600), ("operator.token", 0o600), ("ca.pem", 0o644)]
    {
        let metadata = std::fs::metadata(grown.dir(1).join(file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
    }
    let tenant = Tenant::new(&grown.cluster).await;
    let channel = tenant.paired("First").await;
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let mut sent = vec![send(&tenant, 1, &channel, &to, "alone").await];

    grown.join(1, 2).await;
    let layout = grown.settled(1, 2, &[]).await;
    assert_eq!(layout["change"]["automatic"], true, "{layout}");
    sent.push(send(&tenant, 2, &channel, &to, "two").await);
    grown.join(2, 3).await;
    grown.settled(3, 3, &[]).await;
    sent.push(send(&tenant, 3, &channel, &to, "three").await);
    eventually("all three nodes are active voters and lead their shares", MOVES, async || {
        for id in 1..=3 {
            let row = grown.node_row(3, id).await.ok_or("no row")?;
            let owns = row["owns"].as_array().map_or(0, Vec::len);
            let well = row["member"] == "active" && row["votes"] == true && row["state"] == "ready";
            check(well && (1..=SHARDS / 3 + 1).contains(&owns), row.to_string())?;
        }
        Ok(())
    })
    .await;

    // Data that only the first node had accepted at first survives the loss of that node.
    grown.kill(1);
    wait_status(&tenant.api(2), &channel.id, "connected", CONNECT).await;
    sent.push(send(&tenant, 3, &channel, &to, "without the first").await);
    arrived(&tenant, &to, &sent).await;
    let history = tenant.api(2).get(&channel.path("/messages")).await.expect(200);
    assert_eq!(history["data"].as_array().unwrap().len(), sent.len(), "{history}");

    // The killed node returns with its id.
    grown.run(1, 1);
    grown.cluster.wait_ready(1, &grown.client).await;
    assert_eq!(tenant.simulator().stat("conflicts").await, 0);
}

/// A certificate for a node and its key, signed by the cluster's own authority, valid until the start of a year.
pub fn certificate(grown: &Grown, id: u64, year: i32) -> (PathBuf, PathBuf) {
    let authority = KeyPair::from_pem(&std::fs::read_to_string(grown.dir(1).join("ca.key")).unwrap()).unwrap();
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name = rcgen::DistinguishedName::new();
    issuer.distinguished_name.push(DnType::CommonName, "gateway cluster authority");
    let mut params = CertificateParams::new(vec![format!("node-{id}.gateway.internal")]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &Issuer::new(issuer, authority)).unwrap();
    let files = ["pem", "key"].map(|kind| grown.dir(1).join(format!("forged-{id}.{kind}")));
    std::fs::write(&files[0], certificate.pem()).unwrap();
    std::fs::write(&files[1], key.serialize_pem()).unwrap();
    let [cert, key] = files;
    (cert, key)
}

/// The address in a place's configuration at which its node is reached.
fn place_address(grown: &Grown, place: u16) -> String {
    let config = std::fs::read_to_string(grown.dir(place).join("gateway.toml")).unwrap();
    let line = config.lines().find(|line| line.starts_with("advertise = ")).unwrap();
    line.split('"').nth(1).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_in_but_with_a_token_of_its_own() {
    let mut grown = Grown::start().await;
    let token = grown.token(1).await;

    // A token with another authority, as one of another cluster.
    let foreign = format!("{}.{}", token.split('.').next().unwrap(), "A".repeat(43));
    let (_, refused) = grown.try_join(&foreign, 1, &[]).await;
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("not of the cluster"), "{}", refused.stderr);

    // A token that nobody issued, and a string that is no token.
    let mut other = token.clone();
    other.replace_range(4..8, if &token[4..8] == "AAAA" { "BBBB" } else { "AAAA" });
    let (_, refused) = grown.try_join(&other, 1, &[]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("not known"), "{}", refused.stderr);
    let tenant = Tenant::new(&grown.cluster).await;
    let (third, refused) = grown.try_join(&tenant.key, 1, &[]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("gwj_"), "{}", refused.stderr);

    // Problems of the machine itself are found before the token is used: the folder of another node, and a bad weight.
    let theirs = grown.dir(third).join("data");
    std::fs::create_dir_all(&theirs).unwrap();
    std::fs::copy(grown.dir(1).join("data/identity.json"), theirs.join("identity.json")).unwrap();
    let refused = grown.join_at(third, &token, 1, &[]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("belongs to node 1"), "{}", refused.stderr);
    std::fs::remove_dir_all(&theirs).unwrap();
    let refused = grown.join_at(third, &token, 1, &["--weight", "0"]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("node.weight"), "{}", refused.stderr);
    let nodes = grown.operator(1).get("/v1/admin/nodes").await.expect(200);
    assert_eq!(nodes["data"].as_array().unwrap().len(), 1, "{nodes}");

    // A token admits one node; the same place may repeat its request.
    let (second, joined) = grown.try_join(&token, 1, &["--zone", "b"]).await;
    assert!(joined.succeeded().stdout.contains("node 2 of a cluster of 2"));
    let (_, refused) = grown.try_join(&token, 1, &["--zone", "b"]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("was used by another node"), "{}", refused.stderr);
    // In a cluster with zones, a machine has to name its own; this is checked before the token is used.
    let (_, refused) = grown.try_join(&grown.token(1).await, 1, &[]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("zones (b, default)"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--zone"), "{}", refused.stderr);
    let mode = std::fs::metadata(grown.dir(second).join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "messages are not sealed there");
    let log = grown.operator(1).get("/v1/admin/audit-log?limit=100").await.expect(200);
    let address = place_address(&grown, second);
    let entries = |action: &str| {
        let all = log["data"].as_array().unwrap().iter().filter(|entry| entry["action"] == action);
        all.filter(|entry| entry["target"]["type"] == "node").cloned().collect::<Vec<_>>()
    };
    let joined = entries("node.joined");
    assert!(joined.len() == 1 && joined[0]["target"]["label"] == json!(address), "{log}");
    let refused = entries("auth.failed");
    assert!(refused.len() == 2 && refused.iter().all(|entry| entry["outcome"] == "failure"), "{log}");
    let again = grown.join_at(second, &token, 1, &[]).await;
    assert!(again.stderr.contains("holds a node's configuration already"), "{}", again.stderr);

    // With the token and the id of the folder, the keys are returned once more, and no more than that, in case the
    // response was lost.
    let identity = std::fs::read_to_string(grown.dir(second).join("data/identity.json")).unwrap();
    let storage_id = serde_json::from_str::<Value>(&identity).unwrap()["storage_id"].clone();
    let token_file = grown.dir(third).with_extension("token");
    std::fs::write(
        &token_file,
        format!("{token}\none node can join with this token until then; on its machine, run:\n"),
    )
    .unwrap();
    let repeat = async || {
        let _ = std::fs::remove_dir_all(grown.dir(third));
        std::fs::create_dir(grown.dir(third)).unwrap();
        std::fs::write(grown.dir(third).join("joining.json"), json!({ "storage_id": storage_id }).to_string()).unwrap();
        // `--token-file` takes precedence over `--token`.
        grown.join_at(third, "gwj_none", 1, &["--zone", "b", "--token-file", token_file.to_str().unwrap()]).await
    };
    assert!(repeat().await.succeeded().stdout.contains("node 2 of a cluster"));
    let refused = repeat().await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("was used by another node"), "{}", refused.stderr);
    assert!(!grown.dir(third).join("master.key").exists());

    // An API key does not open the peer port: there is no readable response.
    let peer = grown.cluster.node(1).peer;
    let plain = grown.client.get(format!("http://{peer}/v1/account")).bearer_auth(&tenant.key).send().await;
    assert!(plain.is_err(), "{plain:?}");

    // Certificates of the right authority: one for an unknown node id, and one that has expired.
    for (id, year, reason) in [(9, 2100, "no member of this cluster"), (2, 2001, "xpired")] {
        let (cert, key) = certificate(&grown, id, year);
        let finished = grown.run_as(id, &cert, &key).await;
        assert_eq!(finished.code(), Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(reason), "{}", finished.stderr);
    }
    let nodes = grown.operator(1).get("/v1/admin/nodes").await.expect(200);
    let ids: Vec<_> = nodes["data"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2], "refused attempts made no node: {nodes}");
    assert_eq!(grown.node_row(1, 2).await.unwrap()["member"], "joining");
}

/// A customer that has sent messages.
struct Customer {
    tenant: Tenant,
    channel: Paired,
    to: String,
    sent: Vec<String>,
}

/// Three settled nodes with a customer.
async fn three_with_a_customer() -> (Grown, Customer) {
    let mut grown = Grown::start().await;
    grown.join(1, 2).await;
    grown.join(1, 3).await;
    grown.settled(1, 3, &[]).await;
    let tenant = Tenant::new(&grown.cluster).await;
    let channel = tenant.paired("Kept").await;
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let sent = vec![send(&tenant, 1, &channel, &to, "before").await];
    (grown, Customer { tenant, channel, to, sent })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_removed_and_replaced_under_a_new_id_and_its_old_folder_stays_out() {
    let (mut grown, Customer { tenant, channel, to, mut sent }) = three_with_a_customer().await;

    // With one node down, removing another would leave no quorum.
    grown.kill(3);
    let refused = eventually("the dead node is known to be down", seconds(30), async || {
        let answer = grown.operator(1).delete("/v1/admin/nodes/2").await;
        check(answer.status == 400, answer.text())?;
        Ok(answer.json())
    })
    .await;
    let message = string(&refused["error"]["message"]);
    assert!(message.contains("would be left with") && message.contains("node 1"), "{message}");

    grown.operator(2).delete("/v1/admin/nodes/3").await.expect(202);
    grown.settled(1, 2, &[3]).await;
    eventually("the dead node is gone", MOVES, async || check(grown.node_row(2, 3).await.is_none(), "it is listed"))
        .await;
    sent.push(send(&tenant, 2, &channel, &to, "with two").await);

    // A node that returns with the removed id is refused, with its folder or without.
    grown.run(3, 3);
    let log = grown.cluster.node(3).log;
    eventually("the removed node ends", seconds(60), async || {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        check(said.contains("no member of this cluster") || said.contains("was removed"), said)
    })
    .await;
    grown.cluster.note_gone(3);

    grown.join(2, 4).await;
    grown.settled(4, 3, &[3]).await;
    sent.push(send(&tenant, 4, &channel, &to, "with its successor").await);
    arrived(&tenant, &to, &sent).await;
    grown.operator(1).get("/v1/admin/nodes").await.expect(200);
    let late = grown.operator(1).delete("/v1/admin/nodes/3").await;
    late.expect_error(404, "not_found");
}

#[test]
fn a_master_key_that_lies_in_a_folder_is_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, data) = (folder.path().join("etc"), folder.path().join("data"));
    std::fs::create_dir(&dir).unwrap();
    let key = dir.join("master.key");
    std::fs::write(&key, "ab".repeat(32)).unwrap();
    let args = ["init", "--dir", "etc", "--data-dir", "data", "--advertise", "localhost:7000"];
    let more = ["--network", "localhost:7001", "--base-url", "http://localhost:7002"];
    let refused = tests::binary::run(&[&args[..], &more].concat(), folder.path(), seconds(20));
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("master.key") && refused.stderr.contains("only copy"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "ab".repeat(32));
    assert_eq!((std::fs::read_dir(&dir).unwrap().count(), data.exists()), (1, false));

    // A data folder with a relative path is found from any working directory.
    std::fs::remove_file(key).unwrap();
    tests::binary::run(&[&args[..], &more].concat(), folder.path(), seconds(20)).succeeded();
    let config = std::fs::read_to_string(dir.join("gateway.toml")).unwrap();
    assert!(config.contains(&format!("data_dir = \"{}\"", data.display())), "{config}");
    // One shard for each core of each of three nodes, at least two a node.
    let cores = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 16);
    assert!(config.contains(&format!("shards = {}", 3 * cores)), "{config}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_that_made_the_cluster_makes_no_second_one_when_its_folder_is_lost() {
    let (mut grown, Customer { tenant, channel, to, mut sent }) = three_with_a_customer().await;

    // The configuration of node 1 names only that node, since the others joined later.
    grown.kill(1);
    let first = grown.cluster.node(1);
    std::fs::remove_dir_all(&first.data).unwrap();
    grown.run(1, 1);
    eventually("the node refuses the empty folder", seconds(30), async || {
        let said = std::fs::read_to_string(&first.log).unwrap_or_default();
        check(said.contains("is empty") && said.contains("join under a new id") && said.contains("gateway init"), said)
    })
    .await;
    grown.cluster.note_gone(1);
    assert!(!first.data.join("identity.json").exists());
    sent.push(send(&tenant, 2, &channel, &to, "with two").await);

    grown.operator(2).delete("/v1/admin/nodes/1").await.expect(202);
    grown.settled(2, 2, &[1]).await;
    grown.join(2, 4).await;
    grown.settled(4, 3, &[1]).await;
    sent.push(send(&tenant, 4, &channel, &to, "with its successor").await);
    arrived(&tenant, &to, &sent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_leads_nothing_until_it_is_undrained() {
    let mut grown = Grown::start().await;
    grown.join(1, 2).await;
    grown.settled(1, 2, &[]).await;
    let owns = async |grown: &Grown, id: u64| -> Result<(Value, usize), String> {
        let row = grown.node_row(1, id).await.ok_or("no row")?;
        let owns = row["owns"].as_array().map_or(0, Vec::len);
        Ok((row, owns))
    };
    eventually("both lead", MOVES, async || {
        let (row, leads) = owns(&grown, 2).await?;
        check(leads + 1 >= SHARDS / 2, row.to_string())
    })
    .await;
    grown.operator(1).post("/v1/admin/nodes/2/drain", json!({})).await.expect(202);
    eventually("the drained node leads nothing", seconds(30), async || {
        let (row, leads) = owns(&grown, 2).await?;
        check(leads == 0 && row["state"] == "draining" && row["member"] == "draining", row.to_string())
    })
    .await;
    let ready = grown.cluster.api(2, &grown.client).get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["checks"]["drain"]), (503, &json!("yes")));
    // The node is still drained after a restart.
    grown.stop(2).await;
    grown.run(2, 2);
    eventually("the node is back and still drained", seconds(60), async || {
        let (row, _) = owns(&grown, 2).await?;
        check(row["state"] == "draining", row.to_string())
    })
    .await;
    grown.operator(1).post("/v1/admin/nodes/2/undrain", json!({})).await.expect(202);
    eventually("it leads its share again", seconds(60), async || {
        let (row, leads) = owns(&grown, 2).await?;
        check(leads + 1 >= SHARDS / 2 && row["state"] == "ready", row.to_string())
    })
    .await;
}
